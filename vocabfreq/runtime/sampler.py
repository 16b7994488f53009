"""GreedySampler: hidden states in, target ids out, and nothing as wide as the target vocabulary.

>>> sampler = GreedySampler(head)
>>> sampler(hidden)
tensor([ 198, 2675,  374])

`draft_chain`: the loop of a drafter, small enough to read.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import checks, custom_ops, dispatch, packed_keys
from vocabfreq.runtime.dispatch import Backend, Parts, uses_triton
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.torch_path import Workspace

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def parts_of(head: PrunedHead) -> Parts:
    """The tensors of a head."""
    return Parts(head.weight, head.target_ids, head.bias, head.scale)


class GreedySampler:
    """Takes the most likely id of each row.

    Of equal logits the lowest target id wins, -0.0 and +0.0 being equal; NaN counts as -inf; a row
    of nothing else gives the lowest kept id; a row whose grammar allows no kept id gives -1. Logit
    scale and soft cap do not change the argmax, so they are not applied.
    """

    def __init__(
        self,
        head: PrunedHead,
        *,
        group: "ProcessGroup | None" = None,
        backend: Backend = "auto",
    ) -> None:
        """Prepares a sampler; it keeps its memory from call to call, so give each thread its own.

        Args:
            head: the pruned head, or this rank's shard of it.
            group: of the ranks that hold the other shards; None when the head is whole.
            backend: `triton`, `torch`, or what fits the device.

        Raises:
            HeadError: Triton is asked for where it cannot run.
        """
        self.head, self.group, self.backend = head, group, backend
        self._chosen = uses_triton(backend, head.weight.device), head.weight.device
        self._space = Workspace()

    @torch.no_grad()
    def __call__(
        self, hidden: Tensor, *, bitmask: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """The most likely ids.

        Args:
            hidden: [B, H], dtype and device of the head; any strides.
            bitmask: int32 [B, ceil(V / 32)], a bit for each target id that may be chosen.
            out: int64 [B], where to write; nothing is allocated once a batch of this size has been.

        Returns:
            Target ids, int64 [B], on the device of hidden.

        Raises:
            HeadError: a tensor does not fit.
        """
        checks.whole_or_group(self.head, self.group)
        checks.hidden_of(self.head, hidden)
        checks.bitmask_of(self.head, bitmask, hidden.shape[0])
        out = self._out(hidden, out)
        if self.group is not None:
            return self._reduced(self._keys(hidden, bitmask), out)
        if torch.compiler.is_compiling():
            self._traced(hidden, bitmask, False, out)
            return out
        parts = parts_of(self.head)
        return dispatch.greedy(hidden, parts, bitmask, self._triton, out=out, space=self._space)

    @torch.no_grad()
    def of_logits(
        self, logits: Tensor, *, bitmask: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """The same over draft logits that are already there, floats [B, K], any strides."""
        checks.whole_or_group(self.head, self.group)
        checks.logits_of(self.head, logits)
        checks.bitmask_of(self.head, bitmask, logits.shape[0])
        out, ids = self._out(logits, out), self.head.target_ids
        if self.group is None:
            return dispatch.greedy_logits(
                logits, ids, bitmask, self._triton, out=out, space=self._space
            )
        packed = dispatch.greedy_logits(logits, ids, bitmask, self._triton, space=self._space)
        return self._reduced(packed, out)

    @property
    def _triton(self) -> bool:
        """Whether Triton runs, on the device that the head is on now."""
        if self._chosen[1] != self.head.weight.device:
            device = self.head.weight.device
            self._chosen = uses_triton(self.backend, device), device
        return self._chosen[0]

    def _out(self, batch: Tensor, out: Tensor | None) -> Tensor:
        size, device = batch.shape[0], batch.device
        if out is None:
            return torch.empty(size, dtype=torch.int64, device=device)
        checks.output(out, (size,), torch.int64, device)
        return out

    def _keys(self, hidden: Tensor, bitmask: Tensor | None) -> Tensor:
        if not torch.compiler.is_compiling():
            parts = parts_of(self.head)
            return dispatch.greedy(hidden, parts, bitmask, self._triton, space=self._space)
        packed = torch.empty(hidden.shape[0], dtype=torch.int64, device=hidden.device)
        self._traced(hidden, bitmask, True, packed)
        return packed

    def _traced(self, hidden: Tensor, bitmask: Tensor | None, packed: bool, out: Tensor) -> None:
        custom_ops.greedy(hidden, *parts_of(self.head), bitmask, self._triton, packed, out)

    def _reduced(self, packed: Tensor, out: Tensor) -> Tensor:
        """One collective on B numbers: the largest key holds the largest logit's lowest id."""
        torch.distributed.all_reduce(packed, torch.distributed.ReduceOp.MAX, group=self.group)
        return out.copy_(packed_keys.ids_of(packed))


def draft_chain(
    step: Callable[[Tensor, Tensor], Tensor], sampler: GreedySampler, hidden: Tensor, k: int
) -> Tensor:
    """Drafts k tokens for each row, one after the other.

    Args:
        step: the drafter's forward: the ids drafted last, int64 [B], and the hidden states that
            they came from, [B, H] → the next hidden states, [B, H].
        sampler: of the drafter's head.
        hidden: [B, H], of which the first token is drafted.
        k: how many tokens, 1 or more; `step` is called k - 1 times.

    Returns:
        Target ids, int64 [B, k], a transposed view.

    Raises:
        HeadError: k is no number from 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise HeadError(f"k {k!r}", expected="how many tokens to draft, 1 or more")
    drafted = sampler.head.weight.new_empty((k, hidden.shape[0])).long()
    for place in range(k):
        sampler(hidden, out=drafted[place])
        if place + 1 < k:
            hidden = step(drafted[place], hidden)
    return drafted.T
