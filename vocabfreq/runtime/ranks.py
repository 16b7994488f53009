"""Reductions over the ranks that hold shards of one head."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, distributed

from vocabfreq.runtime import packed_keys
from vocabfreq.runtime.reference import Drawn

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def gathered(part: Tensor, group: "ProcessGroup") -> Tensor:
    """The tensors of all ranks, stacked in front: [ranks, …]."""
    everything = part.new_empty((distributed.get_world_size(group), *part.shape))
    distributed.all_gather(list(everything.unbind()), part.contiguous(), group=group)
    return everything


def reduced(drawn: Drawn, group: "ProcessGroup") -> Drawn:
    """The draw of the whole head from those of its shards: one collective on B pairs of int64."""
    floats = torch.stack([drawn.logits, drawn.logsumexp], 1).view(torch.int64)[:, 0]
    packed, numbers = gathered(torch.stack([drawn.keys, floats]), group).unbind(1)
    logits, totals = numbers.contiguous().view(torch.float32).view(*numbers.shape, 2).unbind(2)
    best, rank = packed.max(0)
    return Drawn(best, logits.gather(0, rank[None])[0], totals.logsumexp(0))


def merged(best: Tensor, total: Tensor, k: int, group: "ProcessGroup") -> tuple[Tensor, Tensor]:
    """The k best keys of all shards, and the log-sum-exp of all logits.

    Args:
        best: int64 [B, up to k], keys of this shard.
        total: float32 [B], log-sum-exp of this shard.
        k: how many are wanted.
        group: of the ranks.

    Returns:
        int64 [B, k] and float32 [B].
    """
    filled = best.new_full((len(best), k), packed_keys.NOTHING)
    filled[:, : best.shape[1]] = best
    everything = gathered(filled, group).transpose(0, 1).flatten(1)
    return everything.topk(k, dim=1).values, gathered(total, group).logsumexp(0)
