"""Stored tensors: names, dtypes, shapes, and bytes that are read only where they are asked for.

numpy has no bf16 and no fp8, so weights are never numbers here, only rows of bytes.

The header of a safetensors file, read as bytes from a stranger.

Everything is checked before a tensor is touched: the length of the header, dtypes, shapes, and that
the tensors lie one after the other and fill the file exactly, so that nothing hides and nothing is
missing.
"""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError

MAX_HEADER = 100_000_000  # bytes, as in the safetensors library
METADATA = "__metadata__"
BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 16),
    **dict.fromkeys(("U32", "I32", "F32"), 32),
    **dict.fromkeys(("U64", "I64", "F64", "C64"), 64),
}


@dataclass(frozen=True)
class Entry:
    """One tensor of a file.

    Attributes:
        dtype: as safetensors writes it, `BF16` say.
        shape: its dimensions.
        start: where its first byte is in the file.
        nbytes: how many bytes it has.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class _Written(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


def size_in_bytes(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor; None for an unknown dtype or a size that ends inside a byte."""
    bits = BITS.get(dtype, 1) * math.prod(shape)
    return None if dtype not in BITS or bits % 8 else bits // 8


def read_header(path: Path) -> tuple[dict[str, Entry], dict[str, str]]:
    """Reads and checks the header of a safetensors file.

    Returns:
        The tensors by name, and the file's metadata.

    Raises:
        FileFormatError: naming the file and what is wrong in it.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER, size - 8):
            raise _broken(
                path,
                f"a header of {length:,} bytes in a file of {size:,}",
                f"one inside the file, of at most {MAX_HEADER:,}",
            )
        written, metadata = _parse(path, file.read(length))
    start = 8 + length
    entries = {name: _entry(path, name, one, start, size) for name, one in written.items()}
    _check_filled(path, entries, start, size)
    return entries, metadata


def _parse(path: Path, data: bytes) -> tuple[dict[str, _Written], dict[str, str]]:
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(raw.pop(METADATA, msgspec.Raw(b"{}")), type=dict[str, str])
        return {
            name: msgspec.json.decode(one, type=_Written) for name, one in raw.items()
        }, metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _broken(path, f"its header: {error}", "JSON of dtype, shape, data_offsets") from None


def _entry(path: Path, name: str, written: _Written, start: int, size: int) -> Entry:
    begin, end = written.data_offsets
    shape = tuple(written.shape)
    if not 0 <= begin <= end or min(shape, default=0) < 0:
        raise _broken(path, f"{name!r} has shape {list(shape)} from byte {begin} to {end}")
    if start + end > size:
        raise _broken(
            path,
            f"{name!r} ends at byte {start + end:,} of a file of {size:,}",
            "all of it",
            "the file was cut off: download or copy it again",
        )
    wanted = size_in_bytes(written.dtype, shape)
    if wanted != end - begin:
        told = f"{wanted:,} bytes" if wanted is not None else f"a dtype of {', '.join(BITS)}"
        raise _broken(path, f"{name!r} {written.dtype} {list(shape)} has {end - begin:,}", told)
    return Entry(written.dtype, shape, start + begin, end - begin)


def _check_filled(path: Path, entries: dict[str, Entry], start: int, size: int) -> None:
    """No two tensors overlap, and no byte belongs to none."""
    reached = start
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if entry.start != reached:
            raise _broken(path, f"{name!r} starts at byte {entry.start:,}", f"byte {reached:,}")
        reached += entry.nbytes
    if reached != size:
        raise _broken(path, f"{size - reached:,} bytes after the last tensor", "none")


def _broken(path: Path, wrong: str, expected: str = "", hint: str = "") -> FileFormatError:
    return FileFormatError(
        f"{path} is not a safetensors file: {wrong}", expected=expected, hint=hint
    )


def encode_header(entries: dict[str, tuple[str, tuple[int, ...]]], metadata: Any) -> bytes:
    """The header of a new file whose tensors follow in the given order, length included.

    Args:
        entries: name → dtype and shape.
        metadata: text by text, or nothing.
    """
    written: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    place = 0
    for name, (dtype, shape) in entries.items():
        end = place + (size_in_bytes(dtype, shape) or 0)
        written[name] = {"dtype": dtype, "shape": shape, "data_offsets": (place, end)}
        place = end
    data = msgspec.json.encode(written)
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data


Ids = npt.NDArray[np.int64]
BLOCK = 2 << 20  # bytes that are read at once: what stays in a processor's cache
READERS = min(4, os.cpu_count() or 1)
SMALL_ROW = 64  # bytes; a tensor of such rows (a bias, scales) is read whole and then picked from
NUMPY = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}

Blocks = Callable[[], Iterator[memoryview]]


class Bytes(Protocol):
    """Bytes that can be read at any place."""

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills the buffer from the offset on."""


