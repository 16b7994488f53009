"""The tensors of a model folder: one safetensors file, several with an index, or a torch file.

`pytorch_model.bin`: tensors of a pickle that is never trusted.

Read with `weights_only=True`, passed since an environment variable can switch the default off, and
as a memory map where the file allows it, so that only the rows that are read take memory.
"""

import zipfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from vocabfreq.checkpoints.tensors import FileBytes, MemoryBytes, Tensor, read_header
from vocabfreq.errors import FileFormatError, require
from vocabfreq.storage.manifest import leaves_folder

SINGLE, INDEX, TORCH = "model.safetensors", "model.safetensors.index.json", "pytorch_model.bin"
MAX_JSON = 64 << 20


@dataclass(frozen=True)
class Checkpoint:
    """An open folder; a context manager that closes its files.

    Attributes:
        folder: where it is.
        tensors: by name.
        metadata: of the safetensors files.
    """

    folder: Path
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str]
    _files: ExitStack = field(repr=False, compare=False)

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._files.close()


def open_checkpoint(folder: Path, only: Callable[[str], bool] | None = None) -> Checkpoint:
    """Opens a folder and reads the headers of its files, no weights.

    Args:
        folder: a model folder.
        only: which tensors are wanted, by name; shards without any are not opened.

    Raises:
        FileFormatError: there are no weights, or a file is missing or broken; names it.
    """
    wanted = only or (lambda name: True)
    with ExitStack() as stack:
        tensors: dict[str, Tensor] = {}
        metadata: dict[str, str] = {}
        for path, names in _files(folder, wanted).items():
            found, told = _open(path, stack)
            tensors |= {name: found[name] for name in _present(path, found, names) if wanted(name)}
            metadata |= told
        return Checkpoint(folder, tensors, metadata, stack.pop_all())


def _open(path: Path, stack: ExitStack) -> tuple[dict[str, Tensor], dict[str, str]]:
    if path.name == TORCH:
        return read_torch_file(path), {}
    entries, metadata = read_header(path)
    file = FileBytes(path)
    stack.callback(file.close)
    return {
        name: Tensor(name, entry.dtype, entry.shape, entry.nbytes, file, entry.start)
        for name, entry in entries.items()
    }, metadata


def _present(path: Path, found: dict[str, Tensor], names: list[str] | None) -> list[str]:
    """The names that the index promises of a file, or all of them without an index."""
    missing = [name for name in names or () if name not in found]
    if missing:
        raise FileFormatError(
            f"{path} has no tensor {missing[0]!r} ({len(missing)} such)",
            expected="what the index says of it",
        )
    return list(found) if names is None else names


def _files(folder: Path, wanted: Callable[[str], bool]) -> dict[Path, list[str] | None]:
    """The files to open, with the names that an index promises of each (None: no index)."""
    if (folder / SINGLE).is_file():
        return {folder / SINGLE: None}
    if (folder / INDEX).is_file():
        return _shards(folder, read_index(folder / INDEX), wanted)
    if (folder / TORCH).is_file():
        return {folder / TORCH: None}
    raise FileFormatError(
        f"no weights in {str(folder)!r}", expected=f"{SINGLE}, {INDEX} with its files, or {TORCH}"
    )


def read_index(path: Path) -> dict[str, str]:
    """Which file has which tensor, by the index.

    Raises:
        FileFormatError: it is no index, or names a file outside the folder.
    """

    class Index(msgspec.Struct):
        weight_map: dict[str, str]

    try:
        if path.stat().st_size > MAX_JSON:
            raise FileFormatError(f"{path} is larger than {MAX_JSON:,} bytes")
        names = msgspec.json.decode(path.read_bytes(), type=Index).weight_map
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: {error}", expected="JSON with a weight_map") from None
    for name in names.values():
        if leaves_folder(name):
            raise FileFormatError(
                f"{path} names the file {name!r}", expected="file names inside the folder"
            )
    return names


def _shards(
    folder: Path, names: dict[str, str], wanted: Callable[[str], bool]
) -> dict[Path, list[str] | None]:
    shards: dict[Path, list[str] | None] = {}
    for name, file in names.items():
        if wanted(name):
            shards.setdefault(folder / file, []).append(name)  # type: ignore[union-attr]
    for path in shards:
        if not path.is_file():
            raise FileFormatError(
                f"{folder / INDEX} names {path.name!r}, which is missing",
                expected=f"{len(set(names.values()))} files",
                hint="download the folder again, whole",
            )
    return shards


DTYPES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "int32": "I32",
    "float32": "F32",
    "int64": "I64",
    "float64": "F64",
}


def read_torch_file(path: Path) -> dict[str, Tensor]:
    """The tensors of a `pytorch_model.bin` by name.

    Raises:
        FileFormatError: it holds anything else than tensors, or is broken.
        MissingExtraError: torch is not installed.
    """
    torch = require("torch", "runtime")
    mapped = zipfile.is_zipfile(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # torch, pickle and zipfile each have their own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise FileFormatError(
            f"{path} cannot be read with weights_only=True: {lines[0][:200]}",
            expected="tensors by name",
            hint="nothing in it was executed; convert it to safetensors where you trust it",
        ) from None
    if not isinstance(state, dict):
        raise FileFormatError(f"{path} holds {type(state).__name__}", expected="tensors by name")
    return {str(name): _tensor(path, str(name), value) for name, value in state.items()}


def _tensor(path: Path, name: str, value: Any) -> Tensor:
    torch = require("torch", "runtime")
    dtype = DTYPES.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    dense = isinstance(value, torch.Tensor) and value.layout is torch.strided
    if dtype is None or not dense:
        kind = getattr(value, "dtype", type(value).__name__)
        raise FileFormatError(f"{path}: {name!r} is {kind}", expected="a dense tensor of numbers")
    size, stored = value.numel() * value.element_size(), value.untyped_storage().nbytes()
    if size > stored:  # expanded: the same numbers for many places
        raise FileFormatError(
            f"{path}: {name!r} {dtype} {list(value.shape)} has {stored:,} bytes in the file",
            expected=f"{size:,} bytes",
            hint="save it again after .contiguous()",
        )
    flat = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return Tensor(name, dtype, tuple(value.shape), flat.nbytes, MemoryBytes(memoryview(flat)))
