"""`sample`, `topk`, `distribution`: probabilities, repeatability, edges."""

import math

import numpy as np
import pytest
import torch
from heads import INF, NAN, bitmask_of, head_of, numbers, vocab_of

from vocabfreq.errors import HeadError
from vocabfreq.runtime import (
    GreedySampler,
    Shape,
    distribution,
    prune_lm_head,
    reference,
    sample,
    topk,
)

DRAWS = 20_000


def softmax(logits: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    return (logits.double() / temperature).softmax(-1)


@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_sample_has_the_frequencies_of_the_softmax(temperature: float) -> None:
    """Chi-square of 20,000 draws against 12 probabilities, at the 99.99 % point."""
    full = torch.randn(60, 16, generator=torch.Generator().manual_seed(3)) * 0.2
    head = prune_lm_head(full, vocab_of(12, 60), shape=Shape(1.5, 4.0))
    hidden = numbers(1, 16, seed=1)
    chances = softmax(head(hidden)[0], temperature)
    ids = sample(head, hidden.expand(DRAWS, 16), seed=7, temperature=temperature).ids
    seen = torch.bincount(torch.from_numpy(head.vocab.to_draft(ids.numpy())), minlength=12)
    chi = ((seen - DRAWS * chances) ** 2 / (DRAWS * chances)).sum().item()
    assert chi < 37.4  # 11 degrees of freedom
    assert chances.min() * DRAWS > 5


def test_draws_of_steps_and_rows_do_not_depend_on_each_other() -> None:
    """Pairs of draws are as frequent as the product of their chances: chi-square over 16 pairs."""
    head = prune_lm_head(torch.eye(4), vocab_of(4, 4))
    hidden = torch.zeros(2, 4)
    pairs = torch.stack([sample(head, hidden, seed=1, step=step).ids for step in range(4_000)])
    for one, other in ((pairs[:, 0], pairs[:, 1]), (pairs[:-1, 0], pairs[1:, 0])):
        seen = torch.bincount(one * 4 + other, minlength=16).double()
        wanted = len(one) / 16
        assert ((seen - wanted) ** 2 / wanted).sum() < 44.3  # 15 degrees of freedom, 99.99 %


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    head, hidden = head_of(), numbers(64, 24).sign() * 0.05
    first = sample(head, hidden, seed=5, step=2)
    again = sample(head, hidden, seed=torch.tensor([5]), step=torch.tensor([2]))
    assert torch.equal(first.ids, again.ids)
    assert torch.equal(first.logprobs, again.logprobs)
    for seed, step in ((6, 2), (5, 3), (5 + (1 << 40), 2)):
        assert not torch.equal(first.ids, sample(head, hidden, seed=seed, step=step).ids)


def test_log_probabilities_are_those_of_the_draft_distribution() -> None:
    head = prune_lm_head(numbers(100, 24, seed=1) / 8, vocab_of(40, 100), shape=Shape(2.0, 5.0))
    hidden = numbers(9, 24)
    temperatures = torch.linspace(0.3, 2, 9)
    drawn = sample(head, hidden, seed=1, temperature=temperatures)
    chances = softmax(head(hidden) / temperatures[:, None])
    places = torch.from_numpy(head.vocab.to_draft(drawn.ids.numpy()))[:, None]
    torch.testing.assert_close(
        drawn.logprobs.double(), chances.gather(1, places)[:, 0].log(), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        distribution(head, hidden, temperatures).double(), chances, rtol=1e-4, atol=1e-7
    )


def test_temperature_zero_is_greedy() -> None:
    head, hidden = head_of(), numbers(9, 24)
    temperatures = torch.tensor([0.0] * 8 + [1.0])
    drawn, greedy = (
        sample(head, hidden, seed=1, temperature=temperatures),
        GreedySampler(head)(hidden),
    )
    assert torch.equal(drawn.ids[:8], greedy[:8])
    assert drawn.logprobs[:8].tolist() == [0.0] * 8
    assert distribution(head, hidden, 0.0).sum(1).tolist() == [1.0] * 9
    assert (distribution(head, hidden, 0.0).amax(1) == 1).all()


def test_r11_sampling_under_a_grammar() -> None:
    head = head_of(20, 24, 100)
    kept = head.vocab.target_ids.tolist()
    outside = next(i for i in range(100) if i not in kept)
    mask = bitmask_of([kept[:2], [outside], [kept[4]]], 100)
    hidden = torch.zeros(3, 24)
    ids = {tuple(sample(head, hidden, seed=s, bitmask=mask).ids.tolist()) for s in range(40)}
    assert ids == {(kept[0], -1, kept[4]), (kept[1], -1, kept[4])}
    logprobs = sample(head, hidden, seed=1, bitmask=mask).logprobs
    torch.testing.assert_close(logprobs, torch.tensor([-math.log(2), -INF, 0.0]))
    best = topk(head, hidden, 3, bitmask=mask)
    assert best.ids.tolist() == [[kept[0], kept[1], -1], [-1, -1, -1], [kept[4], -1, -1]]
    assert best.logprobs[1].tolist() == [-INF] * 3


def test_r4_sampling_from_nan_and_infinities() -> None:
    head = prune_lm_head(torch.eye(4), vocab_of(4, 4))
    hidden = torch.tensor([[NAN] * 4, [0, 0, INF, 0], [0, NAN, NAN, NAN]])
    assert sample(head, hidden.nan_to_num(posinf=3e38), seed=1).ids[1] == 2
    drawn = sample(head, torch.tensor([[0, INF, 0, 0.0]]).nan_to_num(), seed=1, temperature=0.5)
    assert (drawn.ids.tolist(), drawn.logprobs.tolist()) == ([1], [0.0])
    drawn = sample(head, torch.full((2, 4), NAN), seed=1)
    assert drawn.ids.tolist() == [0, 0]
    assert drawn.logprobs.tolist() == [-INF, -INF]


def test_topk_is_sorted_with_ties_by_the_lower_id() -> None:
    full, vocab = numbers(100, 6, seed=1), vocab_of(40, 100)
    head, hidden = prune_lm_head(full, vocab), numbers(9, 6)
    logits = head(hidden).double()
    best = topk(head, hidden, 7)
    for row, ids, found in zip(logits, best.ids.tolist(), best.logprobs, strict=True):
        order = torch.sort(row, descending=True, stable=True).indices[:7].tolist()
        assert ids == vocab.target_ids[order].tolist()
        torch.testing.assert_close(found.double(), row.log_softmax(0)[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("k", [0, 41, 2.0, True])
def test_topk_refuses_another_k(k: object) -> None:
    with pytest.raises(HeadError, match="expected a whole number from 1 to 40"):
        topk(head_of(), numbers(1, 24), k)  # type: ignore[arg-type]


def test_batches_of_nothing() -> None:
    head, hidden = head_of(), numbers(0, 24)
    assert sample(head, hidden, seed=1).ids.shape == (0,)
    assert topk(head, hidden, 3).ids.shape == (0, 3)
    assert distribution(head, hidden).shape == (0, 40)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"temperature": -1.0}, "temperature -1.0; expected a number from 0"),
        ({"temperature": INF}, "temperature inf"),
        ({"temperature": torch.ones(2)}, r"expected a number, or floats \[3\] on cpu"),
        ({"seed": torch.tensor([1.0])}, r"expected a whole number of 64 bits, or int64 \[1\]"),
        ({"step": torch.tensor([1, 2])}, r"expected a whole number of 64 bits, or int64 \[1\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: dict[str, object], match: str) -> None:
    with pytest.raises(HeadError, match=match):
        sample(head_of(), numbers(3, 24), **{"seed": 1, **given})  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch warns about itself
def test_sample_traces_under_torch_compile() -> None:
    torch._dynamo.reset()
    head, hidden, seed, step = head_of(), numbers(5, 24), torch.tensor([3]), torch.tensor([0])
    compiled = torch.compile(lambda h, n: sample(head, h, seed=seed, step=n), fullgraph=True)
    for _ in range(2):
        step += 1
        assert torch.equal(
            compiled(hidden, step).ids, sample(head, hidden, seed=seed, step=step).ids
        )


def test_philox_is_the_published_generator() -> None:
    """The known answers of Random123 for Philox-4x32-10, first word."""
    cases = [
        (0, [0, 0, 0, 0], 0x6627E8D5),
        (0xFFFFFFFFFFFFFFFF, [0xFFFFFFFF] * 4, 0x408F276D),
        (0x299F31D0A4093822, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], 0xD16CFE09),
    ]
    for seed, counter, word in cases:
        key = torch.tensor([seed - (1 << 64) if seed >> 63 else seed])
        found = reference.philox(key, *(torch.tensor([n]) for n in counter))
        assert found.item() == word


def test_gumbel_noise_has_its_distribution() -> None:
    """Kolmogorov–Smirnov distance of 200,000 numbers, at the 99.99 % point."""
    ids = torch.arange(200_000)
    found = reference.gumbel(torch.tensor([1]), torch.tensor([0]), torch.tensor([[0]]), ids)[0]
    assert found.isfinite().all()
    ordered = np.sort(found.double().numpy())
    exact = np.exp(-np.exp(-ordered))
    assert np.abs(exact - np.arange(1, 200_001) / 200_000).max() < 2.23 / math.sqrt(200_000)


def test_float32_whatever_the_default_dtype() -> None:
    head, hidden = head_of(), numbers(3, 24)
    wanted = sample(head, hidden, seed=1, temperature=0.7)
    torch.set_default_dtype(torch.float64)
    try:
        found = sample(head, hidden, seed=1, temperature=0.7)
        assert found.logprobs.dtype == torch.float32
        assert torch.equal(found.logprobs, wanted.logprobs)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_shard_alone_is_refused() -> None:
    from vocabfreq.runtime import shard_lm_head

    shard, hidden = shard_lm_head(numbers(100, 24), vocab_of(40, 100), 1, 3), numbers(3, 24)
    for call in (
        lambda: GreedySampler(shard)(hidden),
        lambda: topk(shard, hidden, 3),
        lambda: sample(shard, hidden, seed=1),
        lambda: distribution(shard, hidden),
    ):
        with pytest.raises(HeadError, match="a shard of 13 of 40 rows, and no group"):
            call()
    with pytest.raises(HeadError, match="rank 3 of 3"):
        shard_lm_head(numbers(100, 24), vocab_of(40, 100), 3, 3)


def test_r4_a_row_of_nan_has_a_distribution() -> None:
    head = head_of(3, 4, 10)
    assert distribution(head, torch.full((1, 4), NAN)).tolist() == [[1.0, 0.0, 0.0]]
    assert sample(head, torch.zeros(1, 4), seed=1, temperature=1e-39).logprobs.tolist() == [0.0]
