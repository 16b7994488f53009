"""Everything that is measured side by side: the ways of others, and ours.

A contender is made for one head and one batch size; its name is what tables print.

The ways of others from hidden states to target ids, as engines write them.

Where their fixed parts can be prepared they are, so that only the work of a step is timed. Each
function gives a call: hidden [B, H] → target ids, int64 [B].
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from vocabfreq.runtime import sampling
from vocabfreq.runtime.dispatch import Backend, uses_triton
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.sampler import GreedySampler

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


Task = Literal["greedy", "sample"]
SEED = 0  # of our draws, all at step 0


@dataclass(frozen=True)
class Contender:
    """One way to draft.

    Attributes:
        name: what tables print.
        task: whether it takes the most likely id or draws one at temperature 1.
        call: hidden [B, H] → target ids, int64 [B].
        backend: of ours; None for others'.
        whole: it chooses among all V ids.
        graph: whether a CUDA graph can hold it.
        compiled: `torch.compile` has to work for it.
    """

    name: str
    task: Task
    call: Call
    backend: Backend | None = None
    whole: bool = False
    graph: bool = True
    compiled: bool = False


def contenders(full: Tensor, head: PrunedHead, batch: int) -> list[Contender]:
    """All that can run on the device of the head.

    Args:
        full: [V, H].
        head: K of its rows.
        batch: B.

    Returns:
        Others', then ours; what `auto` takes is at the end.
    """
    return [*_others(full, head), *_ours(head, batch)]


def _others(full: Tensor, head: PrunedHead) -> list[Contender]:
    others = [
        Contender("full head, argmax", "greedy", full_argmax(full), whole=True),
        Contender("scatter to V, argmax", "greedy", scatter(head)),
        Contender("argmax, add offset", "greedy", offset(head)),
        Contender("softmax, multinomial", "sample", multinomial(head), graph=False),
        Contender("softmax, race", "sample", race(head)),
    ]
    if head.weight.is_cuda:
        compiled = torch.compile(offset(head), dynamic=False)
        name = "argmax, add offset, compiled"
        others.append(Contender(name, "greedy", compiled, compiled=True))
    return others


def _ours(head: PrunedHead, batch: int) -> list[Contender]:
    return [
        Contender(f"ours, {backend}", task, make(head, batch, backend), backend)
        for backend in backends(head.weight.device)
        for task, make in _OURS.items()
    ]


def backends(device: torch.device) -> list[Backend]:
    """Ours that can be timed on a device; interpreted kernels cannot."""
    if not uses_triton("auto", device):
        return ["torch"]
    from vocabfreq.runtime import launch

    return ["torch"] if launch.INTERPRETED else ["torch", "triton"]


def _greedy(head: PrunedHead, batch: int, backend: Backend) -> Call:
    sampler = GreedySampler(head, backend=backend)
    out = torch.empty(batch, dtype=torch.int64, device=head.weight.device)
    return lambda hidden: sampler(hidden, out=out)


def _sample(head: PrunedHead, batch: int, backend: Backend) -> Call:
    seed, step = torch.tensor([[SEED], [0]], device=head.weight.device)
    return lambda hidden: sampling.sample(head, hidden, seed=seed, step=step, backend=backend).ids


_OURS: dict[Task, Callable[[PrunedHead, int, Backend], Call]] = {
    "greedy": _greedy,
    "sample": _sample,
}
