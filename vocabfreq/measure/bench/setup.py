"""What is measured, and whether it can be."""

from dataclasses import dataclass
from typing import Any

import torch

from vocabfreq.errors import HeadError

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
