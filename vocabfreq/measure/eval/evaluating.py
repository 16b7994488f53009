"""`evaluate`: a plan in, everything that is to be told of it out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.measure.eval.compare import Measure
from vocabfreq.measure.eval.gaps import Target
from vocabfreq.measure.eval.plan import Plan
from vocabfreq.measure.eval.processes import WORKER
from vocabfreq.measure.eval.report import Row, rows_of
from vocabfreq.measure.eval.sweep import Run, sweep


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
