"""From a sampler to the code that runs: Triton or torch, fused or not.

Which code runs: Triton where a GPU and Triton are, else torch; the answers are the same.
"""

import os
from importlib.util import find_spec
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import torch_path
from vocabfreq.runtime.reference import Draw, Drawn
from vocabfreq.runtime.torch_path import Workspace, draft_logits

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


class Parts(NamedTuple):
    """The tensors of a head: weight [K, H], target ids, bias and scale [K] or None."""

    weight: Tensor
    target_ids: Tensor | None
    bias: Tensor | None
    scale: Tensor | None


def greedy(
    hidden: Tensor,
    parts: Parts,
    bitmask: Tensor | None,
    triton: bool,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """Target ids in `out`, or packed keys where there is none; int64 [B]."""
    space = space or Workspace()
    if not triton:
        return torch_path.greedy(hidden, *parts, bitmask, out=out, space=space)
    if hidden.shape[0] > FUSED_ROWS:
        logits = draft_logits(hidden, parts.weight, parts.bias, parts.scale, space)
        return greedy_logits(logits, parts.target_ids, bitmask, triton, out=out, space=space)
    from vocabfreq.runtime import launch

    scratch = _scratch(hidden, parts.weight, space)
    return launch.greedy(hidden, *parts, bitmask, out=out, scratch=scratch)


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    triton: bool,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """The same over given logits, [B, K]."""
    space = space or Workspace()
    if not triton:
        return torch_path.greedy_logits(logits, target_ids, bitmask, out=out, space=space)
    from vocabfreq.runtime import launch

    scratch = _scratch(logits, logits.t(), space)
    return launch.greedy_logits(logits, target_ids, bitmask, out=out, scratch=scratch)


def sample(hidden: Tensor, parts: Parts, draw: Draw, bitmask: Tensor | None, triton: bool) -> Drawn:
    """Keys, logits and log-sum-exps, each [B]."""
    weight, target_ids, bias, scale = parts
    if not triton:
        return torch_path.sample(hidden, weight, target_ids, draw, bias, scale, bitmask)
    from vocabfreq.runtime import launch

    if hidden.shape[0] <= FUSED_ROWS:
        return launch.sample(hidden, weight, target_ids, draw, bias, scale, bitmask)
    logits = draft_logits(hidden, weight, bias, scale)
    return launch.sample_logits(logits, target_ids, draw, bitmask)


def _scratch(batch: Tensor, rows: Tensor, space: Workspace) -> Tensor:
    from vocabfreq.runtime import launch

    size = launch.scratch_size(batch.shape[0], rows.shape[0])
    return space.take("scratch", (size,), torch.int64, batch.device)
