"""The rows of the table: what each run came to, beside plain decoding and the unpruned drafter.

What a size should do to acceptance, told from the run of the unpruned drafter alone.

If drafts end at the first id outside the kept ones, a step accepts what comes before it. Measured
acceptance may be a little higher: where the full head would draft an id that is not kept, and be
rejected, the pruned head drafts its next best, which may be right.

`evaluate`: a plan in, everything that is to be told of it out.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval.compare import Difference, Measure, Target, judged
from vocabfreq.measure.eval.plan import Plan, RunResult, RunSpec
from vocabfreq.measure.eval.sweep import Run, sweep
from vocabfreq.measure.eval.worker import WORKER

Steps = list[tuple[list[int], int]]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Mean acceptance length that was to be expected, beside what was measured.

    Attributes:
        length: predicted, tokens per target step.
        two_errors: two standard errors of measured minus predicted, taken as independent.
        off: whether they are further apart than that.
    """

    length: float
    two_errors: float
    off: bool


def predict(full: Steps, measured: Steps, vocab: DraftVocab) -> Prediction:
    """Compares.

    Args:
        full: steps of the unpruned drafter, drafted target ids and how many were accepted.
        measured: the same of the drafter pruned to `vocab`.
        vocab: the kept ids.
    """
    expected = np.array([kept_of(step, vocab.t2d) for step in full], float)
    found = np.array([accepted for _, accepted in measured], float)
    both = 2 * hypot(standard_error(expected), standard_error(found))
    return Prediction(1 + expected.mean(), both, bool(abs(expected.mean() - found.mean()) > both))


def kept_of(step: tuple[list[int], int], kept: npt.NDArray[np.bool_]) -> int:
    """How many of the accepted ids come before the first that is not kept."""
    drafted, accepted = step
    outside = (n for n, i in enumerate(drafted) if i >= len(kept) or not kept[i])
    return min(accepted, next(outside, len(drafted)))


def standard_error(values: Numbers) -> float:
    """Of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


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


@dataclass(frozen=True)
class Evaluation:
    """What a sweep gave.

    Attributes:
        plan: what was swept.
        rows: one for each run.
        resumed: how many runs had been finished before.
        notes: what a reader should know, each once.
        versions: package → version, or versions where runs had several.
    """

    plan: Plan
    rows: tuple[Row, ...]
    resumed: int
    notes: tuple[str, ...]
    versions: dict[str, str]

    @property
    def ok(self) -> bool:
        """Whether every run ended, and differs from plain decoding by near-ties at most."""
        return all(row.ok for row in self.rows)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; of the prompts only their number."""
        names = "engine", "target", "drafter", "vocab", "dtype", "max_tokens", "options"
        return {
            **{name: getattr(self.plan, name) for name in names},
            "prompts": len(self.plan.prompts),
            "rows": [row.as_dict() for row in self.rows],
            "notes": list(self.notes),
            "versions": self.versions,
            "ok": self.ok,
        }


def evaluate(
    plan: Plan,
    work_dir: Path,
    note: Callable[[str], None] = lambda _: None,
    worker: Sequence[str] = WORKER,
    measure: Measure | None = None,
) -> Evaluation:
    """Runs what is missing, compares, and sums up.

    Args:
        plan: what to run.
        work_dir: where results are kept.
        note: is told how far it is.
        worker: the command of a run.
        measure: the target's logit gaps; None for transformers.

    Raises:
        Interrupted: Ctrl-C; finished runs are kept.
        RefusedError: another sweep is writing there.
    """
    runs = sweep(plan, work_dir, note, worker)
    measure = measure or Target(plan.target, plan.dtype, plan.options)
    rows = rows_of(plan, runs, measure)
    resumed = sum(run.resumed for run in runs)
    return Evaluation(plan, tuple(rows), resumed, _notes(plan, runs, work_dir), _versions(runs))


def _notes(plan: Plan, runs: Sequence[Run], work_dir: Path) -> tuple[str, ...]:
    """Of the engine, of the kept ids, and of runs from another time."""
    told = [text for run in runs if run.result for text in run.result.notes]
    remarks = plan.remarks if plan.drafter is not None else ()
    return tuple(dict.fromkeys([*told, *remarks, *_of_another_time(runs, work_dir)]))


def _of_another_time(runs: Sequence[Run], work_dir: Path) -> list[str]:
    times = sorted(run.result.ended_at for run in runs if run.resumed and run.result)
    if not times:
        return []
    when = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
    return [
        f"* {len(times)} of {len(runs)} runs are of an earlier command, ended {when}: a machine "
        f"changes with time, and speeds with it; remove {work_dir} to measure all anew"
    ]


def _versions(runs: Sequence[Run]) -> dict[str, str]:
    pairs = [pair for run in runs if run.result for pair in run.result.versions.items()]
    merged: dict[str, dict[str, None]] = {}
    for name, value in pairs:
        merged.setdefault(name, {})[value] = None
    return {name: ", ".join(values) for name, values in merged.items()}
