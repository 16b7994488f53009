"""Stored tensors: names, dtypes, shapes, and bytes that are read only where they are needed.

numpy has no bf16 and no fp8, so weights are never numbers here, only rows of bytes.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.safetensors_file import BITS, NUMPY_DTYPES, find_name

RowIndices = npt.NDArray[np.int64]
Blocks = Callable[[], Iterator[memoryview]]
BLOCK = 2 << 20  # bytes that are read at once: what stays in a processor's cache
READERS = min(4, os.cpu_count() or 1)
SMALL_ROW = 64  # bytes; a tensor of such rows (a bias, scales) is read in full and then indexed


class ByteSource(Protocol):
    """Bytes that can be read from any offset."""

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
        source: what its bytes are read from.
        start: offset of its first byte there.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    source: ByteSource
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

    def rows(self, indices: RowIndices) -> Iterator[memoryview]:
        """Some rows, in the given order, in blocks that are valid until the next one.

        Args:
            indices: int64, each 0 … rows - 1.
        """
        if self.row_bytes <= SMALL_ROW:
            yield self._index_all(indices)
            return
        buffer = memoryview(bytearray(max(1, BLOCK // self.row_bytes) * self.row_bytes))
        count = len(buffer) // self.row_bytes
        for start in range(0, len(indices), count):
            part = indices[start : start + count]
            block = buffer[: len(part) * self.row_bytes]
            self._fill(block, part)
            yield block

    def read_rows(self, indices: RowIndices, buffer: memoryview) -> None:
        """Reads some rows, in the given order, straight into a buffer.

        Args:
            indices: int64, each 0 … rows - 1.
            buffer: as many rows of bytes as there are indices.
        """
        size = self.row_bytes
        if size <= SMALL_ROW:
            buffer[:] = self._index_all(indices)
            return
        # Copying out of the page cache is the kernel's work, which threads share.
        part = max(-(-len(indices) // READERS), BLOCK // size, 1)
        with ThreadPoolExecutor(READERS) as pool:
            starts = range(0, len(indices), part)
            parts = [(buffer[i * size : (i + part) * size], indices[i : i + part]) for i in starts]
            list(pool.map(self._fill, *zip(*parts, strict=True)))  # raises the error of a thread

    def _fill(self, block: memoryview, indices: RowIndices) -> None:
        """One read for each run of neighbouring rows."""
        size, source, start = self.row_bytes, self.source, self.start
        breaks = np.flatnonzero(np.diff(indices) != 1) + 1
        firsts = [0, *breaks.tolist()]
        for first, stop, row in zip(
            firsts, [*firsts[1:], len(indices)], indices[firsts].tolist(), strict=True
        ):
            source.read_into(block[first * size : stop * size], start + row * size)

    def _index_all(self, indices: RowIndices) -> memoryview:
        every_row = np.empty((self.shape[0], self.row_bytes), np.uint8)
        self.source.read_into(every_row.reshape(-1).data, self.start)
        return every_row[indices].reshape(-1).data

    def array(self) -> npt.NDArray[Any]:
        """All elements as numbers.

        Raises:
            FileFormatError: its dtype is none of integers or booleans.
        """
        if self.dtype not in NUMPY_DTYPES:
            raise FileFormatError(f"{self}", expected="integers or booleans")
        data = b"".join(bytes(block) for block in self.blocks())
        return np.frombuffer(data, NUMPY_DTYPES[self.dtype]).reshape(self.shape)


def find_tensor(tensors: Mapping[str, Tensor], name: str) -> Tensor | None:
    """A tensor by its name, which may have a prefix, or None.

    Raises:
        FileFormatError: several have a prefix; see `find_name`.
    """
    found = find_name(tensors, name)
    return None if found is None else tensors[found]
