"""GreedySampler: hidden states in, target ids out, and nothing as wide as the target vocabulary.

>>> sampler = GreedySampler(head)
>>> sampler(hidden)
tensor([ 198, 2675,  374])
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from vocabfreq.runtime import checks, custom_ops, dispatch, packed_keys
from vocabfreq.runtime.backend import Backend, uses_triton
from vocabfreq.runtime.dispatch import Parts
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.workspace import Workspace

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
