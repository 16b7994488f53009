"""Partial files: what one shard counted, kept until every shard is there.

A partial file is a safetensors file: `ids` uint32 [N], the ids met, and `counts` [N]; the same of
the held-out documents as `heldout_ids` and `heldout` [M]; counts are uint32 where they fit, else
int64; and one metadata key with the rest as JSON: the fingerprint that the file is called by, the
shard's name, what was read and skipped, and a hash over all of it. A damaged file, or one under
another's name, is noticed and counted again.

The work directory: partial files, what they are of, and that only one build writes into it.
"""

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.shard import Counts, ShardCount
from vocabfreq.errors import RefusedError, WorkDirError
from vocabfreq.storage.atomic import remove_leftovers, write_atomically

SUFFIX = ".part.safetensors"
_KEY = "vocabfreq_part"
_TENSORS = ("ids", "counts", "heldout_ids", "heldout")


class _Meta(msgspec.Struct):
    key: str
    shard: str
    rows: int
    documents: int
    heldout_documents: int
    bytes: int
    digest: str
    tally: Tally
    lines: list[int]
    encoder: tuple[str, str]
    checked: int
    mismatched: int
    code_points: list[str]
    mask: tuple[int, int]
    sha256: str = ""


_COUNTED = _Meta.__struct_fields__[3:-1]  # those that a ShardCount has under the same name


def partial_path(work_dir: Path, key: str) -> Path:
    """Where the shard with this fingerprint leaves its counts."""
    return work_dir / f"{key}{SUFFIX}"


def save_partial(path: Path, count: ShardCount, shard: str) -> None:
    """Writes a partial file, whole or not at all.

    Args:
        path: from `partial_path`; its fingerprint goes into the file too.
        count: what the shard holds.
        shard: the shard's name, for people.
    """
    tensors = {
        **_sparse(count.counts, "ids", "counts"),
        **_sparse(count.heldout, "heldout_ids", "heldout"),
    }
    meta = _meta(_key(path), shard, count)
    meta.sha256 = _hash(meta, tensors)
    data = save(tensors, metadata={_KEY: msgspec.json.encode(meta).decode()})
    write_atomically(path, data)


def _sparse(full: Counts, ids_name: str, counts_name: str) -> dict[str, npt.NDArray[Any]]:
    ids = np.flatnonzero(full)
    counts = full[ids]
    small = not len(counts) or counts.max() < 2**32
    return {ids_name: ids.astype(np.uint32), counts_name: counts.astype("u4" if small else "i8")}


def _key(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


def _meta(key: str, shard: str, count: ShardCount) -> _Meta:
    fields = {name: getattr(count, name) for name in _COUNTED}
    fields["digest"] = f"{count.digest:064x}"
    return _Meta(key, shard, len(count.counts), **fields)


def _hash(meta: _Meta, tensors: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(meta, sha256="")))
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def load_partial(path: Path) -> ShardCount | None:
    """Reads a partial file; None when there is none, it is not whole, or it is another shard's."""
    if not path.is_file():
        return None
    try:
        with safe_open(str(path), "numpy") as file:
            meta = msgspec.json.decode((file.metadata() or {})[_KEY], type=_Meta)
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
    except (SafetensorError, msgspec.DecodeError, KeyError, OSError, ValueError):
        return None
    whole = meta.key == _key(path) and meta.sha256 == _hash(meta, tensors)
    return _restore(meta, tensors) if whole else None


def _restore(meta: _Meta, tensors: dict[str, npt.NDArray[Any]]) -> ShardCount:
    counts, heldout = np.zeros(meta.rows, np.int64), np.zeros(meta.rows, np.int64)
    counts[tensors["ids"]] = tensors["counts"]
    heldout[tensors["heldout_ids"]] = tensors["heldout"]
    fields = {name: getattr(meta, name) for name in _COUNTED}
    fields["digest"] = int(meta.digest, 16)
    return ShardCount(counts, heldout, **fields)


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
