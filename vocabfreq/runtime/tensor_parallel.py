"""Tensor parallelism: shards of the pruned head that are balanced in draft rows.

Kept ids are the frequent ones, and many tokenizers give those low numbers: cut where the rows of
the full head are cut, the first rank would hold most of them. Here each rank holds K / ranks rows,
one more or less.

Reductions over the ranks that hold shards of one head.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn

from vocabfreq.errors import HeadError
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import packed_keys
from vocabfreq.runtime.checks import Rows
from vocabfreq.runtime.head import PrunedHead, Shape, rows_of
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


def bounds(size: int, ranks: int) -> list[tuple[int, int]]:
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
    **wish: Any,
) -> PrunedHead:
    """One rank's shard of the pruned head, from a head that this rank has whole.

    Args:
        lm_head: as in `prune_lm_head`.
        vocab: as in `prune_lm_head`.
        rank: of this process.
        ranks: how many there are.
        scale: [rows], of a head that is quantised by rows.
        shape: logit scale and soft cap of the model.
        **wish: how a table selects.

    Raises:
        HeadError: as in `prune_lm_head`, or fewer kept ids than ranks.
    """
    if not 0 <= rank < ranks:
        raise HeadError(f"rank {rank} of {ranks}", expected="0 <= rank < ranks")
    chosen = load_vocab(vocab, wish)
    part = bounds(len(chosen), ranks)[rank]
    rows = rows_of(lm_head, chosen, scale=scale, part=part)
    return PrunedHead(rows.weight, chosen, bias=rows.bias, scale=rows.scale, shape=shape, part=part)


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
    part = bounds(len(vocab), distributed.get_world_size(group))[distributed.get_rank(group)]
    starts = _starts(first_row, len(local), vocab, group, local.device)
    given = {"weight": local, "bias": bias, "scale": scale}
    made = {
        name: None if one is None else _exchanged(one, starts, first_row, vocab, part, group)
        for name, one in given.items()
    }
    rows = Rows(**made)  # type: ignore[arg-type]
    return PrunedHead(rows.weight, vocab, bias=rows.bias, scale=rows.scale, shape=shape, part=part)


def _starts(
    first_row: int, count: int, vocab: DraftVocab, group: "ProcessGroup", device: torch.device
) -> list[int]:
    """Draft id at which each rank's rows begin, and K.

    Raises:
        HeadError: on every rank alike, when the ranks' rows leave kept ids out or are out of order.
    """
    mine = torch.tensor([first_row, first_row + count], device=device)
    spans = gathered(mine, group).tolist()
    firsts = [first for first, _ in spans]
    ends = [
        min(stop, after) for (_, stop), after in zip(spans, [*firsts[1:], vocab.rows], strict=True)
    ]
    held = torch.zeros(vocab.rows, dtype=torch.bool)
    for first, stop in zip(firsts, ends, strict=True):
        held[first:stop] = True
    missing = vocab.target_ids[~held[torch.from_numpy(vocab.target_ids.copy())].numpy()]
    if len(missing) or firsts != sorted(firsts):
        raise HeadError(
            f"ranks that hold the rows {spans}, without that of id {list(missing[:1])}",
            expected=f"every kept id up to {vocab.target_ids[-1]}, ranks in the order of rows",
        )
    return [*vocab.target_ids.searchsorted(firsts).tolist(), len(vocab)]


def _exchanged(
    local: Tensor,
    starts: list[int],
    first_row: int,
    vocab: DraftVocab,
    part: tuple[int, int],
    group: "ProcessGroup",
) -> Tensor:
    """Collects this rank's part of one tensor, each rank sending in turn."""
    if local.dtype.itemsize == 1:  # not every back end knows float8; bytes are bytes
        local, kind = local.view(torch.uint8), local.dtype
        return _exchanged_bytes(local, starts, first_row, vocab, part, group).view(kind)
    return _exchanged_bytes(local, starts, first_row, vocab, part, group)


def _exchanged_bytes(
    local: Tensor,
    starts: list[int],
    first_row: int,
    vocab: DraftVocab,
    part: tuple[int, int],
    group: "ProcessGroup",
) -> Tensor:
    me, mine = distributed.get_rank(group), local.new_empty((part[1], *local.shape[1:]))
    for rank, (start, stop) in enumerate(pairwise(starts)):
        if start == stop:
            continue
        if rank == me:
            ids = torch.from_numpy(vocab.target_ids[start:stop] - first_row).to(local.device)
            sent = local.index_select(0, ids)
        else:
            sent = local.new_empty((stop - start, *local.shape[1:]))
        distributed.broadcast(sent, distributed.get_global_rank(group, rank), group=group)
        first, last = max(start, part[0]), min(stop, sum(part))
        if first < last:
            mine[first - part[0] : last - part[0]] = sent[first - start : last - start]
    return mine
