"""The samplers in plain torch: what runs on a CPU, and wherever Triton is not.

The answers are those of `reference`; only the product and the argmax take the fast way.
"""

import torch
from torch import Tensor

from vocabfreq.runtime import packed_keys, reference
from vocabfreq.runtime.products import draft_logits
from vocabfreq.runtime.reference import Draw, Drawn
from vocabfreq.runtime.workspace import Workspace


def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """As `reference.greedy`; with `out` (int64 [B]) the target ids are written there instead."""
    space = space or Workspace()
    logits = draft_logits(hidden, weight, bias, scale, space)
    return greedy_logits(logits, target_ids, bitmask, out=out, space=space)


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """As `reference.greedy_logits`, for ascending target ids."""
    if bitmask is not None or not logits.shape[0]:
        packed = reference.greedy_logits(logits, target_ids, bitmask)
        return packed if out is None else out.copy_(packed_keys.ids_of(packed))
    values, places = _largest(logits, space or Workspace())
    if out is None:
        return packed_keys.pack(values, _mapped(places, target_ids, torch.empty_like(places)))
    return _mapped(places, target_ids, out)


def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    draw: Draw,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> Drawn:
    """As `reference.sample`."""
    logits = draft_logits(hidden, weight, bias, scale)
    return reference.sample_logits(logits, target_ids, draw, bitmask)


def _largest(logits: Tensor, space: Workspace) -> tuple[Tensor, Tensor]:
    """Maximum and its first place in each row, NaN counted as -inf."""
    batch, device = logits.shape[0], logits.device
    values = space.take("values", (batch,), logits.dtype, device)
    places = space.take("places", (batch,), torch.int64, device)
    # A NaN is the maximum to torch. On a CPU a look at the maxima tells; elsewhere it would wait
    # for the device, so every logit is looked at.
    looks = device.type == "cpu" and not torch.compiler.is_compiling()
    if not looks:
        logits = _without_nan(logits)
    torch.max(logits, 1, out=(values, places))
    if looks and values.isnan().any():
        torch.max(_without_nan(logits), 1, out=(values, places))
    return values, places


def _without_nan(logits: Tensor) -> Tensor:
    infinity = float("inf")
    return torch.nan_to_num(logits, nan=-infinity, posinf=infinity, neginf=-infinity)


def _mapped(places: Tensor, target_ids: Tensor | None, out: Tensor) -> Tensor:
    if target_ids is None:
        return out.copy_(places)
    return torch.index_select(target_ids, 0, places, out=out)
