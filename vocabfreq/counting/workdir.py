"""The work directory: partial files, what they are of, and that only one build writes into it."""

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vocabfreq.counting.partial_files import SUFFIX, partial_path
from vocabfreq.counting.plan import Plan
from vocabfreq.errors import RefusedError, WorkDirError
from vocabfreq.storage.atomic import remove_leftovers, write_atomically

MANIFEST = "build.json"
LOCK = ".lock"


@contextlib.contextmanager
def work_dir_of(plan: Plan) -> Iterator[Path]:
    """The work directory of a plan, made and locked; a temporary one when none was named.

    Raises:
        RefusedError: another build is writing there.
    """
    given = plan.options.work_dir
    if given is None:
        with tempfile.TemporaryDirectory(prefix="vocabfreq-") as folder:
            yield Path(folder)
        return
    try:
        lock = _locked(given)
    except Timeout:
        raise RefusedError(
            f"another build is writing into {given}",
            hint="wait for it, or name another --output or --work-dir",
        ) from None
    except OSError as error:
        raise _unwritable(given, error) from None
    try:
        _remove_temporary(given)
        yield given
    finally:
        lock.release()


def _locked(work_dir: Path) -> FileLock:
    """Makes and locks it, also when a build that ends is just removing it."""
    for _ in range(20):
        work_dir.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work_dir / LOCK, timeout=0)
        with contextlib.suppress(FileNotFoundError):
            lock.acquire()
            if (work_dir / LOCK).exists():
                return lock
            lock.release()
    raise Timeout(str(work_dir / LOCK))


def _unwritable(work_dir: Path, error: OSError) -> WorkDirError:
    return WorkDirError(
        f"cannot write into {work_dir}: {error.strerror}",
        hint="make room, or name another --work-dir, and run it again",
    )


def _remove_temporary(work_dir: Path) -> None:
    for name in (f"*{SUFFIX}", MANIFEST):
        remove_leftovers(work_dir, name)


def remove_work_dir(work_dir: Path) -> None:
    """Removes what builds left there, and the folder if nothing else is in it.

    Nothing is removed while another build is writing there.
    """
    lock = FileLock(work_dir / LOCK, timeout=0)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return
    try:
        _remove_temporary(work_dir)
        for path in [*work_dir.glob(f"*{SUFFIX}"), work_dir / MANIFEST, work_dir / LOCK]:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            work_dir.rmdir()
    finally:
        lock.release()


def write_manifest(plan: Plan, work_dir: Path) -> list[str]:
    """Notes in the work directory what is being counted.

    Returns:
        What changed since an earlier build there, in words; its partial files are of no use.
    """
    path = work_dir / MANIFEST
    manifest = _manifest(plan)
    changes = _changes(_read(path), manifest) if _has_others(plan, work_dir) else []
    try:
        write_atomically(path, json.dumps(manifest, sort_keys=True, indent=1).encode())
    except OSError as error:
        raise _unwritable(work_dir, error) from None
    return changes


def _has_others(plan: Plan, work_dir: Path) -> bool:
    """Whether there are partial files that this plan has no use for."""
    ours = {partial_path(work_dir, key) for key in plan.keys}
    return any(path not in ours for path in work_dir.glob(f"*{SUFFIX}"))


def _manifest(plan: Plan) -> dict[str, Any]:
    files = {p.file.path: p.file.stamp for shard in plan.shards for p in shard.pieces}
    layouts = sorted({f"{s.layout.kind} of {s.layout.column!r}" for s in plan.shards})
    return {
        "tokenizer": plan.job.sha256,
        "rows": plan.job.rows,
        "holdout": plan.job.holdout,
        "encoder": plan.job.encoder,
        "columns": layouts,
        "roles": sorted({source.roles for source in plan.sources}),
        "separator": sorted({repr(source.separator) for source in plan.sources}),
        "max_documents": sorted({repr(source.max_documents) for source in plan.sources}),
        "files": files,
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _changes(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    if before is None:
        return []
    plain = [key for key in after if key != "files" and before.get(key) != after[key]]
    changes = [f"{key} was {before.get(key)}, is {after[key]}" for key in plain]
    earlier = before.get("files") or {}
    changed = [p for p, stamp in after["files"].items() if earlier.get(p, stamp) != stamp]
    return changes + [f"{Path(path).name} has another content" for path in changed]
