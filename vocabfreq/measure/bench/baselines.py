"""Everything that is measured side by side: the ways of others, and ours.

A contender is made for one head and one batch size; its name is what tables print.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from vocabfreq.measure.bench import ways
from vocabfreq.measure.bench.ways import Call
from vocabfreq.runtime import sampling
from vocabfreq.runtime.backend import Backend, uses_triton
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.sampler import GreedySampler

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
        Contender("full head, argmax", "greedy", ways.full_argmax(full), whole=True),
        Contender("scatter to V, argmax", "greedy", ways.scatter(head)),
        Contender("argmax, add offset", "greedy", ways.offset(head)),
        Contender("softmax, multinomial", "sample", ways.multinomial(head), graph=False),
        Contender("softmax, race", "sample", ways.race(head)),
    ]
    if head.weight.is_cuda:
        compiled = torch.compile(ways.offset(head), dynamic=False)
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
