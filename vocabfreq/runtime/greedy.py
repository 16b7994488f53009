"""`GreedySampler`: hidden states in, the most likely target ids out, without logits over V.

>>> sampler = GreedySampler(head)
>>> sampler(hidden)
tensor([ 198, 2675,  374])

`draft_chain` is the loop of a drafter around it, small enough to read.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import checks, dispatch, packed_keys
from vocabfreq.runtime.dispatch import Backend, uses_triton
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.torch_backend import Workspace

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


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
            backend: `triton`, `torch`, or `auto` for what fits the device.

        Raises:
            HeadError: `triton` where Triton cannot run.
        """
        self.head, self.group, self.backend = head, group, backend
        self._uses_triton = uses_triton(backend, head.weight.device), head.weight.device
        self._workspace = Workspace()

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
        head, workspace = self.head, self._workspace
        checks.check_hidden(hidden, head.weight)
        out = self._checked_output(hidden, bitmask, out)
        if self.group is None:
            return dispatch.greedy(
                hidden, head.tensors, bitmask, self._triton, out=out, workspace=workspace
            )
        keys = dispatch.greedy(hidden, head.tensors, bitmask, self._triton, workspace=workspace)
        return self._reduce(keys, out)

    @torch.no_grad()
    def of_logits(
        self, logits: Tensor, *, bitmask: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """The same by draft logits that are already there, floats [B, K], any strides."""
        ids, workspace = self.head.target_ids, self._workspace
        checks.check_logits(logits, self.head.weight)
        out = self._checked_output(logits, bitmask, out)
        if self.group is None:
            return dispatch.greedy_logits(
                logits, ids, bitmask, self._triton, out=out, workspace=workspace
            )
        keys = dispatch.greedy_logits(logits, ids, bitmask, self._triton, workspace=workspace)
        return self._reduce(keys, out)

    @property
    def _triton(self) -> bool:
        """Whether Triton runs, on the device that the head is on now."""
        if self._uses_triton[1] != self.head.weight.device:
            device = self.head.weight.device
            self._uses_triton = uses_triton(self.backend, device), device
        return self._uses_triton[0]

    def _checked_output(self, batch: Tensor, bitmask: Tensor | None, out: Tensor | None) -> Tensor:
        """Checks the rest of a call; gives the output buffer, int64 [B]."""
        checks.check_group(len(self.head.weight), len(self.head.vocab), self.group)
        checks.check_bitmask(bitmask, batch, self.head.rows)
        size, device = batch.shape[0], batch.device
        if out is None:
            return torch.empty(size, dtype=torch.int64, device=device)
        checks.check_output(out, (size,), torch.int64, device)
        return out

    def _reduce(self, keys: Tensor, out: Tensor) -> Tensor:
        """One collective on B keys: the largest holds the largest logit's lowest id."""
        torch.distributed.all_reduce(keys, torch.distributed.ReduceOp.MAX, group=self.group)
        return out.copy_(packed_keys.unpack_ids(keys))


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
        HeadError: k is not an integer of 1 or more.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise HeadError(f"k {k!r}", expected="how many tokens to draft, 1 or more")
    drafted = sampler.head.weight.new_empty((k, hidden.shape[0])).long()
    for position in range(k):
        sampler(hidden, out=drafted[position])
        if position + 1 < k:
            hidden = step(drafted[position], hidden)
    return drafted.T
