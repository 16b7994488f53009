"""`pytorch_model.bin`: tensors of a pickle that is never trusted.

Read with `weights_only=True`, passed since an environment variable can switch the default off, and
as a memory map where the file allows it, so that only the rows that are read take memory.
"""

import zipfile
from pathlib import Path
from typing import Any

from vocabfreq.checkpoints.tensors import MemoryBytes, Tensor
from vocabfreq.errors import FileFormatError
from vocabfreq.storage.extras import require

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
