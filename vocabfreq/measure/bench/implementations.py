"""The implementations that are timed: those of other engines, and ours.

Each maps hidden states to target ids, [B, H] → int64 [B]. What stays fixed from step to step is
prepared beforehand, so that only the work of a step is timed.
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
from vocabfreq.runtime.greedy import GreedySampler
from vocabfreq.runtime.head import PrunedHead

Draft = Callable[[Tensor], Tensor]
Task = Literal["greedy", "sample"]
SEED = 0  # of our draws, all at step 0


@dataclass(frozen=True)
class Implementation:
    """One way to draft.

    Attributes:
        name: as tables print it.
        task: `greedy` for the most likely id, `sample` for a draw at temperature 1.
        draft: hidden [B, H] → target ids, int64 [B].
        backend: of ours; None for those of other engines.
        full_head: whether it chooses among all V ids.
        graph: whether a CUDA graph can capture it.
        compiled: whether it needs `torch.compile`.
    """

    name: str
    task: Task
    draft: Draft
    backend: Backend | None = None
    full_head: bool = False
    graph: bool = True
    compiled: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is an implementation of vocabfreq."""
        return self.backend is not None


def implementations(weight: Tensor, head: PrunedHead, batch: int) -> list[Implementation]:
    """All implementations that can run on the device of the head.

    Args:
        weight: of the full head, [V, H].
        head: K of its rows.
        batch: B.

    Returns:
        Those of other engines, then ours; the backend that `auto` chooses is the last.
    """
    return [*_baselines(weight, head), *_ours(head, batch)]


def _baselines(weight: Tensor, head: PrunedHead) -> list[Implementation]:
    baselines = [
        Implementation("full head, argmax", "greedy", full_argmax(weight), full_head=True),
        Implementation("scatter to V, argmax", "greedy", scatter(head)),
        Implementation("argmax, add offset", "greedy", offset(head)),
        Implementation("softmax, multinomial", "sample", multinomial(head), graph=False),
        Implementation("softmax, race", "sample", exponential_race(head)),
    ]
    if head.weight.is_cuda:
        compiled = torch.compile(offset(head), dynamic=False)
        name = "argmax, add offset, compiled"
        baselines.append(Implementation(name, "greedy", compiled, compiled=True))
    return baselines


def full_argmax(weight: Tensor) -> Draft:
    """The argmax over the logits of the full head, [V, H]."""
    return lambda hidden: functional.linear(hidden, weight).argmax(-1)


def scatter(head: PrunedHead) -> Draft:
    """As `compute_logits` of vLLM's EAGLE-3 drafters, the targets made beforehand."""
    weight, ids, rows = head.weight, target_ids_of(head), head.rows

    def draft(hidden: Tensor) -> Tensor:
        logits = functional.linear(hidden, weight)
        wide = logits.new_full((len(logits), rows), -math.inf)
        wide[:, ids] = logits
        return wide.argmax(-1)

    return draft


def offset(head: PrunedHead) -> Draft:
    """Argmax over K, then its d2t offset: three operations, no tensor as wide as V."""
    weight = head.weight
    d2t = torch.from_numpy(head.vocab.d2t.copy()).to(weight.device)

    def draft(hidden: Tensor) -> Tensor:
        best = functional.linear(hidden, weight).argmax(-1)
        return d2t[best] + best

    return draft


def multinomial(head: PrunedHead) -> Draft:
    """`torch.multinomial` over the softmax."""
    weight, ids = head.weight, target_ids_of(head)

    def draft(hidden: Tensor) -> Tensor:
        probabilities = functional.linear(hidden, weight).float().softmax(-1)
        return ids[torch.multinomial(probabilities, 1)[:, 0]]

    return draft


def exponential_race(head: PrunedHead) -> Draft:
    """As `random_sample` of vLLM: exponential noise, since `multinomial` waits for the device."""
    weight, ids = head.weight, target_ids_of(head)

    def draft(hidden: Tensor) -> Tensor:
        probabilities = functional.linear(hidden, weight).float().softmax(-1)
        noise = torch.empty_like(probabilities).exponential_()
        return ids[probabilities.div_(noise).argmax(-1)]

    return draft


def target_ids_of(head: PrunedHead) -> Tensor:
    """Target ids on the device of the head, int64 [K], also where the head keeps all ids."""
    return torch.from_numpy(head.vocab.target_ids.copy()).to(head.weight.device)


def _ours(head: PrunedHead, batch: int) -> list[Implementation]:
    return [
        Implementation(f"ours, {backend}", task, make(head, batch, backend), backend)
        for backend in _backends(head.weight.device)
        for task, make in _MAKERS.items()
    ]


def _backends(device: torch.device) -> list[Backend]:
    """The backends that can be timed on a device; interpreted kernels cannot."""
    if not uses_triton("auto", device):
        return ["torch"]
    from vocabfreq.runtime import launch

    return ["torch"] if launch.INTERPRETED else ["torch", "triton"]


def _greedy(head: PrunedHead, batch: int, backend: Backend) -> Draft:
    sampler = GreedySampler(head, backend=backend)
    out = torch.empty(batch, dtype=torch.int64, device=head.weight.device)
    return lambda hidden: sampler(hidden, out=out)


def _sample(head: PrunedHead, batch: int, backend: Backend) -> Draft:
    seed, step = torch.tensor([[SEED], [0]], device=head.weight.device)
    return lambda hidden: sampling.sample(head, hidden, seed=seed, step=step, backend=backend).ids


_MAKERS: dict[Task, Callable[[PrunedHead, int, Backend], Draft]] = {
    "greedy": _greedy,
    "sample": _sample,
}
