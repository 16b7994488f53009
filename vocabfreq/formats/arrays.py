"""One-dimensional arrays out of `.npy` files and torch tensors, checked before they are copied."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, first_line
from vocabfreq.frequencies.metadata import MAX_ROWS

Array = npt.NDArray[Any]


def load_npy(path: Path) -> Array:
    """Reads a `.npy` file of numbers.

    Raises:
        FileFormatError: it is none, holds objects, or is not one reasonably long dimension.
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


def as_array(value: Any, name: str) -> Array:
    """A tensor or an array as an array in one dimension.

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
        is_half = str(tensor.dtype) == "torch.bfloat16"  # which numpy does not have
        array: Array = (tensor.float() if is_half else tensor).numpy()
    except (TypeError, RuntimeError) as error:
        raise FileFormatError(f"{name} is no plain tensor: {first_line(error)[:200]}") from None
    return array


def is_array(value: Any) -> bool:
    """Whether a value is a numpy array or a torch tensor."""
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _check_shape(shape: tuple[int, ...], dtype: Any, name: str) -> None:
    if len(shape) != 1 or shape[0] > MAX_ROWS:
        raise FileFormatError(
            f"{name} is {dtype} {list(shape)}", expected=f"one dimension of at most {MAX_ROWS:,}"
        )
