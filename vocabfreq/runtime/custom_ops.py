"""The samplers as custom operators, so that `torch.compile` traces around them.

An operator writes into `out` and returns nothing; what it computes is in `dispatch`.
"""

import torch
from torch import Tensor

from vocabfreq.runtime import dispatch
from vocabfreq.runtime.dispatch import Parts
from vocabfreq.runtime.reference import Draw


@torch.library.custom_op("vocabfreq::greedy", mutates_args=("out",))
def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None,
    scale: Tensor | None,
    bitmask: Tensor | None,
    triton: bool,
    packed: bool,
    out: Tensor,
) -> None:
    """Writes target ids, or packed keys of them, int64 [B]."""
    parts = Parts(weight, target_ids, bias, scale)
    if packed:
        out.copy_(dispatch.greedy(hidden, parts, bitmask, triton))
    else:
        dispatch.greedy(hidden, parts, bitmask, triton, out=out)


@torch.library.custom_op("vocabfreq::sample", mutates_args=("packed", "logits", "logsumexp"))
def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None,
    scale: Tensor | None,
    bitmask: Tensor | None,
    temperature: Tensor,
    seed: Tensor,
    step: Tensor,
    logit_scale: float,
    soft_cap: float,
    triton: bool,
    packed: Tensor,
    logits: Tensor,
    logsumexp: Tensor,
) -> None:
    """Writes the parts of `reference.Drawn`, each [B]."""
    parts = Parts(weight, target_ids, bias, scale)
    draw = Draw(temperature, seed, step, logit_scale, soft_cap)
    for place, value in zip(
        (packed, logits, logsumexp),
        dispatch.sample(hidden, parts, draw, bitmask, triton),
        strict=True,
    ):
        place.copy_(value)


@greedy.register_fake
def _(*_: object) -> None:
    """Nothing to say of shapes: outputs are given."""


@sample.register_fake
def _(*_: object) -> None:
    """Nothing to say of shapes: outputs are given."""
