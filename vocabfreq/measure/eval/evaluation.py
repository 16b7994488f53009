"""`evaluate`: runs a plan, and compares each run with plain decoding and the unpruned drafter."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import hypot
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval.compare import Difference, MeasureGaps, TargetGaps, compare_outputs
from vocabfreq.measure.eval.engine_process import COMMAND, Progress
from vocabfreq.measure.eval.plan import DraftStep, Plan, RunResult, RunSpec
from vocabfreq.measure.eval.sweep import Run, sweep


@dataclass(frozen=True)
class Prediction:
    """Acceptance predicted for a size from the run of the unpruned drafter.

    Attributes:
        acceptance_length: predicted mean tokens per target step.
        two_standard_errors: of measured minus predicted, the two taken as independent.
        deviates: whether measured and predicted differ by more than that.
    """

    acceptance_length: float
    two_standard_errors: float
    deviates: bool


@dataclass(frozen=True)
class Row:
    """One run, as a row of the table; None stands for unknown.

    Attributes:
        method: `vanilla`, the unpruned drafter (`eagle`, `self` …), or `fr-spec`.
        size: K, None for the full head.
        vocab_size: V of the vocabulary, None for the full head.
        coverage: share of counted tokens whose id is kept.
        depth: drafted tokens one after the other.
        branching: alternatives drafted at a position; 1 where the engine has no trees.
        spec_tokens: tokens drafted per step.
        batch_size: most requests at a time.
        acceptance_length: mean tokens per target step.
        acceptance_per_position: share of steps that accept the first, second, … drafted token.
        tokens_per_second: generated tokens by seconds.
        seconds: of generating.
        forward_ratio: seconds of drafting in one step by seconds of a target forward.
        speedup_vs_vanilla: its tokens per second by those of plain decoding.
        speedup_vs_unpruned: its tokens per second by those of the unpruned drafter.
        prediction: acceptance predicted from the unpruned run.
        compared: whether there is a run of plain decoding to compare with.
        differences: from the output of plain decoding.
        error: why it failed.
        resumed: whether an earlier command measured it.
        ended_at: ISO 8601 in UTC; empty where unknown.
    """

    method: str
    size: int | None
    vocab_size: int | None
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
    speedup_vs_vanilla: float | None = None
    speedup_vs_unpruned: float | None = None
    prediction: Prediction | None = None
    compared: bool = False
    differences: tuple[Difference, ...] = ()
    error: str | None = None
    resumed: bool = False
    ended_at: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ran, and differs from plain decoding by near-ties at most."""
        return self.error is None and all(d.near_tie for d in self.differences)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        differences = [{**asdict(d), "near_tie": d.near_tie} for d in self.differences]
        return {**asdict(self), "differences": differences, "ok": self.ok}


