"""Drafts of the runtime in a loop of speculative sampling: what comes out is the target's.

Target and drafter see the last token alone, so the chance of every output is known.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import pytest
import torch
from heads import vocab_of
from rejection import fit, same, verified
from torch import Tensor

from vocabfreq.runtime import GreedySampler, PrunedHead, distribution, prune_lm_head, sample

V, KEPT, H, DEPTH, LENGTH = 7, 4, 8, 2, 3
HEAT, DRAWS = 0.8, 30_000
LIKELY, IMPOSSIBLE = 1e-3, 1e-9


def gauss(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Drafts(NamedTuple):
    """Ids, int64 [B], and the distributions that they are claimed to come from, doubles [B, V]."""

    ids: Tensor
    distributions: Tensor


@dataclass(frozen=True)
class Drafter:
    """A pruned head over hidden states [V, H] by the last token, drawn at one temperature.

    Attributes:
        states: hidden states by the last token.
        head: of the drafter.
        heat: temperature of the draws; 0 drafts greedily.
        claimed: temperature of the distributions that are handed over.
        full: rows [V, H] of the whole head; given, distributions over all ids are handed over.
    """

    states: Tensor
    head: PrunedHead
    heat: float = HEAT
    claimed: float = HEAT
    full: Tensor | None = None

    def __call__(self, last: Tensor, step: int) -> Drafts:
        hidden = self.states[last]
        if self.heat:
            ids = sample(self.head, hidden, seed=11, step=step, temperature=self.heat).ids
        else:
            ids = GreedySampler(self.head)(hidden)
        if self.full is not None:
            return Drafts(ids, ((hidden @ self.full.T).double() / self.claimed).softmax(1))
        distributions = torch.zeros(len(last), V, dtype=torch.float64)
        distributions[:, self.head.target_ids] = distribution(
            self.head, hidden, self.claimed
        ).double()
        return Drafts(ids, distributions)


@dataclass(frozen=True)
class Pair:
    """A target's distributions by the last token, doubles [V, V], and its drafter."""

    target: Tensor
    drafter: Drafter
    rows: Tensor

    @cached_property
    def chances(self) -> Tensor:
        """Of every output of three tokens after token 0, doubles [V, V, V]."""
        first, second = self.target[0][:, None, None], self.target[:, :, None]
        return first * second * self.target[None]


@pytest.fixture(scope="module")
def pair() -> Pair:
    states, full = gauss(V, H, seed=1), gauss(V, H, seed=2) / 2
    rows = full + gauss(V, H, seed=3) / 4
    head = prune_lm_head(rows, vocab_of(KEPT, V))
    return Pair(((states @ full.T).double() / HEAT).softmax(1), Drafter(states, head), rows)


class Outputs(NamedTuple):
    """Counts [V, V, V] of outputs, and the share of drafted ids that were accepted."""

    counts: Tensor
    accepted: float


def generate(target: Tensor, drafter: Drafter, *, residual: bool = True) -> Outputs:
    """Rounds of drafting and verification until every row has its tokens after token 0."""
    noise = torch.Generator().manual_seed(5)
    text = torch.zeros(DRAWS, 1 + LENGTH + DEPTH, dtype=torch.int64)
    ends = torch.zeros(DRAWS, dtype=torch.int64)
    step = taken = drafted = 0
    while len(rows := (ends < LENGTH).nonzero()[:, 0]):
        tokens = [text[rows, ends[rows]]]
        distributions: list[Tensor] = []
        for _ in range(DEPTH):
            drafts = drafter(tokens[-1], step)
            tokens, distributions, step = (
                [*tokens, drafts.ids],
                [*distributions, drafts.distributions],
                step + 1,
            )
        seen = torch.stack(tokens, 1)
        out = verified(
            target[seen], torch.stack(distributions, 1), seen[:, 1:], noise, residual=residual
        )
        for place in range(DEPTH + 1):
            there = out[:, place] >= 0
            text[rows[there], ends[rows[there]] + 1 + place] = out[there, place]
        lengths = (out >= 0).sum(1)
        ends[rows] += lengths
        taken, drafted = taken + int(lengths.sum()) - len(rows), drafted + len(rows) * DEPTH
    cells = (text[:, 1] * V + text[:, 2]) * V + text[:, 3]
    return Outputs(torch.bincount(cells, minlength=V**3).reshape(V, V, V), taken / drafted)


@pytest.mark.parametrize("heat", [HEAT, 0.5, 1.5, 0.0])
def test_outputs_are_distributed_as_the_targets(pair: Pair, heat: float) -> None:
    """The draft's temperature is its own affair; at 0 its distribution is one id."""
    outputs = generate(pair.target, replace(pair.drafter, heat=heat, claimed=heat))
    assert fit(outputs.counts, pair.chances) > LIKELY
    assert 0.05 < outputs.accepted < 0.9


def test_ids_that_are_not_kept_come_out_as_often_as_they_should(pair: Pair) -> None:
    counts = generate(pair.target, pair.drafter).counts
    outside = torch.tensor([i for i in range(V) if i not in pair.drafter.head.vocab.target_ids])
    assert len(outside) == V - KEPT
    for dim in range(LENGTH):
        others = tuple(other for other in range(LENGTH) if other != dim)
        seen, chances = counts.sum(others)[outside], pair.chances.sum(others)[outside]
        assert chances.sum() > 0.1
        rest = torch.stack([*seen, DRAWS - seen.sum()]), torch.stack([*chances, 1 - chances.sum()])
        assert fit(*rest) > LIKELY


@pytest.mark.parametrize("fault", ["no residual", "temperature", "full head", "greedy"])
def test_a_broken_rule_is_found(pair: Pair, fault: str) -> None:
    drafter = {
        "no residual": pair.drafter,
        "temperature": replace(pair.drafter, claimed=1.0),
        "full head": replace(pair.drafter, full=pair.rows),
        "greedy": replace(pair.drafter, heat=0.0),
    }[fault]
    counts = generate(pair.target, drafter, residual=fault != "no residual").counts
    assert fit(counts, pair.chances) < IMPOSSIBLE


def test_two_counts_are_told_apart(pair: Pair) -> None:
    """`same`, which judges a real engine, has the level and the power that it says."""
    noise = torch.Generator().manual_seed(1)
    chances = pair.chances.flatten()
    one, other = (drawn(chances, 3_000, noise) for _ in range(2))
    assert same(one, other) > LIKELY
    assert same(one, drawn((chances**0.8) / (chances**0.8).sum(), 9_000, noise)) < IMPOSSIBLE
    values = [same(drawn(chances, 500, noise), drawn(chances, 900, noise)) for _ in range(400)]
    assert 0.01 < sum(value < 0.05 for value in values) / 400 < 0.1


def drawn(chances: Tensor, size: int, noise: torch.Generator) -> Tensor:
    ids = torch.multinomial(chances, size, replacement=True, generator=noise)
    return torch.bincount(ids, minlength=len(chances))
