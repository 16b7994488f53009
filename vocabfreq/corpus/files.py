"""Files of a source: what they are, whether they changed, and how to open and decompress them.

Standard input and named pipes are files too. Their first bytes are kept, so that looking at the
format loses nothing; what was read beyond them can be read only once.
"""

import glob
import gzip
import hashlib
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

from vocabfreq.errors import SourceError

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression import zstd
else:
    from backports import zstd

Format = Literal["jsonl", "json", "txt", "csv", "parquet", "arrow", "hub"]
Read = Callable[[int], bytes]

BLOCK = 4 << 20
BOM = b"\xef\xbb\xbf"
STDIN = "-"
SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "txt",
    ".md": "txt",
    ".py": "txt",
    ".rst": "txt",
}
COMPRESSIONS = {".gz": "gz", ".zst": "zst"}
_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}
_SAMPLE = 64 << 10
_PIPE = "pipe"
# What the readers say when something else than a member or frame stands where one could begin.
_NO_MEMBER = ("Not a gzipped file", "Unable to decompress Zstandard data: Unknown frame descriptor")
_LISTED = 8


@dataclass(frozen=True)
class InputFile:
    """One file of a source.

    Attributes:
        path: a local path, an `hf://` address, or `-`.
        format: how it is read; `hub` is streamed by `datasets`.
        compression: `gz`, `zst` or None.
        size: bytes; 0 for standard input and pipes.
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

    @property
    def is_columnar(self) -> bool:
        """Whether it is read by columns (record batches) and not as text."""
        return self.format in ("csv", "parquet", "arrow", "hub")

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once, by this process: standard input, or a named pipe."""
        return self.path == STDIN or self.stamp == _PIPE

    def check_unchanged(self) -> None:
        """Compares size and time of a local file with those when the build was planned.

        Raises:
            SourceError: it was written to since, so that its pieces may not fit together.
        """
        if self.is_stream or "://" in self.path:
            return
        if not self.stamp.startswith(_stat_stamp(os.stat(self.path))):
            raise SourceError(
                f"{self.name} is no longer what was planned: it has changed",
                hint="run the same build again; a plan file has to be made anew first",
            )

    def open(self) -> IO[bytes]:
        """Opens it for reading bytes."""
        if self.is_stream:
            return stream_at(self.path)  # type: ignore[return-value]
        if "://" in self.path:
            return open_remote(self.path)
        return open(self.path, "rb")


@dataclass(frozen=True)
class Piece:
    """A part of a file.

    Attributes:
        file: the file.
        start: first byte, row group or record batch.
        stop: first one after the piece, None for the end of the file.
        size: about how many bytes it has.
    """

    file: InputFile
    start: int = 0
    stop: int | None = None
    size: int = 0


def open_remote(path: str) -> IO[bytes]:
    """Opens an `hf://` address by range requests."""
    from huggingface_hub import HfFileSystem

    opened: Any = HfFileSystem().open(path, "rb")
    return opened  # type: ignore[no-any-return]


@contextmanager
def os_errors_as_source_errors(path: str) -> Iterator[None]:
    """Names the file when the system cannot read it; the error of a failed `read` does not.

    Raises:
        SourceError: it cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise SourceError(f"cannot read {path!r}: {error.strerror or error}") from None


class TruncatedError(Exception):
    """A compressed stream that ends, or turns to nonsense, too early.

    Attributes:
        position: of the damage, in bytes of the compressed file.
    """

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def decompressed(
    raw: IO[bytes],
    compression: str | None,
    on_trailing: Callable[[int], None] = lambda position: None,
) -> Read:
    """A function that reads up to n bytes of content; all members and frames of a file count.

    Args:
        raw: the compressed file.
        compression: `gz`, `zst` or None.
        on_trailing: called with their position when bytes of something else follow the last
            member; they are ignored.

    Raises (from the function):
        TruncatedError: after all that could be read.
    """
    if compression is None:
        return raw.read
    # read1 hands over what there is before it meets a broken end; read would lose it.
    opened: Any = gzip.GzipFile(fileobj=raw) if compression == "gz" else zstd.ZstdFile(raw)

    found, at_end = 0, False

    def read(size: int) -> bytes:
        nonlocal found, at_end
        try:
            data: bytes = b"" if at_end else opened.read1(size)
        except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError) as error:
            if found and str(error).startswith(_NO_MEMBER):
                on_trailing(raw.tell())
                at_end = True
                return b""
            raise TruncatedError(raw.tell()) from None
        found += len(data)
        return data

    return read


def format_of(path: str) -> tuple[Format, str | None]:
    """Format and compression by the name of a file.

    Raises:
        SourceError: the name has no known ending.
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


