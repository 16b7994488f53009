"""What only a GPU can show: no waiting, no allocation, graphs that can be replayed."""

from collections.abc import Callable

import pytest
import torch
from heads import by_definition, numbers, vocab_of

from vocabfreq.runtime import GreedySampler, PrunedHead, prune_lm_head, sample

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
BATCHES = [1, 8, 64, 200]


def head_on_gpu(seed: int = 1) -> PrunedHead:
    return prune_lm_head(numbers(3_000, 256, seed=seed).bfloat16().cuda(), vocab_of(700, 3_000))


def hidden_on_gpu(batch: int, seed: int = 2) -> torch.Tensor:
    return numbers(batch, 256, seed=seed).bfloat16().cuda()


def wanted(hidden: torch.Tensor, seed: int = 1) -> list[int]:
    full = numbers(3_000, 256, seed=seed)
    return by_definition(hidden.float().cpu() @ full.T, vocab_of(700, 3_000).target_ids.tolist())


def captured(call: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """A graph of a call that has been warmed up on a side stream, as torch asks for."""
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


@pytest.mark.parametrize("batch", BATCHES)
def test_a_captured_greedy_step_replays_on_new_hidden_states(batch: int) -> None:
    head = head_on_gpu()
    sampler, hidden = GreedySampler(head), hidden_on_gpu(batch)
    out = torch.full((batch,), -77, device="cuda")
    graph = captured(lambda: sampler(hidden, out=out))
    for seed in (3, 4):
        hidden.copy_(hidden_on_gpu(batch, seed))
        out.fill_(-77)
        graph.replay()
        assert out.tolist() == wanted(hidden)
    head.refresh(numbers(3_000, 256, seed=9).bfloat16().cuda())
    graph.replay()
    assert out.tolist() == wanted(hidden, seed=9)


@pytest.mark.parametrize("batch", BATCHES)
def test_a_captured_draw_is_new_at_every_step(batch: int) -> None:
    head, hidden = head_on_gpu(), hidden_on_gpu(batch) * 0.01
    seed, step = torch.tensor([5], device="cuda"), torch.tensor([0], device="cuda")
    ids = torch.empty(batch, dtype=torch.int64, device="cuda")
    draw = lambda: ids.copy_(sample(head, hidden, seed=seed, step=step).ids)  # noqa: E731
    graph, seen = captured(draw), []
    for n in range(5):
        step.fill_(n)
        graph.replay()
        seen.append(ids.tolist())
        assert seen[-1] == sample(head, hidden, seed=5, step=n).ids.tolist()
    assert len({tuple(one) for one in seen}) > 1


@pytest.mark.parametrize("batch", BATCHES)
def test_no_waiting_and_no_allocation_after_warm_up(batch: int) -> None:
    sampler, hidden = GreedySampler(head_on_gpu()), hidden_on_gpu(batch)
    out = torch.empty(batch, dtype=torch.int64, device="cuda")
    sampler(hidden, out=out)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler(hidden, out=out)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    assert out.tolist() == wanted(hidden)


def test_torch_compile_on_a_gpu() -> None:
    sampler, hidden = GreedySampler(head_on_gpu()), hidden_on_gpu(8)
    compiled = torch.compile(lambda h: sampler(h) + 1, fullgraph=True)
    assert torch.equal(compiled(hidden), sampler(hidden) + 1)
