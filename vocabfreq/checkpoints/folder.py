"""The tensors of a model folder: one safetensors file, several with an index, or a torch file.

`open_checkpoint` reads headers and no weights. Of a model on the Hub, `fetch_checkpoint` downloads
only the files that hold wanted tensors, into the cache of the client.
"""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from vocabfreq.checkpoints.config import CONFIG
from vocabfreq.checkpoints.tensors import FileBytes, MemoryBytes, Tensor
from vocabfreq.errors import FileFormatError, require
from vocabfreq.formats.safetensors_file import INDEX, SINGLE, read_header, read_index
from vocabfreq.formats.torch_file import load_weights_only
from vocabfreq.storage.resolve import open_folder

TORCH = "pytorch_model.bin"
TORCH_DTYPES = {
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


@dataclass(frozen=True)
class Checkpoint:
    """An open folder; a context manager that closes its files.

    Attributes:
        folder: its path.
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
    """Opens a folder and reads the headers of its files.

    Args:
        folder: a model folder.
        only: which tensors are wanted, by name; shards without any are not opened.

    Raises:
        FileFormatError: there are no weights, or a file is missing or broken; names it.
        MissingExtraError: the weights are a torch file, and torch is not installed.
    """
    wanted = only or (lambda name: True)
    with ExitStack() as stack:
        tensors: dict[str, Tensor] = {}
        metadata: dict[str, str] = {}
        for path, promised in _weight_files(folder, wanted).items():
            if path.name == TORCH:
                found = _read_torch_file(path)
            else:
                found, file_metadata = _open_safetensors(path, stack)
                metadata |= file_metadata
            missing = [name for name in promised or () if name not in found]
            if missing:
                raise FileFormatError(
                    f"{path} has no tensor {missing[0]!r} ({len(missing)} such)",
                    expected="the tensors that the index promises",
                )
            names = found if promised is None else promised
            tensors |= {name: found[name] for name in names if wanted(name)}
        return Checkpoint(folder, tensors, metadata, stack.pop_all())


def _weight_files(folder: Path, wanted: Callable[[str], bool]) -> dict[Path, list[str] | None]:
    """The files to open, with the wanted tensors that an index promises of each (or None)."""
    if (folder / SINGLE).is_file():
        return {folder / SINGLE: None}
    if not (folder / INDEX).is_file():
        if (folder / TORCH).is_file():
            return {folder / TORCH: None}
        raise FileFormatError(
            f"no weights in {str(folder)!r}",
            expected=f"{SINGLE}, {INDEX} with its files, or {TORCH}",
        )
    weight_map = read_index(folder / INDEX)
    shards: dict[Path, list[str]] = {}
    for name, file in weight_map.items():
        if wanted(name):
            shards.setdefault(folder / file, []).append(name)
    for path in shards:
        if not path.is_file():
            raise FileFormatError(
                f"{folder / INDEX} names {path.name!r}, which is missing",
                expected=f"{len(set(weight_map.values()))} files",
                hint="download the whole folder again",
            )
    return {**shards}


def _open_safetensors(path: Path, stack: ExitStack) -> tuple[dict[str, Tensor], dict[str, str]]:
    header, metadata = read_header(path)
    file = FileBytes(path)
    stack.callback(file.close)
    return {
        name: Tensor(name, info.dtype, info.shape, info.nbytes, file, info.start)
        for name, info in header.items()
    }, metadata


def _read_torch_file(path: Path) -> dict[str, Tensor]:
    state = load_weights_only(
        path,
        expected="tensors by name",
        hint="convert it to safetensors where you trust it",
        mmap=True,
    )
    if not isinstance(state, dict):
        raise FileFormatError(f"{path} holds {type(state).__name__}", expected="tensors by name")
    return {str(name): _from_torch(path, str(name), value) for name, value in state.items()}


def _from_torch(path: Path, name: str, value: Any) -> Tensor:
    torch = require("torch", "runtime")
    dtype = TORCH_DTYPES.get(str(getattr(value, "dtype", "")).removeprefix("torch."))
    dense = isinstance(value, torch.Tensor) and value.layout is torch.strided
    if dtype is None or not dense:
        kind = getattr(value, "dtype", type(value).__name__)
        raise FileFormatError(f"{path}: {name!r} is {kind}", expected="a dense tensor of numbers")
    size, stored = value.numel() * value.element_size(), value.untyped_storage().nbytes()
    if size > stored:  # expanded: one stored number stands for several
        raise FileFormatError(
            f"{path}: {name!r} {dtype} {list(value.shape)} has {stored:,} bytes in the file",
            expected=f"{size:,} bytes",
            hint="save it again after .contiguous()",
        )
    flat = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return Tensor(name, dtype, tuple(value.shape), flat.nbytes, MemoryBytes(memoryview(flat)))


def fetch_checkpoint(model: str | Path, wanted: Callable[[str], bool]) -> Path:
    """A local folder with config.json and the files that hold wanted tensors.

    Args:
        model: a folder, or `owner/name[@revision]` on the Hub. A `Path` is always local.
        wanted: which tensors are, by name.

    Raises:
        FileFormatError: there is no such folder or repo, or it has no safetensors files.
    """
    if isinstance(model, Path):
        return model
    folder = open_folder(model, FileFormatError)
    if folder.root is not None:
        return folder.root
    config = folder.file(CONFIG)
    if config is None:
        raise FileFormatError(f"{folder.name} has no {CONFIG}", expected="a model repo")
    index = folder.file(INDEX)
    weight_map = {} if index is None else read_index(index)
    files = {file for name, file in weight_map.items() if wanted(name)}
    for name in [SINGLE] if index is None else sorted(files):
        if folder.file(name) is None:
            raise FileFormatError(
                f"{folder.name} at {folder.revision} has no {name!r}",
                expected=f"{SINGLE}, or {INDEX} and its files",
            )
    return config.parent