def local_files(spec: str) -> tuple[list[InputFile], int]:
    """The files that a path, folder or glob names, sorted by name.

    Returns:
        The files, and how many others a folder has that cannot be read.

    Raises:
        SourceError: there are none.
    """
    if os.path.isdir(spec):
        return _files_under(spec)
    if os.path.isfile(spec):
        return [_local_file(spec)], 0
    if os.path.exists(spec) and stat.S_ISFIFO(os.stat(spec).st_mode):
        return [_stream_file(spec, None)], 0
    paths = sorted(p for p in glob.glob(spec, recursive=True) if os.path.isfile(p))
    if not paths:
        folder = os.path.dirname(spec) or "."
        raise SourceError(f"no file matches {spec!r}", **_suggestions(folder))
    return [_local_file(path) for path in paths], 0


def _files_under(folder: str) -> tuple[list[InputFile], int]:
    """The readable files of a folder and its folders; hidden ones are left out."""
    paths = sorted(
        os.path.join(root, name)
        for root, folders, names in os.walk(folder)
        if not os.path.basename(root).startswith(".") or root == folder
        for name in names
        if not name.startswith(".")
    )
    readable = [path for path in paths if _is_readable(path)]
    if not readable:
        raise SourceError(
            f"{folder!r} is a directory without a file to read", **_suggestions(folder)
        )
    return [_local_file(path) for path in readable], len(paths) - len(readable)


def _is_readable(name: str) -> bool:
    try:
        return bool(format_of(name))
    except SourceError:
        return False


def _local_file(path: str) -> InputFile:
    found, compression = format_of(path)
    with os_errors_as_source_errors(path):
        status = os.stat(path)
        stamp = f"{_stat_stamp(status)}{_sampled_hash(path, status.st_size)}"
    return InputFile(path, found, compression, status.st_size, stamp)


def _stat_stamp(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}-"


def _sampled_hash(path: str, size: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for start in sorted({0, size // 2, max(size - _SAMPLE, 0)}):
            file.seek(start)
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]


def _suggestions(folder: str) -> dict[str, Any]:
    """The parts of an error that list the files of a folder."""
    try:
        names = sorted(p.name for p in Path(folder).iterdir())
    except OSError:
        return {"hint": f"there is no folder {folder!r}"}
    readable = [n for n in names if SUFFIXES.keys() & Path(n.lower()).suffixes[-2:]] or names
    more = f" and {len(readable) - _LISTED} more" if len(readable) > _LISTED else ""
    listed = ", ".join(readable[:_LISTED]) + more if readable else "nothing"
    return {
        "expected": "a file, or a glob such as 'folder/*.jsonl'",
        "hint": f"in {folder!r} there is: {listed}",
    }


class ReadOnceStream(io.RawIOBase):
    """A stream that can be read again from its start until `start_counting`."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._head = stream.read(BLOCK)
        self._replay = io.BytesIO(self._head)
        self._is_counting = self._has_dropped = False

    @property
    def head(self) -> bytes:
        """The first bytes."""
        return self._head

    def start_counting(self) -> None:
        """Stops keeping what is read, so that memory does not grow.

        Raises:
            SourceError: it was counted before, and what was read then is gone.
        """
        if self._has_dropped:
            raise SourceError(
                "a pipe or standard input would have to be read again, which it cannot be",
                hint="count it with --encoder tokenizers, or from a file",
            )
        self._is_counting = True

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fills a buffer with what was kept, then with what is new."""
        data = self._replay.read(len(buffer))
        if not data and not self._stream.closed:
            data = self._stream.read(len(buffer))
            if not data and self._is_counting and self._stream is not sys.stdin.buffer:
                self._stream.close()  # a named pipe, read to its end
            self._has_dropped |= self._is_counting and bool(data)
            if not self._is_counting:
                self._head += data
                self._replay = io.BytesIO(self._head)
                self._replay.seek(len(self._head))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Goes back to the start; the stream itself stays open."""
        self._replay.seek(0)


@cache
def stream_at(path: str) -> ReadOnceStream:
    """The one reader of standard input, or of a named pipe."""
    return ReadOnceStream(sys.stdin.buffer if path == STDIN else open(path, "rb"))


def standard_input_file(separator: str | None) -> InputFile:
    """Finds the format of standard input by its first bytes.

    Args:
        separator: of documents of plain text; with one, the input is plain text.

    Raises:
        SourceError: it is empty.
    """
    return _stream_file(STDIN, separator)


def _stream_file(path: str, separator: str | None) -> InputFile:
    head = stream_at(path).head
    if not head:
        name = "standard input" if path == STDIN else repr(path)
        raise SourceError(f"{name} is empty", hint="did the command before the pipe fail?")
    compression = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    try:
        start = decompressed(io.BytesIO(head), compression)(1 << 10)
    except TruncatedError:
        start = b""
    first = start.removeprefix(BOM).lstrip()[:1]
    found: Format = "txt"
    if separator is None and (first == b"{" or (compression and not first)):
        found = "jsonl"
    elif separator is None and first == b"[":
        found = "json"
    return InputFile(path, found, compression, 0, "stdin" if path == STDIN else _PIPE)