@dataclass(frozen=True)
class Evaluation:
    """The outcome of a sweep.

    Attributes:
        plan: of the sweep.
        rows: one for each run.
        resumed: number of runs that an earlier command finished.
        notes: remarks for the reader, each once.
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
    progress: Progress = lambda _: None,
    command: Sequence[str] = COMMAND,
    measure: MeasureGaps | None = None,
) -> Evaluation:
    """Runs what is missing, and compares.

    Args:
        plan: what to run.
        work_dir: where results are kept.
        progress: called with a line of text now and then.
        command: of the process of a run.
        measure: measures the target's logit gaps; None for transformers.

    Raises:
        Interrupted: Ctrl-C; finished runs are kept.
        RefusedError: another sweep is writing into `work_dir`.
    """
    runs = sweep(plan, work_dir, progress, command)
    measure = measure or TargetGaps(plan.target, plan.dtype, plan.options)
    rows = tuple(_row(run, plan, runs, measure) for run in runs)
    resumed = sum(run.resumed for run in runs)
    return Evaluation(plan, rows, resumed, _notes(plan, runs, work_dir), _versions(runs))


def _row(run: Run, plan: Plan, runs: Sequence[Run], measure: MeasureGaps) -> Row:
    spec, result = run.spec, run.result
    vocab = plan.vocabs[spec.size] if spec.pruned else None
    row = Row(
        method=spec.method,
        size=len(vocab) if vocab else None,
        vocab_size=vocab.rows if vocab else None,
        coverage=vocab.coverage.get("all sources") if vocab else None,
        depth=spec.spec_tokens,
        branching=1 if spec.drafter else 0,
        spec_tokens=spec.spec_tokens,
        batch_size=spec.batch_size,
    )
    if result is None:
        return replace(row, error=run.error or "no result")
    plain = replace(spec, drafter=None, vocab=None, size=None, spec_tokens=0)
    vanilla = _result_of(runs, plain)
    unpruned = _result_of(runs, replace(spec, vocab=None, size=None)) if spec.drafter else None
    compared = vanilla if spec.drafter else None
    return replace(
        row,
        coverage=row.coverage if row.coverage is not None else result.coverage,
        acceptance_length=result.acceptance_length,
        acceptance_per_position=result.acceptance_per_position,
        tokens_per_second=result.tokens_per_second,
        seconds=result.seconds,
        forward_ratio=result.forward_ratio,
        speedup_vs_vanilla=_speedup(result, vanilla),
        speedup_vs_unpruned=_speedup(result, unpruned),
        prediction=_prediction(result, unpruned, vocab),
        compared=compared is not None,
        differences=compare_outputs(result, compared, measure) if compared else (),
        resumed=run.resumed,
        ended_at=result.ended_at,
    )


def _result_of(runs: Sequence[Run], spec: RunSpec) -> RunResult | None:
    return next((run.result for run in runs if run.spec == spec), None)


def _speedup(result: RunResult, other: RunResult | None) -> float | None:
    if other is None or not other.tokens_per_second:
        return None
    return result.tokens_per_second / other.tokens_per_second


def _prediction(
    result: RunResult, unpruned: RunResult | None, vocab: DraftVocab | None
) -> Prediction | None:
    if not vocab or not unpruned or not unpruned.draft_steps or not result.draft_steps:
        return None
    return predict(unpruned.draft_steps, result.draft_steps, vocab)


def predict(
    unpruned: Sequence[DraftStep], measured: Sequence[DraftStep], vocab: DraftVocab
) -> Prediction:
    """Predicts acceptance from the unpruned drafter, and compares.

    The prediction ends each draft at the first id that is not kept. Measured acceptance may be a
    little higher: where the full head drafts an id that is not kept and is rejected, the pruned
    head drafts its next best, which may be right.

    Args:
        unpruned: steps of the unpruned drafter.
        measured: steps of the drafter pruned to `vocab`.
        vocab: the kept ids.
    """
    expected = np.array([_accepted_and_kept(step, vocab.t2d) for step in unpruned], float)
    found = np.array([accepted for _, accepted in measured], float)
    limit = 2 * hypot(_standard_error(expected), _standard_error(found))
    deviates = bool(abs(expected.mean() - found.mean()) > limit)
    return Prediction(1 + expected.mean(), limit, deviates)


def _accepted_and_kept(step: DraftStep, t2d: npt.NDArray[np.bool_]) -> int:
    """Number of accepted ids before the first that is not kept."""
    drafted, accepted = step
    missing = (n for n, i in enumerate(drafted) if i >= len(t2d) or not t2d[i])
    return min(accepted, next(missing, len(drafted)))


def _standard_error(values: npt.NDArray[np.float64]) -> float:
    """Of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def _notes(plan: Plan, runs: Sequence[Run], work_dir: Path) -> tuple[str, ...]:
    """Notes of the engine, remarks about the kept ids, and a note about resumed runs."""
    notes = [note for run in runs if run.result for note in run.result.notes]
    notes += plan.remarks if plan.drafter is not None else ()
    times = sorted(run.result.ended_at for run in runs if run.resumed and run.result)
    if times:
        period = times[0] if times[0] == times[-1] else f"{times[0]} to {times[-1]}"
        notes.append(
            f"* {len(times)} of {len(runs)} runs were measured by an earlier command, ended "
            f"{period}; the machine may have been faster or slower then; remove {work_dir} to "
            "measure all runs again"
        )
    return tuple(dict.fromkeys(notes))


def _versions(runs: Sequence[Run]) -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in run.result.versions.items() if run.result else ():
            found.setdefault(name, {})[version] = None
    return {name: ", ".join(versions) for name, versions in found.items()}
