"""Tensor parallelism: balanced shards of a pruned head, and the reductions over their ranks.

Kept ids are the frequent ones, and many tokenizers give those low numbers: cut where the rows of
the full head are cut, the first rank would hold most of them. So each rank holds K / ranks draft
rows, one more or less.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn

from vocabfreq.errors import HeadError
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import packed_keys
from vocabfreq.runtime.head import PrunedHead, Shape, select_rows
from vocabfreq.runtime.reference import SampleOutput

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def shard_bounds(size: int, ranks: int) -> list[tuple[int, int]]:
    """First draft id and number of rows of each rank; numbers differ by at most one.

    Raises:
        HeadError: fewer rows than ranks.
    """
    if size < ranks:
        raise HeadError(f"{size} rows for {ranks} ranks", expected="at least one row for each rank")
    edges = [rank * size // ranks for rank in range(ranks + 1)]
    return [(first, stop - first) for first, stop in pairwise(edges)]


@torch.no_grad()
def shard_lm_head(
    lm_head: Tensor | nn.Module,
    vocab: VocabLike,
    rank: int,
    ranks: int,
    *,
    scale: Tensor | None = None,
    shape: Shape | None = None,
    **selection: Any,
) -> PrunedHead:
    """One rank's shard of the pruned head, from a head that this rank has whole.

    Args:
        lm_head: as in `prune_lm_head`.
        vocab: as in `prune_lm_head`.
        rank: of this process.
        ranks: how many there are.
        scale: [rows], of a head that is quantised by rows.
        shape: logit scale and soft cap of the model.
        **selection: as in `prune_lm_head`.

    Raises:
        HeadError: as in `prune_lm_head`, or fewer kept ids than ranks.
    """
    if not 0 <= rank < ranks:
        raise HeadError(f"rank {rank} of {ranks}", expected="0 <= rank < ranks")
    chosen = load_vocab(vocab, selection)
    shard = shard_bounds(len(chosen), ranks)[rank]
    rows = select_rows(lm_head, chosen, scale=scale, shard=shard)
    return PrunedHead(
        rows.weight, chosen, bias=rows.bias, scale=rows.scale, shape=shape, shard=shard
    )


@torch.no_grad()
def gather_shard(
    local: Tensor,
    first_row: int,
    vocab: DraftVocab,
    group: "ProcessGroup",
    *,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    shape: Shape | None = None,
) -> PrunedHead:
    """This rank's balanced shard, where each rank has only some rows of the full head.

    Every rank calls it. One rank after the other sends the kept ones of its rows; at most those of
    one rank are held beside the shard.

    Args:
        local: [rows, H], this rank's rows of the full head, in the order of target ids; padding
            behind them is accepted.
        first_row: target id of the first of them.
        vocab: the kept ids, the same on every rank.
        group: of the ranks.
        bias: [rows], likewise.
        scale: [rows], likewise.
        shape: logit scale and soft cap of the model.

    Raises:
        HeadError: kept ids whose rows no rank has.
    """
    shard = shard_bounds(len(vocab), distributed.get_world_size(group))[distributed.get_rank(group)]
    starts = _first_draft_ids(first_row, len(local), vocab, group, local.device)

    def exchange(rows: Tensor) -> Tensor:
        return _exchange_rows(rows, starts, first_row, vocab, shard, group)

    return PrunedHead(
        exchange(local),
        vocab,
        bias=None if bias is None else exchange(bias),
        scale=None if scale is None else exchange(scale),
        shape=shape,
        shard=shard,
    )


def _first_draft_ids(
    first_row: int, count: int, vocab: DraftVocab, group: "ProcessGroup", device: torch.device
) -> list[int]:
    """First draft id among each rank's rows of the full head, and K.

    Raises:
        HeadError: on every rank alike, when the ranks' rows leave kept ids out or are out of order.
    """
    own = torch.tensor([first_row, first_row + count], device=device)
    spans = all_gather(own, group).tolist()
    firsts = [first for first, _ in spans]
    stops = [
        min(stop, after) for (_, stop), after in zip(spans, [*firsts[1:], vocab.rows], strict=True)
    ]
    held = torch.zeros(vocab.rows, dtype=torch.bool)
    for first, stop in zip(firsts, stops, strict=True):
        held[first:stop] = True
    missing = vocab.target_ids[~held[torch.from_numpy(vocab.target_ids.copy())].numpy()]
    if len(missing) or firsts != sorted(firsts):
        raise HeadError(
            f"ranks that hold the rows {spans}, without that of id {list(missing[:1])}",
            expected=f"every kept id up to {vocab.target_ids[-1]}, ranks in the order of rows",
        )
    return [*vocab.target_ids.searchsorted(firsts).tolist(), len(vocab)]


def _exchange_rows(
    local: Tensor,
    starts: list[int],
    first_row: int,
    vocab: DraftVocab,
    shard: tuple[int, int],
    group: "ProcessGroup",
) -> Tensor:
    """This rank's shard of one tensor; each rank sends its kept rows in turn."""
    dtype = local.dtype
    if dtype.itemsize == 1:  # not every back end knows float8
        local = local.view(torch.uint8)
    own_rank, rows = distributed.get_rank(group), local.new_empty((shard[1], *local.shape[1:]))
    for rank, (start, stop) in enumerate(pairwise(starts)):
        if start == stop:
            continue
        if rank == own_rank:
            ids = torch.from_numpy(vocab.target_ids[start:stop] - first_row).to(local.device)
            sent = local.index_select(0, ids)
        else:
            sent = local.new_empty((stop - start, *local.shape[1:]))
        distributed.broadcast(sent, distributed.get_global_rank(group, rank), group=group)
        first, last = max(start, shard[0]), min(stop, sum(shard))
        if first < last:
            rows[first - shard[0] : last - shard[0]] = sent[first - start : last - start]
    return rows.view(dtype)


def all_gather(tensor: Tensor, group: "ProcessGroup") -> Tensor:
    """The tensors of all ranks, stacked in front: [ranks, …]."""
    stacked = tensor.new_empty((distributed.get_world_size(group), *tensor.shape))
    distributed.all_gather(list(stacked.unbind()), tensor.contiguous(), group=group)
    return stacked


def reduce_samples(output: SampleOutput, group: "ProcessGroup") -> SampleOutput:
    """The draw of the whole head from those of its shards: one collective on B pairs of int64."""
    floats = torch.stack([output.logits, output.logsumexp], 1).view(torch.int64)[:, 0]
    keys, floats = all_gather(torch.stack([output.keys, floats]), group).unbind(1)
    logits, logsumexp = floats.contiguous().view(torch.float32).view(*floats.shape, 2).unbind(2)
    best, rank = keys.max(0)
    return SampleOutput(best, logits.gather(0, rank[None])[0], logsumexp.logsumexp(0))


def merge_topk(
    keys: Tensor, logsumexp: Tensor, k: int, group: "ProcessGroup"
) -> tuple[Tensor, Tensor]:
    """The k best keys of all shards, and the log-sum-exp of all logits.

    Args:
        keys: int64 [B, up to k], the best of this shard.
        logsumexp: float32 [B], of this shard.
        k: how many to give.
        group: of the ranks.

    Returns:
        int64 [B, k] and float32 [B].
    """
    padded = keys.new_full((len(keys), k), packed_keys.NOTHING)
    padded[:, : keys.shape[1]] = keys
    candidates = all_gather(padded, group).transpose(0, 1).flatten(1)
    return candidates.topk(k, dim=1).values, all_gather(logsumexp, group).logsumexp(0)
