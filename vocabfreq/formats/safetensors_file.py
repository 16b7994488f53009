"""The safetensors container: header, names of tensors, and the index of a sharded checkpoint.

`read_header` checks an untrusted header before a tensor is read: its length, dtypes,
shapes, and that the tensors lie one after the other and fill the file exactly, so that nothing
hides and nothing is missing. Weights stay bytes: numpy has no bf16 and no fp8.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError
from vocabfreq.storage.manifest import leaves_folder

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_HEADER = 100_000_000  # bytes, as in the safetensors library
MAX_JSON = 64 << 20
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
NUMPY_DTYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a header.

    Attributes:
        dtype: as safetensors writes it, `BF16` say.
        shape: its dimensions.
        start: offset of its first byte in the file.
        nbytes: its size in bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class _Entry(msgspec.Struct):
    """A tensor as the header's JSON describes it."""

    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class _Index(msgspec.Struct):
    weight_map: dict[str, str]


def size_in_bytes(dtype: str, shape: tuple[int, ...]) -> int | None:
    """Bytes of a tensor; None for an unknown dtype or a size that ends inside a byte."""
    bits = BITS.get(dtype, 1) * math.prod(shape)
    return None if dtype not in BITS or bits % 8 else bits // 8


def read_header(path: Path) -> tuple[dict[str, TensorInfo], dict[str, str]]:
    """Reads and checks the header of a safetensors file.

    Returns:
        The tensors by name, and the metadata of the file.

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
        entries, metadata = _parse_header(path, file.read(length))
    start = 8 + length
    tensors = {name: _check_entry(path, name, e, start, size) for name, e in entries.items()}
    _check_contiguous(path, tensors, start, size)
    return tensors, metadata


def _parse_header(path: Path, data: bytes) -> tuple[dict[str, _Entry], dict[str, str]]:
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
        metadata = msgspec.json.decode(raw.pop(METADATA, msgspec.Raw(b"{}")), type=dict[str, str])
        return {n: msgspec.json.decode(entry, type=_Entry) for n, entry in raw.items()}, metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise _broken(path, f"its header: {error}", "JSON of dtype, shape, data_offsets") from None


def _check_entry(path: Path, name: str, entry: _Entry, start: int, size: int) -> TensorInfo:
    begin, end = entry.data_offsets
    shape = tuple(entry.shape)
    if not 0 <= begin <= end or min(shape, default=0) < 0:
        raise _broken(path, f"{name!r} has shape {list(shape)} from byte {begin} to {end}")
    if start + end > size:
        raise _broken(
            path,
            f"{name!r} ends at byte {start + end:,} of a file of {size:,}",
            "all of it",
            "the file was cut off: download or copy it again",
        )
    needed = size_in_bytes(entry.dtype, shape)
    if needed != end - begin:
        expected = f"{needed:,} bytes" if needed is not None else f"a dtype of {', '.join(BITS)}"
        raise _broken(path, f"{name!r} {entry.dtype} {list(shape)} has {end - begin:,}", expected)
    return TensorInfo(entry.dtype, shape, start + begin, end - begin)


def _check_contiguous(path: Path, tensors: dict[str, TensorInfo], start: int, size: int) -> None:
    """No two tensors overlap, and every byte belongs to one."""
    reached = start
    for name, info in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if info.start != reached:
            raise _broken(path, f"{name!r} starts at byte {info.start:,}", f"byte {reached:,}")
        reached += info.nbytes
    if reached != size:
        raise _broken(path, f"{size - reached:,} bytes after the last tensor", "none")


def _broken(path: Path, wrong: str, expected: str = "", hint: str = "") -> FileFormatError:
    return FileFormatError(
        f"{path} is not a safetensors file: {wrong}", expected=expected, hint=hint
    )


def encode_header(
    tensors: Mapping[str, tuple[str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> bytes:
    """The header of a new file whose tensors follow in the given order, length included.

    Args:
        tensors: name → dtype and shape.
        metadata: of the file; may be empty.
    """
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    start = 0
    for name, (dtype, shape) in tensors.items():
        end = start + (size_in_bytes(dtype, shape) or 0)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
        start = end
    data = msgspec.json.encode(header)
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data


def read_array(path: Path, info: TensorInfo) -> npt.NDArray[Any]:
    """A small tensor of integers or booleans, one of `NUMPY_DTYPES`, as numbers."""
    count = math.prod(info.shape)
    array = np.fromfile(path, NUMPY_DTYPES[info.dtype], count, offset=info.start)
    return array.reshape(info.shape)


def find_name(names: Collection[str], name: str) -> str | None:
    """The full name of a tensor, which may have a prefix that ends at a dot, such as `model.`.

    Raises:
        FileFormatError: several have a prefix, and none or several are the language model's.
    """
    for usual in (name, f"model.{name}"):
        if usual in names:
            return usual
    found = [known for known in names if known.endswith(f".{name}")]
    if len(found) > 1:
        found = [known for known in found if "language_model" in known] or found
    if len(found) > 1:
        raise FileFormatError(
            f"{len(found)} tensors end in {name!r}: {', '.join(sorted(found)[:4])}",
            expected="one",
        )
    return found[0] if found else None


def read_index(path: Path) -> dict[str, str]:
    """The `weight_map` of a sharded checkpoint: name of a tensor → name of its file.

    Raises:
        FileFormatError: it is no index, or names a file outside the folder.
    """
    try:
        if path.stat().st_size > MAX_JSON:
            raise FileFormatError(f"{path} is larger than {MAX_JSON:,} bytes")
        weight_map = msgspec.json.decode(path.read_bytes(), type=_Index).weight_map
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: {error}", expected="JSON with a weight_map") from None
    for file in weight_map.values():
        if leaves_folder(file):
            raise FileFormatError(
                f"{path} names the file {file!r}", expected="file names inside the folder"
            )
    return weight_map
