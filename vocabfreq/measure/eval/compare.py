"""Output of a drafted run against plain decoding, token by token, and what a difference means.

Drafting with greedy verification changes nothing but the shape of the target's forward: N + 1
places at a time instead of one. Sums are then rounded in another order, so where the two best
logits are as good as equal, either may win. How equal is said by `bound_of`; a difference at a
larger gap is an error of somebody's, and never hidden.

The target's logit gap between two ids, measured with transformers in the dtype of the run.

What is a near-tie was set by measurement (docs/evaluate.md): how far the gap between the two best
ids moves when a place is read alone, or among four, counted in eps times the largest logit. The
bound is about twice the most that was seen: once for the run, once for measuring the gap anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from vocabfreq.errors import EvaluationError, VocabfreqError, require
from vocabfreq.measure.eval.plan import RunResult


class Case(NamedTuple):
    """Two ids after the same prefix."""

    prefix: tuple[int, ...]
    ours: int
    vanilla: int


class Gap(NamedTuple):
    """How far the target's largest logit is above the lower of two, and what is innocent."""

    gap: float
    bound: float


Measure = Callable[[Sequence[Case]], Sequence[Gap]]


@dataclass(frozen=True)
class Difference:
    """The first place of one prompt where a run and plain decoding part.

    Attributes:
        prompt: its number, from 0.
        position: of the generated token, from 0.
        ours: the run's id there, None where it had ended.
        vanilla: likewise of plain decoding.
        gap: the target's logit gap there, None where it could not be measured.
        bound: up to this a gap is a near-tie.
        why: why there is no gap.
    """

    prompt: int
    position: int
    ours: int | None
    vanilla: int | None
    gap: float | None = None
    bound: float | None = None
    why: str = ""

    @property
    def innocent(self) -> bool:
        """Whether it is a near-tie; what was not measured is not."""
        return self.gap is not None and self.bound is not None and self.gap <= self.bound


def first_differences(run: RunResult, vanilla: RunResult) -> list[Difference]:
    """Where the outputs part, one place a prompt at most.

    Raises:
        EvaluationError: the runs had different prompts.
    """
    if run.prompt_ids != vanilla.prompt_ids:
        raise EvaluationError(
            "a run and plain decoding were given different ids", expected="the same prompts"
        )
    found = []
    for prompt, (ours, theirs) in enumerate(zip(run.outputs, vanilla.outputs, strict=True)):
        if ours != theirs:
            shared = zip(ours, theirs, strict=False)
            place = next((n for n, (a, b) in enumerate(shared) if a != b), None)
            place = min(len(ours), len(theirs)) if place is None else place
            found.append(Difference(prompt, place, _at(ours, place), _at(theirs, place)))
    return found


def judged(run: RunResult, vanilla: RunResult, measure: Measure) -> tuple[Difference, ...]:
    """The differences with the target's logit gap at each."""
    found = first_differences(run, vanilla)
    open_ended = [replace(d, why="one of them ended") for d in found if None in (d.ours, d.vanilla)]
    parted = [d for d in found if None not in (d.ours, d.vanilla)]
    cases = [_case(run, difference) for difference in parted]
    try:
        gaps = measure(cases) if cases else []
    except (VocabfreqError, RuntimeError) as error:
        told = str(error).splitlines()[0]
        return (*open_ended, *(replace(d, why=told) for d in parted))
    pairs = zip(parted, gaps, strict=True)
    return (*open_ended, *(replace(d, gap=g.gap, bound=g.bound) for d, g in pairs))


def _at(ids: list[int], place: int) -> int | None:
    return ids[place] if place < len(ids) else None


def _case(run: RunResult, at: Difference) -> Case:
    assert at.ours is not None
    assert at.vanilla is not None
    prefix = [*run.prompt_ids[at.prompt], *run.outputs[at.prompt][: at.position]]
    return Case(tuple(prefix), at.ours, at.vanilla)


# In 16 bits the rounding of the logits is nearly all of it, in float32 what adds up in the layers.
MOVES = {"bfloat16": 3, "float16": 3, "float32": 32}


class Target:
    """A target that is loaded when the first gap is asked for, and answers each case once."""

    def __init__(self, name: str, dtype: str, options: dict[str, Any]) -> None:
        """Loads nothing.

        Args:
            name: folder or Hub repo.
            dtype: of the runs.
            options: of the runs; `device` is used.
        """
        self._name, self._dtype, self._options = name, dtype, options
        self._model: Any = None
        self._known: dict[Case, Gap] = {}

    def __call__(self, cases: Sequence[Case]) -> list[Gap]:
        """One gap for each case.

        Raises:
            MissingExtraError: transformers is not installed.
            EvaluationError: the target cannot be loaded.
        """
        for case in cases:
            if case not in self._known:
                self._known[case] = self._measured(case)
        return [self._known[case] for case in cases]

    def _measured(self, case: Case) -> Gap:
        torch = require("torch", "eval")
        from vocabfreq.measure.eval import models

        if self._model is None:
            device = models.device_of(self._options)
            self._model = models.load_model(self._name, self._dtype, device)
        with torch.inference_mode():
            logits = models.Cached(self._model).logits(list(case.prefix), 1)[0]
        values = logits.float()
        gap = float(values.max() - values[[case.ours, case.vanilla]].min())
        eps = torch.finfo(getattr(torch, self._dtype)).eps
        return Gap(gap, bound_of(float(values.max().abs()), eps, self._dtype))


def bound_of(largest: float, eps: float, dtype: str) -> float:
    """Up to which gap two logits are as good as equal.

    Args:
        largest: size of the largest logit there.
        eps: of the dtype, the distance from 1 to the next number; 2**-7 for bfloat16.
        dtype: its name.
    """
    return MOVES[dtype] * eps * largest
