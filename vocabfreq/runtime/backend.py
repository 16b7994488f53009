"""Which code runs: Triton where a GPU and Triton are, else torch; the answers are the same."""

import os
from importlib.util import find_spec
from typing import Literal

import torch

from vocabfreq.errors import HeadError

Backend = Literal["auto", "triton", "torch"]
# Up to this many rows the product and the argmax are one kernel; more go through the matrix
# library. Provisional: set it by what benchmarks/bench_sampler.py says on a GPU.
FUSED_ROWS = 64


def uses_triton(backend: Backend, device: torch.device) -> bool:
    """Whether Triton kernels run for tensors on this device.

    Raises:
        HeadError: an unknown backend, or Triton is asked for where it cannot run.
    """
    if backend not in ("auto", "triton", "torch"):
        raise HeadError(f"backend {backend!r}", expected="auto, triton or torch")
    can = find_spec("triton") is not None and (device.type == "cuda" or _interpreted())
    if backend == "triton" and not can:
        raise HeadError(
            f"no Triton for {device}",
            expected="the package triton and a CUDA device (or TRITON_INTERPRET=1)",
            hint="backend='auto' takes torch where Triton is not",
        )
    return backend == "triton" or (backend == "auto" and can and device.type == "cuda")


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"
