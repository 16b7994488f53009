"""All runs of a plan, one after the other; finished ones are kept and not run again."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from vocabfreq.errors import EvaluationError, RefusedError
from vocabfreq.measure.eval.fingerprints import key_of
from vocabfreq.measure.eval.plan import Plan
from vocabfreq.measure.eval.processes import WORKER, run_child
from vocabfreq.measure.eval.spec import RunResult, RunSpec, load, save

Note = Callable[[str], None]
LOCK = ".lock"


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        spec: what was to be done.
        result: what came out, None where it failed.
        error: why it failed.
        resumed: whether the result was there before.
    """

    spec: RunSpec
    result: RunResult | None = None
    error: str | None = None
    resumed: bool = False


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a sweep; what was finished is kept."""

    def __init__(self, finished: int, total: int) -> None:
        """Says how many runs are kept."""
        self.finished, self.total = finished, total
        super().__init__(f"{finished} of {total} runs are finished and kept")


def sweep(
    plan: Plan,
    work_dir: Path,
    note: Note = lambda _: None,
    worker: Sequence[str] = WORKER,
) -> list[Run]:
    """Runs what is missing, each in a fresh process; a run that fails does not stop the others.

    Args:
        plan: what to run.
        work_dir: where results are kept, by a hash of all that they depend on.
        note: is told how far it is.
        worker: the command of a run.

    Raises:
        Interrupted: Ctrl-C; the running process has been ended.
        RefusedError: another sweep is writing there.
    """
    specs, runs = plan.specs(), list[Run]()
    with _locked(work_dir):
        try:
            for number, spec in enumerate(specs, 1):
                told = _placed(note, f"[{number}/{len(specs)}] {spec.label}")
                runs.append(_run(spec, work_dir, told, worker))
        except KeyboardInterrupt:
            raise Interrupted(len([run for run in runs if run.result]), len(specs)) from None
    return runs


def _placed(note: Note, place: str) -> Note:
    return lambda text: note(f"{place}: {text}")


def _run(spec: RunSpec, work_dir: Path, note: Note, worker: Sequence[str]) -> Run:
    base = work_dir / key_of(spec)
    asked, out, log = (base.with_suffix(end) for end in (".spec.json", ".json", ".log"))
    kept = _kept(out)
    if kept is not None:
        note("was finished before")
        return Run(spec, kept, resumed=True)
    note("starts")
    save(asked, spec)
    started = time.monotonic()
    error = run_child(asked, out, log, note, worker)
    result = None if error else _kept(out)
    if result is None:
        error = error or f"{out} does not hold a result"
        note(f"FAILED: {error}")
        return Run(spec, error=error)
    note(f"{_summary(result)}; {time.monotonic() - started:.0f} s with loading")
    return Run(spec, result)


def _kept(path: Path) -> RunResult | None:
    try:
        return load(path, RunResult) if path.exists() else None
    except EvaluationError:
        return None  # damaged: it is run again


def _summary(result: RunResult) -> str:
    speed = f"{result.tokens_per_second:.1f} tok/s"
    return f"{result.acceptance_length:.2f} tokens a step, {speed}" if result.drafts else speed


@contextmanager
def _locked(work_dir: Path) -> Iterator[None]:
    work_dir.mkdir(parents=True, exist_ok=True)
    lock = FileLock(work_dir / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RefusedError(
            f"another sweep is writing into {work_dir}", hint="wait for it, or name a --work-dir"
        ) from None
    with lock:
        yield
