"""What kind of container a file is, told by its first bytes, and the value in it."""

import struct
from pathlib import Path
from typing import Any, Literal

import msgspec

from vocabfreq.errors import FileFormatError
from vocabfreq.formats import torch_file
from vocabfreq.formats.arrays import load_npy

Container = Literal["safetensors", "torch", "npy", "json", "text"]
_TORCH_NAMES = (".pt", ".pth", ".bin", ".pkl")


def container_of(path: Path) -> Container:
    """Tells a container by what it begins with; the name only helps where that says nothing.

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
    if head[:4] == b"PK\x03\x04" or head[:1] == b"\x80":
        return "torch"
    if head.lstrip()[:1] in (b"[", b"{"):
        return "json"
    return "torch" if path.suffix in _TORCH_NAMES else "text"


def load_value(path: Path) -> Any:
    """The list, dict, tensor or array that a file holds; nothing in it is executed.

    Raises:
        FileFormatError: it holds something else, or is broken or too large.
    """
    container = container_of(path)
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
    return _json(path) if container == "json" else _lines(path)


def _json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path.name} is not JSON: {error}") from None


def _lines(path: Path) -> list[int]:
    """An id a line; empty lines do not count."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeError:
        raise FileFormatError(
            f"{path.name} is neither text nor a known container",
            expected="a torch, npy, safetensors, JSON or text file",
        ) from None
    return [_id(line.strip(), n, path.name) for n, line in enumerate(lines, 1) if line.strip()]


def _id(text: str, number: int, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise FileFormatError(f"{name}: line {number} is {text[:40]!r}", expected="an id a line")
    return int(text)
