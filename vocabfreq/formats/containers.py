"""Containers: detects torch, npy, safetensors, JSON and text files by their first bytes.

`load_value` returns the list, dict, tensor or array inside; `reading` decides which format that is.
Nothing in a file is executed, and a header that promises too much costs no memory.
"""

import json
import struct
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, first_line
from vocabfreq.formats import torch_file
from vocabfreq.frequencies.metadata import MAX_ROWS

Array = npt.NDArray[Any]
Container = Literal["safetensors", "torch", "npy", "json", "text"]
_TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".pkl")


def detect_container(path: Path) -> Container:
    """The container of a file by its first bytes; the suffix decides only where they do not.

    Raises:
        FileFormatError: it is a GGUF file, which is not read.
    """
    with path.open("rb") as file:
        head = file.read(64)
    if head[:4] == b"GGUF":
        raise FileFormatError(
            f"{path.name} is a GGUF file",
            expected="the checkpoint that it was converted from, whose d2t holds offsets",
        )
    # Before the others: the length that a safetensors file begins with can look like any of them.
    if head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] < path.stat().st_size:
        return "safetensors"
    if head[:6] == b"\x93NUMPY":
        return "npy"
    if head[:4] == torch_file.ZIP_MAGIC or head[:1] == b"\x80":
        return "torch"
    if head.lstrip()[:1] in (b"[", b"{"):
        return "json"
    return "torch" if path.suffix in _TORCH_SUFFIXES else "text"


def load_value(path: Path) -> Any:
    """The list, dict, tensor or array that a file holds.

    Raises:
        FileFormatError: it holds something else, or is broken or too large.
        MissingExtraError: it holds tensors of torch, and torch is not installed.
    """
    container = detect_container(path)
    if container == "torch":
        return torch_file.load(path)
    if container == "npy":
        return load_npy(path)
    if container == "safetensors":
        raise FileFormatError(
            f"{path.name} is a safetensors file",
            expected="a list, a mapping or a vector",
            hint="--kind checkpoint, draft-vocab or frequency read one",
        )
    torch_file.check_size(path)
    return _load_json(path) if container == "json" else _load_text(path)


def _load_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path.name} is not JSON: {error}") from None


def _load_text(path: Path) -> list[int]:
    """One id per line; empty lines are skipped."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeError:
        raise FileFormatError(
            f"{path.name} is neither text nor a known container",
            expected="a torch, npy, safetensors, JSON or text file",
        ) from None
    return [
        _parse_id(line.strip(), number, path.name)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _parse_id(text: str, number: int, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise FileFormatError(f"{name}: line {number} is {text[:40]!r}", expected="an id a line")
    return int(text)


def load_json_object(path: Path, max_bytes: int) -> dict[str, Any]:
    """The object in a JSON file of a model folder; `Infinity` and `NaN` are allowed.

    Raises:
        FileFormatError: it is larger than `max_bytes`, no JSON, or no object.
    """
    if path.stat().st_size > max_bytes:
        raise FileFormatError(
            f"{path} has {path.stat().st_size:,} bytes", expected=f"at most {max_bytes:,}"
        )
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise FileFormatError(f"{path} holds a {type(value).__name__}", expected="an object")
    return value


def load_npy(path: Path) -> Array:
    """Reads a `.npy` file of numbers in one dimension.

    Raises:
        FileFormatError: it is none, holds objects, or has another shape or too many entries.
    """
    try:  # mapped, so that a header that promises too much takes no memory
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # its header is read by Python's own parser, which has many errors
        raise FileFormatError(
            f"{path.name} is not a .npy file of numbers: {first_line(error)[:200]}"
        ) from None
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path.name} is an archive", expected="a .npy file of one array")
    _check_shape(array.shape, array.dtype, path.name)
    return np.array(array)


def is_array(value: Any) -> bool:
    """Whether a value is a numpy array or a torch tensor."""
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def as_array(value: Any, name: str) -> Array:
    """A tensor or an array as a numpy array in one dimension.

    Raises:
        FileFormatError: it is neither, or has another shape.
    """
    if not is_array(value):
        raise FileFormatError(f"{name} is a {type(value).__name__}", expected="a tensor")
    if isinstance(value, np.ndarray):
        _check_shape(value.shape, value.dtype, name)
        return value
    try:
        _check_shape(tuple(value.shape), value.dtype, name)
        tensor = value.detach()
        is_bfloat16 = str(tensor.dtype) == "torch.bfloat16"  # which numpy does not have
        array: Array = (tensor.float() if is_bfloat16 else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        raise FileFormatError(f"{name} is no plain tensor: {first_line(error)[:200]}") from None
    return array


def to_vector(value: Any, name: str) -> Array:
    """A vector from a tensor, an array or a list of numbers.

    Raises:
        FileFormatError: it is none.
    """
    try:
        return as_array(np.asarray(value) if isinstance(value, list | tuple) else value, name)
    except (ValueError, OverflowError, RecursionError):
        raise FileFormatError(
            f"{name} is a list of other things than numbers", expected="a vector of numbers"
        ) from None


def _check_shape(shape: tuple[int, ...], dtype: Any, name: str) -> None:
    if len(shape) != 1 or shape[0] > MAX_ROWS:
        raise FileFormatError(
            f"{name} is {dtype} {list(shape)}", expected=f"one dimension of at most {MAX_ROWS:,}"
        )
