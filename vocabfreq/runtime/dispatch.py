"""From a sampler to the code that runs: Triton or torch, fused or not."""

from typing import NamedTuple

import torch
from torch import Tensor

from vocabfreq.runtime import torch_path
from vocabfreq.runtime.backend import FUSED_ROWS
from vocabfreq.runtime.products import draft_logits
from vocabfreq.runtime.reference import Draw, Drawn
from vocabfreq.runtime.workspace import Workspace


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
