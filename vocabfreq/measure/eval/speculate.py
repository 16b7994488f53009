"""The loop: draft some tokens, verify them in one forward of the target, keep what it agrees to.

Greedy on both sides, so the output is that of the target alone. Without a drafter the same loop
with nothing drafted is plain decoding.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor

from vocabfreq.measure.eval.models import Cached
from vocabfreq.runtime import GreedySampler, draft_chain

T = TypeVar("T")


@dataclass
class Tally:
    """What is counted and timed on the way.

    Attributes:
        steps: of each step, the drafted ids and how many were accepted.
        draft_seconds: of drafting in one step; not the first of a prompt, which reads the prompt.
        target_seconds: of one verification; the target's reading of the prompt is not among them.
    """

    steps: list[tuple[list[int], int]] = field(default_factory=list)
    draft_seconds: list[float] = field(default_factory=list)
    target_seconds: list[float] = field(default_factory=list)


class Drafter:
    """A model that drafts with some rows of its head, over what has been generated so far."""

    def __init__(self, model: Any, sampler: GreedySampler, tokens: int) -> None:
        """Starts with nothing read.

        Args:
            model: a causal LM.
            sampler: of its head, full or pruned.
            tokens: how many are drafted in one step.
        """
        self.cached, self.sampler, self.tokens = Cached(model), sampler, tokens

    def draft(self, ids: list[int]) -> list[int]:
        """The next tokens, target ids."""
        known = list(ids)

        def step(last: Tensor, _: Tensor) -> Tensor:
            known.append(int(last))
            return self.cached.hidden(known)

        drafted = draft_chain(step, self.sampler, self.cached.hidden(known), self.tokens)
        return [int(i) for i in drafted[0]]


class Speculator:
    """Generates greedily for one prompt after the other."""

    def __init__(self, target: Any, stops: frozenset[int], drafter: Callable[[], Drafter] | None):
        """Nothing is run yet.

        Args:
            target: a causal LM.
            stops: ids that end a text.
            drafter: makes a drafter for a new prompt; None for plain decoding.
        """
        self.target, self.stops, self.drafter = target, stops, drafter
        self.tally = Tally()

    @torch.inference_mode()
    def generate(self, prompt: list[int], limit: int) -> list[int]:
        """The ids that follow a prompt, up to `limit` or to a stop id, which is one of them."""
        target = Cached(self.target)
        drafter = self.drafter() if self.drafter else None
        ids = [*prompt, *chosen(target.logits(prompt, 1))]
        first = True
        while len(ids) < len(prompt) + limit and ids[-1] not in self.stops:
            drafted, seconds = self._timed(lambda: drafter.draft(ids) if drafter else [])  # noqa: B023
            self.tally.draft_seconds += [] if first else [seconds]
            ids += self._verified(target, ids, drafted)
            for one in (target, drafter.cached if drafter else target):
                one.crop(len(ids) - 1)
            first = False
        return ids[len(prompt) : len(prompt) + limit]

    def _verified(self, target: Cached, ids: list[int], drafted: list[int]) -> list[int]:
        """What the target accepts of the drafted ids, and its own next one; ends at a stop id."""
        wanted = len(drafted) + 1
        found, seconds = self._timed(lambda: chosen(target.logits([*ids, *drafted], wanted)))
        self.tally.target_seconds.append(seconds)
        agreed = agreement(drafted, found)
        new = up_to_stop(found[: agreed + 1], self.stops)
        if drafted:
            self.tally.steps.append((drafted, min(agreed, len(new))))
        return new

    def _timed(self, call: Callable[[], T]) -> tuple[T, float]:
        """A result and the seconds that it took, the device having finished."""
        started = time.perf_counter()
        result = call()  # ids are read back, which waits for the device
        return result, time.perf_counter() - started


def chosen(logits: Tensor) -> list[int]:
    """The target's choice at each place of [N, V]."""
    return [int(i) for i in logits.argmax(-1).tolist()]


def agreement(drafted: list[int], found: list[int]) -> int:
    """How many of the drafted ids, from the first, the target chooses too."""
    pairs = enumerate(zip(drafted, found, strict=False))
    return next((n for n, (ours, theirs) in pairs if ours != theirs), len(drafted))


def up_to_stop(ids: list[int], stops: frozenset[int]) -> list[int]:
    """The ids up to the first that ends a text."""
    return next((ids[: n + 1] for n, i in enumerate(ids) if i in stops), ids)
