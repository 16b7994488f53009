"""Files of a source: what they are, how to tell whether they changed, how to open them.

Standard input as a file: what was looked at is still counted, and it is counted only once.
"""

import glob
import hashlib
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

from vocabfreq.corpus.blocks import BLOCK, BOM
from vocabfreq.errors import SourceError

Format = Literal["jsonl", "json", "txt", "parquet", "arrow", "hub"]

STDIN = "-"
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".txt": "txt",
    ".md": "txt",
    ".py": "txt",
    ".rst": "txt",
}
COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_SAMPLE = 64 << 10


@dataclass(frozen=True)
class InputFile:
    """One file of a source.

    Attributes:
        path: a local path, an `hf://` address, or `-`.
        format: how it is read.
        compression: `gz`, `zst` or None.
        size: bytes; 0 for standard input.
        stamp: changes when the content does (size, mtime, sampled hash; the commit for the Hub).
    """

    path: str
    format: Format
    compression: str | None
    size: int
    stamp: str

    @property
    def name(self) -> str:
        """Base name, which is all that may be published."""
        return self.path if self.path == STDIN else os.path.basename(self.path)

    def check_unchanged(self) -> None:
        """Compares size and time of a local file with those when the build was planned.

        Raises:
            SourceError: it was written to since, so that its pieces may not fit together.
        """
        if self.path == STDIN or "://" in self.path:
            return
        if not self.stamp.startswith(_stamp(os.stat(self.path))):
            raise SourceError(
                f"{self.name} is no longer what was planned: it has changed",
                hint="run the same build again; a plan file has to be made anew first",
            )

    def open(self) -> IO[bytes]:
        """Opens it for reading bytes."""
        if self.path == STDIN:
            return standard_input()  # type: ignore[return-value]
        if "://" in self.path:
            return open_remote(self.path)
        return open(self.path, "rb")


def open_remote(path: str) -> IO[bytes]:
    """Opens an `hf://` address by range requests."""
    from huggingface_hub import HfFileSystem

    opened: Any = HfFileSystem().open(path, "rb")
    return opened  # type: ignore[no-any-return]


@contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Says which file it was that the system could not read; a failed `read` does not.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {error.strerror or error}") from None


def format_of(path: str) -> tuple[Format, str | None]:
    """Format and compression by the name of a file.

    Raises:
        SourceError: the name says nothing that we read.
    """
    stem, suffix = os.path.splitext(path.lower())
    compression = COMPRESSIONS.get(suffix)
    ending = os.path.splitext(stem)[1] if compression else suffix
    found = SUFFIXES.get(ending)
    if found is None or (compression and found in ("parquet", "arrow")):
        raise SourceError(
            f"cannot tell how to read {path!r}",
            expected=f"a name that ends in {', '.join(SUFFIXES)} (.gz or .zst may follow)",
            hint="turn it into one of those, or rename it if it is one",
        )
    return found, compression


def local_files(spec: str) -> list[InputFile]:
    """The files that a path or glob names, sorted by name.

    Raises:
        SourceError: there are none, or the path is a directory.
    """
    if os.path.isdir(spec):
        raise SourceError(f"{spec!r} is a directory", **_inside(spec))
    if os.path.isfile(spec):
        return [local_file(spec)]
    paths = sorted(p for p in glob.glob(spec, recursive=True) if os.path.isfile(p))
    if not paths:
        raise SourceError(f"no file matches {spec!r}", **_inside(os.path.dirname(spec) or "."))
    return [local_file(path) for path in paths]


def local_file(path: str) -> InputFile:
    """Looks at one local file."""
    found, compression = format_of(path)
    with named_errors(path):
        stat = os.stat(path)
        stamp = f"{_stamp(stat)}{_sampled_hash(path, stat.st_size)}"
    return InputFile(path, found, compression, stat.st_size, stamp)


def _stamp(stat: os.stat_result) -> str:
    return f"{stat.st_size}-{stat.st_mtime_ns}-"


def _sampled_hash(path: str, size: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for start in sorted({0, max(size // 2, 0), max(size - _SAMPLE, 0)}):
            file.seek(start)
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]


def _inside(folder: str) -> dict[str, Any]:
    """What a reader of the error could have meant."""
    try:
        names = sorted(p.name for p in Path(folder).iterdir())
    except OSError:
        return {"hint": f"there is no folder {folder!r}"}
    readable = [name for name in names if _is_readable(name)] or names
    more = f" and {len(readable) - 8} more" if len(readable) > 8 else ""
    listed = ", ".join(readable[:8]) + more if readable else "nothing"
    return {
        "expected": "a file, or a glob such as 'folder/*.jsonl'",
        "hint": f"in {folder!r} there is: {listed}",
    }


def _is_readable(name: str) -> bool:
    try:
        return bool(format_of(name))
    except SourceError:
        return False


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


def standard_input_file(separator: str | None) -> InputFile:
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
