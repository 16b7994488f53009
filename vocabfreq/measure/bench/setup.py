"""Setup of a benchmark: shapes, dtype and device, and the tensors that they stand for."""

import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime.head import PrunedHead, prune_lm_head

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
DEVICES = "cpu", "cuda"
VOCAB_SIZE = 128_256  # V of Llama 3
SIZE = 32_768  # K, where V is larger
# Meant to take less than half a minute: on a CPU, most of it goes with V times H.
DEFAULTS: dict[str, dict[str, Any]] = {
    "cpu": {"hidden_size": 1024, "batch_sizes": (1, 8), "runs": 5, "warmups": 1},
    "cuda": {"hidden_size": 4096, "batch_sizes": (1, 8, 64), "runs": 50, "warmups": 5},
}
NONZERO = 256  # nonzero hidden values per row: bf16 holds every whole number up to here
LOGIT_STD = 2.0  # standard deviation of the random logits


@dataclass(frozen=True)
class Setup:
    """Shapes, dtype and device of a benchmark.

    Attributes:
        hidden_size: H.
        vocab_size: V.
        sizes: each K.
        batch_sizes: each B.
        dtype: `bfloat16`, `float16` or `float32`.
        device: `cpu` or `cuda`.
        runs: timed turns.
        warmups: turns before them.
    """

    hidden_size: int
    vocab_size: int
    sizes: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    dtype: str
    device: str
    runs: int
    warmups: int

    def __post_init__(self) -> None:
        """Checks all fields.

        Raises:
            HeadError: a field has a value that cannot be measured; names both.
        """
        for name in ("hidden_size", "vocab_size", "runs", "warmups"):
            _check_counts(name, (getattr(self, name),))
        for name in ("sizes", "batch_sizes"):
            _check_counts(name, getattr(self, name))
        if max(self.sizes) > self.vocab_size:
            raise HeadError(
                f"K {max(self.sizes):,}", expected=f"at most V, {self.vocab_size:,} rows"
            )
        if self.dtype not in DTYPES:
            raise HeadError(f"dtype {self.dtype!r}", expected=", ".join(DTYPES))
        _check_device(self.device)


def default_setup(device: str = "auto", **fields: Any) -> Setup:
    """A setup meant to take less than half a minute; fields left out (or None) have defaults.

    Args:
        device: `cpu`, `cuda`, or `auto` for CUDA where it is available. The defaults of a CPU are a
            smaller H, fewer B and fewer turns.
        **fields: fields of `Setup`.

    Raises:
        HeadError: a field has a value that cannot be measured.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    _check_device(device)
    values = {"vocab_size": VOCAB_SIZE, "dtype": "bfloat16", **DEFAULTS[device]}
    values |= {name: value for name, value in fields.items() if value is not None}
    rows = values["vocab_size"]
    values.setdefault("sizes", (SIZE if rows > SIZE else max(rows // 4, 1),))
    return Setup(device=device, **values)


def _check_counts(name: str, values: tuple[object, ...]) -> None:
    if not values:
        raise HeadError(f"no {name}", expected="at least one")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise HeadError(f"{name} {value!r}", expected="whole numbers from 1")


def _check_device(device: str) -> None:
    if device not in DEVICES:
        raise HeadError(f"device {device!r}", expected="cpu, cuda or auto")
    if device == "cuda" and not torch.cuda.is_available():
        raise HeadError(
            "no CUDA device here", expected="one, for device cuda", hint="use device cpu"
        )


@dataclass(frozen=True)
class Machine:
    """Hardware and versions that a result depends on; `triton` is None where not installed."""

    device: str
    torch: str
    triton: str | None
    threads: int
    python: str


def machine(device: str) -> Machine:
    """This machine, for `cpu` or `cuda`."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = None
    cpu = f"cpu ({platform.machine()}, {torch.backends.cpu.get_cpu_capability()})"
    name = torch.cuda.get_device_name() if device == "cuda" else cpu
    threads = torch.get_num_threads()
    return Machine(name, torch.__version__, triton, threads, platform.python_version())


def empty_weight(setup: Setup) -> Tensor:
    """The weight of a full head, [V, H], uninitialised."""
    shape = setup.vocab_size, setup.hidden_size
    return torch.empty(shape, dtype=DTYPES[setup.dtype], device=setup.device)


def fill_whole(weight: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills the weight with -1, 0 and 1; sums with the hidden states are exact in every dtype.

    Args:
        weight: [V, H], overwritten.
        setup: the largest of its batch sizes is B.
        random: generator on the device of the weight.

    Returns:
        hidden [B, H] of -1, 0 and 1, at most `NONZERO` values per row not 0.
    """
    weight.random_(-1, 2, generator=random)
    hidden = _empty_hidden(weight, setup).random_(-1, 2, generator=random)
    stride = -(-setup.hidden_size // NONZERO)
    rows = torch.arange(len(hidden), device=weight.device)[:, None]
    columns = torch.arange(setup.hidden_size, device=weight.device)
    return hidden.masked_fill_((rows + columns) % stride != 0, 0)


def fill_random(weight: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills the weight with normal numbers.

    Args:
        weight: [V, H], overwritten.
        setup: the largest of its batch sizes is B.
        random: generator on the device of the weight.

    Returns:
        hidden [B, H], scaled so that logits have the standard deviation `LOGIT_STD`.
    """
    weight.normal_(generator=random)
    std = LOGIT_STD * setup.hidden_size**-0.5
    return _empty_hidden(weight, setup).normal_(0, std, generator=random)


def _empty_hidden(weight: Tensor, setup: Setup) -> Tensor:
    return weight.new_empty((max(setup.batch_sizes), setup.hidden_size))


def shapes(setup: Setup, weight: Tensor) -> Iterator[tuple[PrunedHead, int]]:
    """Each pruned head, its target ids drawn at random, with each batch size."""
    for size in setup.sizes:
        ids = np.random.default_rng(size).choice(setup.vocab_size, size, replace=False)
        head = prune_lm_head(weight, DraftVocab.from_ids(np.sort(ids), rows=setup.vocab_size))
        for batch in setup.batch_sizes:
            yield head, batch


@contextmanager
def explain_memory_errors(setup: Setup) -> Iterator[None]:
    """Turns the allocation errors of torch into one that names the shapes.

    Raises:
        HeadError: the tensors do not fit into memory.
    """
    try:
        yield
    except (RuntimeError, OverflowError) as error:
        if not re.search("memory|overflow", str(error), re.IGNORECASE):
            raise
        rows, width = setup.vocab_size, setup.hidden_size
        size = rows * width * DTYPES[setup.dtype].itemsize
        raise HeadError(
            f"a full head of [{rows}, {width}], {size / 1e9:,.1f} GB, and batches up to "
            f"{max(setup.batch_sizes)} rows",
            expected=f"what fits into the memory of the {setup.device}",
            hint="use a smaller V, H or B",
        ) from None
