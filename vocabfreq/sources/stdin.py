"""Standard input as a file: its first bytes are looked at and still counted."""

import io
import sys
from functools import cache
from typing import IO

from vocabfreq.sources.blocks import BLOCK
from vocabfreq.sources.files import STDIN, Format, InputFile

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}


class _Rewindable(io.RawIOBase):
    """A stream whose first block can be read again after each `close`, until read past it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.head = stream.read(BLOCK)
        self._rest = io.BytesIO(self.head)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._rest.read(len(buffer)) or self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._rest.seek(0)


@cache
def standard_input() -> IO[bytes]:
    """The one reader of standard input."""
    return _Rewindable(sys.stdin.buffer)  # type: ignore[return-value]


def input_file(separator: str | None) -> InputFile:
    """Tells by the first bytes what comes in: gz, zst, JSON lines, a JSON array, or plain text."""
    stream = standard_input()
    head: bytes = stream.head  # type: ignore[attr-defined]
    compression = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    return InputFile(STDIN, _format(head, compression, separator), compression, 0, "stdin")


def _format(head: bytes, compression: str | None, separator: str | None) -> Format:
    if separator is not None:
        return "txt"
    first = head.lstrip()[:1]
    if compression or first == b"{":
        return "jsonl"
    return "json" if first == b"[" else "txt"