class FileBytes:
    """The bytes of an open file, by positional reads."""

    def __init__(self, path: Path) -> None:
        """Opens the file."""
        self._path, self._file = path, path.open("rb", buffering=0)

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills the buffer.

        Raises:
            FileFormatError: the file has become shorter.
        """
        while len(buffer):
            count = self._read(buffer, offset)
            if count == len(buffer):
                return
            if not count:
                raise FileFormatError(f"{self._path} ends at byte {offset:,}", expected="more")
            buffer, offset = buffer[count:], offset + count

    def _read(self, buffer: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [buffer], offset)
        self._file.seek(offset)
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


@dataclass(frozen=True)
class MemoryBytes:
    """Bytes in memory, or in a memory map of another library."""

    data: memoryview

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills the buffer."""
        buffer[:] = self.data[offset : offset + len(buffer)]


@dataclass(frozen=True)
class Tensor:
    """A stored tensor.

    Attributes:
        name: in its file.
        dtype: as safetensors writes it.
        shape: its dimensions.
        nbytes: its size.
        source: where its bytes are.
        start: place of its first byte there.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    source: Bytes
    start: int = 0

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, that is of one index of the first dimension.

        Raises:
            FileFormatError: it has no rows, or they end inside a byte.
        """
        bits = BITS[self.dtype] * math.prod(self.shape[1:])
        if not self.shape or bits % 8:
            raise FileFormatError(f"{self}", expected="a tensor with rows of whole bytes")
        return bits // 8

    def __str__(self) -> str:
        """Name, dtype and shape."""
        return f"{self.name} {self.dtype} {list(self.shape)}"

    def blocks(self) -> Iterator[memoryview]:
        """All its bytes, in blocks that are valid until the next one."""
        buffer = memoryview(bytearray(min(self.nbytes, BLOCK)))
        for start in range(0, self.nbytes, BLOCK):
            block = buffer[: min(BLOCK, self.nbytes - start)]
            self.source.read_into(block, self.start + start)
            yield block

    def rows(self, places: Ids) -> Iterator[memoryview]:
        """Some rows, in the given order, in blocks that are valid until the next one.

        Args:
            places: int64, each 0 … rows - 1.
        """
        if self.row_bytes <= SMALL_ROW:
            yield self._picked(places)
            return
        buffer = memoryview(bytearray(max(1, BLOCK // self.row_bytes) * self.row_bytes))
        count = len(buffer) // self.row_bytes
        for start in range(0, len(places), count):
            part = places[start : start + count]
            block = buffer[: len(part) * self.row_bytes]
            self._fill(block, part)
            yield block

    def read_rows(self, places: Ids, buffer: memoryview) -> None:
        """Reads some rows, in the given order, straight to where they go.

        Args:
            places: int64, each 0 … rows - 1.
            buffer: as many rows of bytes.
        """
        size = self.row_bytes
        if size <= SMALL_ROW:
            buffer[:] = self._picked(places)
            return
        # Copying out of the page cache is the kernel's work, which threads share.
        part = max(-(-len(places) // READERS), BLOCK // size, 1)
        with ThreadPoolExecutor(READERS) as pool:
            starts = range(0, len(places), part)
            parts = [(buffer[i * size : (i + part) * size], places[i : i + part]) for i in starts]
            list(pool.map(self._fill, *zip(*parts, strict=True)))  # raises what a thread raised

    def _fill(self, block: memoryview, places: Ids) -> None:
        """One read for each run of neighbouring rows, straight to where they go."""
        size, source, start = self.row_bytes, self.source, self.start
        breaks = np.flatnonzero(np.diff(places) != 1) + 1
        firsts = [0, *breaks.tolist()]
        for first, stop, row in zip(
            firsts, [*firsts[1:], len(places)], places[firsts].tolist(), strict=True
        ):
            source.read_into(block[first * size : stop * size], start + row * size)

    def _picked(self, places: Ids) -> memoryview:
        whole = np.empty((self.shape[0], self.row_bytes), np.uint8)
        self.source.read_into(whole.reshape(-1).data, self.start)
        return whole[places].reshape(-1).data

    def array(self) -> npt.NDArray[Any]:
        """The whole tensor as numbers.

        Raises:
            FileFormatError: numpy has no such dtype among whole numbers and truth values.
        """
        if self.dtype not in NUMPY:
            raise FileFormatError(f"{self}", expected="whole numbers or truth values")
        data = b"".join(bytes(block) for block in self.blocks())
        return np.frombuffer(data, NUMPY[self.dtype]).reshape(self.shape)


def is_map(tensor: Tensor) -> bool:
    """Whether it can be a d2t: whole numbers in one dimension, at least one."""
    whole = tensor.dtype in NUMPY and tensor.dtype != "BOOL"
    return whole and len(tensor.shape) == 1 and tensor.shape[0] > 0
