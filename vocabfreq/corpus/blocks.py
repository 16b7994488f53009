"""Bytes of a file as blocks that end where a record ends, with reading one block ahead."""

import gzip
import queue
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

import msgspec

if sys.version_info >= (3, 14):  # pragma: no cover
    from compression import zstd
else:
    from backports import zstd

BLOCK = 4 << 20
AHEAD = 1
BOM = b"\xef\xbb\xbf"
Reader = Callable[[int], bytes]
T = TypeVar("T")


class TruncatedError(Exception):
    """The file ends, or turns to nonsense, before its compressed stream does."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


def decompressed(raw: IO[bytes], compression: str | None) -> Reader:
    """A function that reads up to n bytes of content; all members and frames of a file count.

    Raises (from the function):
        TruncatedError: with the position in the compressed file, after all that could be read.
    """
    if compression is None:
        return raw.read
    # read1 hands over what there is before it meets a broken end; read would lose it.
    opened: Any = gzip.GzipFile(fileobj=raw) if compression == "gz" else zstd.ZstdFile(raw)

    def read(size: int) -> bytes:
        try:
            data: bytes = opened.read1(size)
        except (EOFError, gzip.BadGzipFile, zlib.error, zstd.ZstdError):
            raise TruncatedError(raw.tell()) from None
        return data

    return read


def record_blocks(
    read: Reader, *, start: int = 0, stop: int | None = None, separator: bytes = b"\n"
) -> Iterator[bytes]:
    """Whole records of a byte range, in blocks of about `BLOCK` bytes.

    A record belongs to the range in which its first byte lies, so that ranges that touch share
    nothing and lose nothing. The reader stands at `start` (or at `start` minus the length of the
    separator when `start` is above 0).

    Args:
        read: reads up to n bytes.
        start: first byte of the range.
        stop: first byte after the range, None for the end of the file.
        separator: what ends a record.
    """
    position = start - len(separator) if start else 0
    rest = b""
    skipping = start > 0
    for chunk in _chunks(read):
        if chunk is None:  # a broken end: what is left counts if it is a whole record all the same
            if rest and not skipping and separator == b"\n" and _is_json(rest):
                yield rest
            continue
        rest += chunk
        if skipping:
            cut = rest.find(separator)
            if cut < 0:
                position, rest = _drop(position, rest, len(separator) - 1)
                continue
            position, rest, skipping = (
                *_drop(position, rest, len(rest) - cut - len(separator)),
                False,
            )
        if stop is not None and position >= stop:
            return
        block, rest = _cut(rest, separator, None if stop is None else stop - position)
        position += len(block)
        if block:
            yield block
        if stop is not None and position >= stop:
            return
    if rest and not skipping:
        yield rest


def _drop(position: int, rest: bytes, keep: int) -> tuple[int, bytes]:
    kept = rest[len(rest) - keep :] if keep else b""
    return position + len(rest) - len(kept), kept


def _cut(data: bytes, separator: bytes, limit: int | None) -> tuple[bytes, bytes]:
    """Splits after the last whole record that starts before `limit`."""
    if limit is not None and limit <= len(data):
        found = data.find(separator, max(limit - len(separator), 0))
        if found >= 0:
            return data[: found + len(separator)], data[found + len(separator) :]
    cut = _last_end(data, separator)
    return data[:cut], data[cut:]


def _last_end(data: bytes, separator: bytes) -> int:
    """Where the last whole record ends, 0 when none does."""
    if len(separator) == 1:
        return data.rfind(separator) + 1
    # From the left, as a reader splits: of three newlines the first two are a blank line.
    return len(data) - len(data.split(separator)[-1]) if separator in data else 0


def _is_json(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data) is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def _chunks(read: Reader) -> Iterator[bytes | None]:
    """Chunks of about `BLOCK` bytes; before a truncated end is raised, None announces it."""
    while True:
        parts: list[bytes] = []
        size = 0
        try:
            while size < BLOCK and (part := read(BLOCK - size)):
                parts.append(part)
                size += len(part)
        except TruncatedError:
            yield b"".join(parts)
            yield None
            raise
        if not parts:
            return
        yield b"".join(parts)


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, produced by a thread that runs a little ahead of its consumer."""
    handover: queue.Queue[Any] = queue.Queue(AHEAD)
    stopped = threading.Event()
    thread = threading.Thread(target=_produce, args=(items, handover, stopped), daemon=True)
    thread.start()
    try:
        while (got := handover.get())[0]:
            yield got[1]
        if got[1] is not None:
            raise got[1]
    finally:
        stopped.set()
        while not handover.empty():
            handover.get_nowait()
        thread.join()


def _produce(items: Iterator[Any], handover: "queue.Queue[Any]", stopped: threading.Event) -> None:
    failure: BaseException | None = None
    try:
        for item in items:
            handover.put((True, item))
            if stopped.is_set():
                return
    except BaseException as error:
        failure = error
    handover.put((False, failure))
