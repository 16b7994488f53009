"""What is measured, and whether it can be.

Where it was measured.

The numbers that are measured on: full heads, hidden states, and the kept ids.
"""

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


@dataclass(frozen=True)
class Machine:
    """Where it was measured; `triton` is None where it is not installed."""

    device: str
    torch: str
    triton: str | None
    threads: int
    python: str


def machine(device: str) -> Machine:
    """This machine as far as it matters."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = None
    kind = torch.cuda.get_device_name() if device == "cuda" else _processor()
    threads = torch.get_num_threads()
    return Machine(kind, torch.__version__, triton, threads, platform.python_version())


def _processor() -> str:
    return f"cpu ({platform.machine()}, {torch.backends.cpu.get_cpu_capability()})"


DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
DEVICES = "cpu", "cuda"
ROWS = 128_256  # V of Llama 3
KEPT = 32_768  # K, where V is larger
# Meant to take less than half a minute: on a CPU, most of it goes with V times H.
DEFAULTS: dict[str, dict[str, Any]] = {
    "cpu": {"hidden_size": 1024, "batch_sizes": (1, 8), "runs": 5, "warmups": 1},
    "cuda": {"hidden_size": 4096, "batch_sizes": (1, 8, 64), "runs": 50, "warmups": 5},
}


@dataclass(frozen=True)
class Setup:
    """What is measured.

    Attributes:
        hidden_size: H.
        vocab_size: V.
        sizes: each K.
        batch_sizes: each B.
        dtype: `bfloat16`, `float16` or `float32`.
        device: `cpu` or `cuda`.
        runs: turns that count.
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
        """Refuses what cannot be measured.

        Raises:
            HeadError: naming the value.
        """
        for name in ("hidden_size", "vocab_size", "runs", "warmups"):
            _check_count(name, getattr(self, name))
        for name in ("sizes", "batch_sizes"):
            _check_counts(name, getattr(self, name))
        if max(self.sizes) > self.vocab_size:
            raise HeadError(
                f"K {max(self.sizes):,}", expected=f"at most V, {self.vocab_size:,} rows"
            )
        if self.dtype not in DTYPES:
            raise HeadError(f"dtype {self.dtype!r}", expected=", ".join(DTYPES))
        _check_device(self.device)


def usual(device: str = "auto", **given: Any) -> Setup:
    """A setup meant to take less than half a minute; fields not given (or None) have defaults.

    Args:
        device: `cpu`, `cuda`, or `auto` for CUDA where it is. A CPU gets a smaller H, fewer B and
            fewer turns.
        **given: fields of `Setup`.

    Raises:
        HeadError: a value that cannot be measured.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    _check_device(device)
    fields = {"vocab_size": ROWS, "dtype": "bfloat16", **DEFAULTS[device]}
    fields |= {name: value for name, value in given.items() if value is not None}
    rows = fields["vocab_size"]
    fields.setdefault("sizes", (KEPT if rows > KEPT else max(rows // 4, 1),))
    return Setup(device=device, **fields)


def _check_counts(name: str, values: tuple[object, ...]) -> None:
    if not values:
        raise HeadError(f"no {name}", expected="at least one")
    for value in values:
        _check_count(name, value)


def _check_count(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise HeadError(f"{name} {value!r}", expected="whole numbers from 1")


def _check_device(device: str) -> None:
    if device not in DEVICES:
        raise HeadError(f"device {device!r}", expected="cpu, cuda or auto")
    if device == "cuda" and not torch.cuda.is_available():
        raise HeadError(
            "no CUDA device here", expected="one, for device cuda", hint="take device cpu"
        )


LIVE = 256  # hidden numbers of a row that are not 0: bf16 holds every whole number up to here
SPREAD = 2.0  # standard deviation of the random logits


def empty_head(setup: Setup) -> Tensor:
    """A full head, [V, H], not filled."""
    shape = setup.vocab_size, setup.hidden_size
    return torch.empty(shape, dtype=DTYPES[setup.dtype], device=setup.device)


def fill_whole(full: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills a full head with -1, 0 and 1; sums with the hidden states are exact in every dtype.

    Args:
        full: [V, H], written.
        setup: the largest of its batch sizes is taken.
        random: where the numbers come from.

    Returns:
        hidden [B, H] of -1, 0 and 1, at most `LIVE` of a row not 0.
    """
    full.random_(-1, 2, generator=random)
    hidden = _empty_hidden(full, setup).random_(-1, 2, generator=random)
    apart = -(-setup.hidden_size // LIVE)
    rows = torch.arange(len(hidden), device=full.device)[:, None]
    columns = torch.arange(setup.hidden_size, device=full.device)
    return hidden.masked_fill_((rows + columns) % apart != 0, 0)


def fill_random(full: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills a full head with normal numbers.

    Args:
        full: [V, H], written.
        setup: the largest of its batch sizes is taken.
        random: where the numbers come from.

    Returns:
        hidden [B, H], such that logits have the standard deviation `SPREAD`.
    """
    full.normal_(generator=random)
    spread = SPREAD * setup.hidden_size**-0.5
    return _empty_hidden(full, setup).normal_(0, spread, generator=random)


def _empty_hidden(full: Tensor, setup: Setup) -> Tensor:
    return full.new_empty((max(setup.batch_sizes), setup.hidden_size))


def shapes(setup: Setup, full: Tensor) -> Iterator[tuple[PrunedHead, int]]:
    """Each pruned head, its ids drawn at random, with each batch size."""
    for size in setup.sizes:
        ids = np.random.default_rng(size).choice(setup.vocab_size, size, replace=False)
        head = prune_lm_head(full, DraftVocab.from_ids(np.sort(ids), rows=setup.vocab_size))
        for batch in setup.batch_sizes:
            yield head, batch


@contextmanager
def room(setup: Setup) -> Iterator[None]:
    """Says what did not fit into memory, where torch speaks of its allocator.

    Raises:
        HeadError: it does not fit.
    """
    try:
        yield
    except (RuntimeError, OverflowError) as error:
        if not re.search("memory|overflow", str(error), re.IGNORECASE):
            raise
        raise _too_large(setup) from None


def _too_large(setup: Setup) -> HeadError:
    rows, width = setup.vocab_size, setup.hidden_size
    size = rows * width * DTYPES[setup.dtype].itemsize
    return HeadError(
        f"a full head of [{rows}, {width}], {size / 1e9:,.1f} GB, and batches up to "
        f"{max(setup.batch_sizes)} rows",
        expected=f"what fits into the memory of the {setup.device}",
        hint="take a smaller V, H or B",
    )
