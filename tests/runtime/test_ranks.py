"""Tensor parallelism in real processes over gloo: as on one rank."""

from pathlib import Path

import pytest
import torch
from rankwork import SIZE, on_each_rank, one_rank, work
from torch.multiprocessing.spawn import spawn

from vocabfreq.errors import HeadError
from vocabfreq.runtime.tensor_parallel import shard_bounds


@pytest.mark.parametrize("ranks", [2, 3])
def test_r7_as_on_one_rank(ranks: int, tmp_path: Path) -> None:
    spawn(on_each_rank, (ranks, str(tmp_path), work), nprocs=ranks)  # type: ignore[no-untyped-call]
    wanted = one_rank()
    for rank in range(ranks):
        *results, failure = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for found in results:
            for name in ("greedy", "masked", "empty", "given", "drawn", "best"):
                assert found[name] == wanted[name], name
            torch.testing.assert_close(found["logprobs"], wanted["logprobs"])
        assert "expected every kept id up to" in failure["error"]


@pytest.mark.parametrize(("size", "ranks"), [(7, 2), (7, 3), (8, 8), (32_768, 6)])
def test_shards_are_balanced_and_complete(size: int, ranks: int) -> None:
    parts = shard_bounds(size, ranks)
    assert [first for first, _ in parts] == [sum(n for _, n in parts[:i]) for i in range(ranks)]
    assert sum(count for _, count in parts) == size
    assert max(n for _, n in parts) - min(n for _, n in parts) <= 1


def test_more_ranks_than_rows() -> None:
    with pytest.raises(HeadError, match="7 rows for 8 ranks"):
        shard_bounds(SIZE, 8)
