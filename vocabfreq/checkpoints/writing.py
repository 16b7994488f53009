"""Writes a safetensors file piece by piece, without ever holding a whole tensor."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.header import BITS, encode_header, size_in_bytes
from vocabfreq.checkpoints.tensors import Blocks, Ids, Tensor
from vocabfreq.errors import FileFormatError


@dataclass(frozen=True)
class Piece:
    """A tensor to be written.

    Attributes:
        name: in the new file.
        dtype: as safetensors writes it.
        shape: its dimensions.
        blocks: gives its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    blocks: Blocks


def copied(name: str, tensor: Tensor) -> Piece:
    """A tensor as it is."""
    return Piece(name, tensor.dtype, tensor.shape, tensor.blocks)


def picked(name: str, tensor: Tensor, places: Ids) -> Piece:
    """Some rows of a tensor."""
    shape = (len(places), *tensor.shape[1:])
    return Piece(name, tensor.dtype, shape, lambda: tensor.rows(places))


def numbers(name: str, array: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Piece:
    """A small array of int64 or bool."""
    dtype = "BOOL" if array.dtype == np.bool_ else "I64"
    data = np.ascontiguousarray(array, "?" if dtype == "BOOL" else "<i8")

    def blocks() -> Iterator[memoryview]:
        yield data.view(np.uint8).data

    return Piece(name, dtype, array.shape, blocks)


def write_safetensors(path: Path, pieces: Sequence[Piece], metadata: Mapping[str, str]) -> None:
    """Writes a file to a temporary name, syncs, and renames.

    The order is that of the safetensors library: wide dtypes first, which keeps all aligned, then
    by name. Equal pieces give equal bytes.

    Raises:
        FileFormatError: a piece gave another number of bytes than its shape says.
    """
    ordered = sorted(pieces, key=lambda piece: (-BITS[piece.dtype], piece.name))
    entries = {piece.name: (piece.dtype, piece.shape) for piece in ordered}
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb", buffering=0) as file:
            _write(file.fileno(), memoryview(encode_header(entries, metadata)))
            for piece in ordered:
                _write_piece(file.fileno(), piece)
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_piece(handle: int, piece: Piece) -> None:
    written = sum(_write(handle, block) for block in piece.blocks())
    if written != size_in_bytes(piece.dtype, piece.shape):
        raise FileFormatError(
            f"{piece.name} gave {written:,} bytes", expected=f"{piece.dtype} {list(piece.shape)}"
        )


def _write(handle: int, block: memoryview) -> int:
    rest = block
    while len(rest):
        rest = rest[os.write(handle, rest) :]
    return len(block)
