"""The rows of the table: what each run came to, beside plain decoding and the unpruned drafter."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval.compare import Difference, Measure, judged
from vocabfreq.measure.eval.plan import Plan
from vocabfreq.measure.eval.predict import Prediction, predict
from vocabfreq.measure.eval.spec import RunResult, RunSpec
from vocabfreq.measure.eval.sweep import Run


@dataclass(frozen=True)
class Row:
    """One run; None stands for what is not known.

    Attributes:
        method: `vanilla`, the unpruned drafter (`eagle`, `self` …), or `fr-spec`.
        size: K, None for the full head.
        rows: V of the vocabulary, None for the full head.
        coverage: share of counted tokens whose id is kept.
        depth: drafted tokens one after the other.
        branching: drafted tokens beside each other; 1 where the engine has no trees.
        spec_tokens: tokens drafted in one step.
        batch_size: most requests at a time.
        acceptance_length: mean tokens per target step.
        acceptance_per_position: share of steps that accept the first, second, … drafted token.
        tokens_per_second: generated tokens by seconds.
        seconds: of generating.
        forward_ratio: seconds of drafting in one step to seconds of a target forward.
        to_vanilla: its tokens per second to those of plain decoding.
        to_unpruned: likewise to those of the unpruned drafter.
        prediction: acceptance that the unpruned run lets expect.
        compared: whether there was a run of plain decoding to compare with.
        differences: where its output is not that of plain decoding.
        error: why it failed.
        resumed: whether it was measured by an earlier command.
        ended_at: when, as ISO 8601 in UTC; empty where it is not known.
    """

    method: str
    size: int | None
    rows: int | None
    coverage: float | None
    depth: int
    branching: int
    spec_tokens: int
    batch_size: int
    acceptance_length: float | None = None
    acceptance_per_position: tuple[float, ...] = ()
    tokens_per_second: float | None = None
    seconds: float | None = None
    forward_ratio: float | None = None
    to_vanilla: float | None = None
    to_unpruned: float | None = None
    prediction: Prediction | None = None
    compared: bool = False
    differences: tuple[Difference, ...] = field(default_factory=tuple)
    error: str | None = None
    resumed: bool = False
    ended_at: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ran, and differs from plain decoding by near-ties at most."""
        return self.error is None and all(d.innocent for d in self.differences)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        listed = [{**asdict(d), "near_tie": d.innocent} for d in self.differences]
        return {**asdict(self), "differences": listed, "ok": self.ok}


def rows_of(plan: Plan, runs: Sequence[Run], measure: Measure) -> list[Row]:
    """One row for each run, in their order.

    Args:
        plan: what was swept.
        runs: how each ended.
        measure: the target's logit gaps, asked only where outputs differ.
    """
    return [_row(run, plan.vocabs if run.spec.pruned else {}, runs, measure) for run in runs]


def _row(
    run: Run, vocabs: dict[int | None, DraftVocab], runs: Sequence[Run], measure: Measure
) -> Row:
    spec, vocab = run.spec, vocabs.get(run.spec.size)
    row = _named(spec, vocab)
    if run.result is None:
        return replace(row, error=run.error or "no result")
    row = replace(_measured(row, run.result), resumed=run.resumed)
    vanilla = _result_of(runs, _without_drafter(spec))
    full = _result_of(runs, replace(spec, vocab=None, size=None)) if spec.drafter else None
    if vanilla is not None and spec.drafter is not None:
        found = judged(run.result, vanilla, measure)
        row = replace(row, compared=True, differences=found)
    if vocab and full and full.drafted and run.result.drafted:
        row = replace(row, prediction=predict(full.drafted, run.result.drafted, vocab))
    ratios = _ratio(run.result, vanilla), _ratio(run.result, full)
    return replace(row, to_vanilla=ratios[0], to_unpruned=ratios[1])


def _named(spec: RunSpec, vocab: DraftVocab | None) -> Row:
    return Row(
        method=spec.method,
        size=len(vocab) if vocab else None,
        rows=vocab.rows if vocab else None,
        coverage=vocab.coverage.get("all sources") if vocab else None,
        depth=spec.spec_tokens,
        branching=1 if spec.drafter else 0,
        spec_tokens=spec.spec_tokens,
        batch_size=spec.batch_size,
    )


def _measured(row: Row, result: RunResult) -> Row:
    return replace(
        row,
        coverage=row.coverage if row.coverage is not None else result.coverage,
        acceptance_length=result.acceptance_length,
        acceptance_per_position=result.acceptance_per_position,
        tokens_per_second=result.tokens_per_second,
        seconds=result.seconds,
        forward_ratio=result.forward_ratio,
        ended_at=result.ended_at,
    )


def _without_drafter(spec: RunSpec) -> RunSpec:
    return replace(spec, drafter=None, vocab=None, size=None, spec_tokens=0)


def _result_of(runs: Sequence[Run], spec: RunSpec) -> RunResult | None:
    return next((run.result for run in runs if run.spec == spec), None)


def _ratio(one: RunResult, other: RunResult | None) -> float | None:
    if other is None or not other.tokens_per_second:
        return None
    return one.tokens_per_second / other.tokens_per_second
