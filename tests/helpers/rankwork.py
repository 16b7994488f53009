"""The work of each rank of a real process group in the tests of tensor parallelism."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from heads import INF, NAN, bitmask_of, numbers, vocab_of
from torch import Tensor, distributed

from vocabfreq.runtime import (
    GreedySampler,
    PrunedHead,
    gather_shard,
    prune_lm_head,
    sample,
    shard_lm_head,
    topk,
)

ROWS, WIDTH, SIZE = 20, 5, 7
Result = dict[str, Any]


def full_head(seed: int = 1) -> Tensor:
    return numbers(ROWS, WIDTH, seed=seed)


def winners() -> Tensor:
    """Draft logits [21, 7]: the maximum at each place in turn, then ties of two, then odd rows."""
    single = torch.eye(SIZE) * 3
    ties = torch.zeros(SIZE, SIZE)
    for place in range(SIZE):
        ties[place, [place, (place + 3) % SIZE]] = 5
    odd = torch.tensor([[NAN] * 7, [-INF] * 7, [INF] * 7, [0.0, -0.0] * 3 + [-0.0]])
    late = torch.tensor([[-INF] * 6 + [NAN], [-1.0] * 6 + [0.0], [NAN] * 6 + [-5.0]])
    return torch.cat([single, ties, odd, late])


def answers(head: PrunedHead, group: Any, part: slice) -> Result:
    """Everything that must be the same on one rank and on several."""
    sampler, hidden = GreedySampler(head, group=group), numbers(6, WIDTH, seed=2)
    temperatures = torch.tensor([0.0, 0.5, 1, 1, 2, 1])
    mask = bitmask_of(
        [range(ROWS), [], [head.vocab.target_ids[6]], range(9), range(9, 20), [0]], ROWS
    )
    drawn = [
        sample(head, hidden, seed=3, step=step, temperature=temperatures, bitmask=m, group=group)
        for step in range(20)
        for m in (None, mask)
    ]
    best = [topk(head, hidden, k, group=group, bitmask=m) for k in (1, 3, 7) for m in (None, mask)]
    return {
        "greedy": sampler(hidden).tolist(),
        "masked": sampler(hidden, bitmask=mask).tolist(),
        "empty": sampler(hidden[:0]).tolist(),
        "given": sampler.of_logits(winners()[:, part]).tolist(),
        "drawn": [one.ids.tolist() for one in drawn],
        "best": [one.ids.tolist() for one in best],
        "logprobs": [one.logprobs for one in (*drawn, *best)],
    }


def one_rank() -> Result:
    """The answers of a whole head."""
    head = prune_lm_head(full_head(), vocab_of(SIZE, ROWS))
    return answers(head, None, slice(None))


def on_each_rank(rank: int, ranks: int, folder: str, work: Callable[[int, int], Any]) -> None:
    """Joins a gloo group, does the work and leaves the result for the test."""
    torch.set_num_threads(1)
    where = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=where, rank=rank, world_size=ranks)
    torch.save(work(rank, ranks), Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


def work(rank: int, ranks: int) -> list[Result]:
    """Answers of shards cut from a whole head, and of shards gathered from rows of the ranks."""
    vocab, group = vocab_of(SIZE, ROWS), distributed.group.WORLD
    assert group is not None
    cut = shard_lm_head(full_head(), vocab, rank, ranks)
    first = rank * 8 if ranks == 3 else rank * 11
    local = full_head()[first : ROWS if rank + 1 == ranks else first + (8 if ranks == 3 else 11)]
    padded = torch.cat([local, torch.full((2, WIDTH), 9.0)])
    found = gather_shard(padded if rank + 1 == ranks else local, first, vocab, group)
    assert torch.equal(found.weight, cut.weight)
    assert abs(len(cut.weight) - SIZE / ranks) < 1
    part = slice(cut.first, cut.first + len(cut.weight))
    results = [answers(head, group, part) for head in (cut, found)]
    cut.refresh(full_head(seed=8))
    assert torch.equal(cut.weight, prune_lm_head(full_head(seed=8), vocab).weight[part])
    return [*results, {"error": error_of_missing_rows(vocab, group)}]


def error_of_missing_rows(vocab: Any, group: Any) -> str:
    """The message of the error where no rank has some rows."""
    from vocabfreq.errors import HeadError

    try:
        gather_shard(full_head()[:3], 0, vocab, group)
    except HeadError as error:
        return str(error)
    return ""
