"""The header of a safetensors file, read as bytes from a stranger.

Everything is checked before a tensor is touched: the length of the header, dtypes, shapes, and that
the tensors lie one after the other and fill the file exactly, so that nothing hides and nothing is
missing.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

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
