"""Compares the output of a run with plain decoding, and tells near-ties from real differences.

Greedy verification changes nothing but the shape of the target's forward: N + 1 positions at a time
instead of one. Sums are then rounded in another order, so where the two best logits are as good as
equal, either may win. A difference at a larger logit gap is an error, and never hidden.

The limit of a near-tie was set by measurement (docs/evaluate.md): how far the gap between the two
best ids moves when a position is read alone, or among four, counted in eps times the largest logit.
The limit is about twice the most that was seen: once for the run, once for measuring the gap again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from vocabfreq.errors import EvaluationError, VocabfreqError, require
from vocabfreq.measure.eval.plan import RunResult

# In 16 bits the rounding of the logits is nearly all of it, in float32 what adds up in the layers.
NEAR_TIE_EPS = {"bfloat16": 3, "float16": 3, "float32": 32}


class Alternatives(NamedTuple):
    """Two ids that follow the same prefix, one in each output."""

    prefix: tuple[int, ...]
    actual: int
    expected: int


class LogitGap(NamedTuple):
    """How far the target's largest logit is above the lower of two, and the limit of a near-tie."""

    gap: float
    limit: float


MeasureGaps = Callable[[Sequence[Alternatives]], Sequence[LogitGap]]


@dataclass(frozen=True)
class Difference:
    """The first position where the outputs of a run and of plain decoding differ.

    Attributes:
        prompt: its number, from 0.
        position: of the generated token, from 0.
        actual: id of the run, None where its output had ended.
        expected: id of plain decoding, None where its output had ended.
        logit_gap: of the target there, None where it could not be measured.
        near_tie_limit: up to this, the gap is a near-tie.
        reason: why the gap is unknown.
    """

    prompt: int
    position: int
    actual: int | None
    expected: int | None
    logit_gap: float | None = None
    near_tie_limit: float | None = None
    reason: str = ""

    @property
    def near_tie(self) -> bool:
        """Whether rounding explains it; an unknown gap is no near-tie."""
        gap, limit = self.logit_gap, self.near_tie_limit
        return gap is not None and limit is not None and gap <= limit


def compare_outputs(
    run: RunResult, vanilla: RunResult, measure: MeasureGaps
) -> tuple[Difference, ...]:
    """The first difference of each prompt, with the target's logit gap there.

    Raises:
        EvaluationError: the runs had different prompts.
    """
    found = first_differences(run, vanilla)
    ended = [d for d in found if d.actual is None or d.expected is None]
    others = [d for d in found if d not in ended]
    try:
        gaps = measure([_alternatives(run, d) for d in others]) if others else []
        measured = [
            replace(d, logit_gap=gap, near_tie_limit=limit)
            for d, (gap, limit) in zip(others, gaps, strict=True)
        ]
    except (VocabfreqError, RuntimeError) as error:
        measured = [replace(d, reason=str(error).splitlines()[0]) for d in others]
    return (*(replace(d, reason="one output ended") for d in ended), *measured)


def first_differences(run: RunResult, vanilla: RunResult) -> list[Difference]:
    """Where the outputs differ, one position per prompt at most.

    Raises:
        EvaluationError: the runs had different prompts.
    """
    if run.prompt_ids != vanilla.prompt_ids:
        raise EvaluationError(
            "a run and plain decoding were given different ids", expected="the same prompts"
        )
    found = []
    for prompt, (actual, expected) in enumerate(zip(run.outputs, vanilla.outputs, strict=True)):
        if actual != expected:
            pairs = enumerate(zip(actual, expected, strict=False))
            end = min(len(actual), len(expected))
            n = next((n for n, (a, b) in pairs if a != b), end)
            ids = [output[n] if n < len(output) else None for output in (actual, expected)]
            found.append(Difference(prompt, n, ids[0], ids[1]))
    return found


def _alternatives(run: RunResult, at: Difference) -> Alternatives:
    assert at.actual is not None
    assert at.expected is not None
    prefix = [*run.prompt_ids[at.prompt], *run.outputs[at.prompt][: at.position]]
    return Alternatives(tuple(prefix), at.actual, at.expected)


class TargetGaps:
    """Measures logit gaps with transformers; loads the target at the first call."""

    def __init__(self, target: str, dtype: str, options: dict[str, Any]) -> None:
        """Loads nothing.

        Args:
            target: folder or Hub repo.
            dtype: of the runs.
            options: of the runs; `device` is used.
        """
        self._target, self._dtype, self._options = target, dtype, options
        self._measured: dict[Alternatives, LogitGap] = {}

    def __call__(self, alternatives: Sequence[Alternatives]) -> list[LogitGap]:
        """The gap of each; the same one is measured once.

        Raises:
            MissingExtraError: transformers is not installed.
            EvaluationError: the target cannot be loaded.
        """
        for one in alternatives:
            if one not in self._measured:
                self._measured[one] = self._measure(one)
        return [self._measured[one] for one in alternatives]

    @cached_property
    def _model(self) -> Any:
        require("torch", "eval")
        from vocabfreq.measure.eval import models

        return models.load_model(self._target, self._dtype, models.device_of(self._options))

    def _measure(self, at: Alternatives) -> LogitGap:
        torch = require("torch", "eval")
        from vocabfreq.measure.eval.models import CachedModel

        with torch.inference_mode():
            logits = CachedModel(self._model).logits(list(at.prefix), 1)[0].float()
        gap = float(logits.max() - logits[[at.actual, at.expected]].min())
        eps = torch.finfo(getattr(torch, self._dtype)).eps
        return LogitGap(gap, near_tie_limit(float(logits.max().abs()), eps, self._dtype))


def near_tie_limit(largest_logit: float, eps: float, dtype: str) -> float:
    """Up to which gap two logits are as good as equal.

    Args:
        largest_logit: its absolute value.
        eps: of the dtype, the distance from 1 to the next number; 2**-7 for bfloat16.
        dtype: its name.
    """
    return NEAR_TIE_EPS[dtype] * eps * largest_logit
