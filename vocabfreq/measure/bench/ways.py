"""The ways of others from hidden states to target ids, as engines write them.

Where their fixed parts can be prepared they are, so that only the work of a step is timed. Each
function gives a call: hidden [B, H] → target ids, int64 [B].
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from vocabfreq.runtime.head import PrunedHead

Call = Callable[[Tensor], Tensor]


def full_argmax(full: Tensor) -> Call:
    """The largest of all logits of the full head, [V, H]."""
    return lambda hidden: functional.linear(hidden, full).argmax(-1)


def scatter(head: PrunedHead) -> Call:
    """As `compute_logits` of vLLM's EAGLE-3 drafters, the targets made beforehand."""
    weight, ids, rows = head.weight, ids_of(head), head.rows

    def call(hidden: Tensor) -> Tensor:
        logits = functional.linear(hidden, weight)
        wide = logits.new_full((len(logits), rows), -math.inf)
        wide[:, ids] = logits
        return wide.argmax(-1)

    return call


def offset(head: PrunedHead) -> Call:
    """The short way: nothing as wide as V, three operations."""
    weight = head.weight
    d2t = torch.from_numpy(head.vocab.d2t.copy()).to(weight.device)

    def call(hidden: Tensor) -> Tensor:
        best = functional.linear(hidden, weight).argmax(-1)
        return d2t[best] + best

    return call


def multinomial(head: PrunedHead) -> Call:
    """A draw from the softmax, as torch has it."""
    weight, ids = head.weight, ids_of(head)

    def call(hidden: Tensor) -> Tensor:
        likely = functional.linear(hidden, weight).float().softmax(-1)
        return ids[torch.multinomial(likely, 1)[:, 0]]

    return call


def race(head: PrunedHead) -> Call:
    """As `random_sample` of vLLM: exponential noise, since `multinomial` waits for the device."""
    weight, ids = head.weight, ids_of(head)

    def call(hidden: Tensor) -> Tensor:
        likely = functional.linear(hidden, weight).float().softmax(-1)
        return ids[likely.div_(torch.empty_like(likely).exponential_()).argmax(-1)]

    return call


def ids_of(head: PrunedHead) -> Tensor:
    """Target ids on the device of the head, int64 [K], also where every id is kept."""
    return torch.from_numpy(head.vocab.target_ids.copy()).to(head.weight.device)
