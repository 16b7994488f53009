"""Standard input as a file: what was looked at is still counted, and it is counted only once."""

import io
import sys
from functools import cache
from typing import IO

from vocabfreq.corpus.blocks import BLOCK, BOM
from vocabfreq.corpus.files import STDIN, Format, InputFile
from vocabfreq.errors import SourceError

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}


class StandardInput(io.RawIOBase):
    """A stream of which the start is kept: as much as was read before `start_counting`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = stream.read(BLOCK)
        self._again = io.BytesIO(self._kept)
        self._counting = self._gone = False

    @property
    def head(self) -> bytes:
        """The first bytes."""
        return self._kept

    def start_counting(self) -> None:
        """From now on nothing more is kept.

        Raises:
            SourceError: it was counted before, and what was not kept is gone.
        """
        if self._gone:
            raise SourceError(
                "standard input would have to be read again, which it cannot be",
                hint="count it with --encoder tokenizers, or from a file",
            )
        self._counting = True

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fills a buffer with what was kept, then with what is new."""
        data = self._again.read(len(buffer))
        if not data:
            data = self._stream.read(len(buffer))
            self._gone |= self._counting and bool(data)
            if not self._counting:
                self._kept += data
                self._again = io.BytesIO(self._kept)
                self._again.seek(len(self._kept))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Goes back to the start; the stream itself stays open."""
        self._again.seek(0)


@cache
def standard_input() -> StandardInput:
    """The one reader of standard input."""
    return StandardInput(sys.stdin.buffer)


def input_file(separator: str | None) -> InputFile:
    """Tells by the first bytes what comes in: gz, zst, JSON lines, a JSON array, or plain text.

    Raises:
        SourceError: nothing comes in.
    """
    head = standard_input().head
    if not head:
        raise SourceError("standard input is empty", hint="did the command before the pipe fail?")
    compression = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    return InputFile(STDIN, _format(head, compression, separator), compression, 0, "stdin")


def _format(head: bytes, compression: str | None, separator: str | None) -> Format:
    if separator is not None:
        return "txt"
    first = head.removeprefix(BOM).lstrip()[:1]
    if compression or first == b"{":
        return "jsonl"
    return "json" if first == b"[" else "txt"
