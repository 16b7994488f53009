"""Partial files (the counts of one shard each) and the work directory that holds them.

A partial file is a safetensors file: `ids` uint32 [N], the ids met, and `counts` [N]; the same of
the held-out documents as `heldout_ids` and `heldout` [M]; counts are uint32 where they fit, else
int64. One metadata key holds the rest as JSON: the fingerprint that names the file, the shard's
name, what was read and skipped, and a hash over all of it. A file that is damaged, or has another
shard's name, does not load, and its shard is counted again.

Only one build at a time writes into a work directory; `build.json` in it records what was counted.
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

from vocabfreq.corpus.bad_rows import BadRows
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.shard import Counts, ShardCount
from vocabfreq.errors import RefusedError, WorkDirError
from vocabfreq.storage.atomic import remove_leftovers, write_atomically

SUFFIX = ".part.safetensors"
MANIFEST = "build.json"
LOCK = ".lock"
_METADATA_KEY = "vocabfreq_part"
_TENSORS = ("ids", "counts", "heldout_ids", "heldout")


class _Metadata(msgspec.Struct):
    key: str
    shard: str
    rows: int
    documents: int
    heldout_documents: int
    bytes: int
    digest: str
    bad_rows: BadRows = msgspec.field(name="tally")
    lines: list[int]
    encoder: tuple[str, str]
    checked: int
    mismatched: int
    code_points: list[str]
    mask: tuple[int, int]
    sha256: str = ""


_SHARD_COUNT_FIELDS = _Metadata.__struct_fields__[3:-1]


def partial_path(work_dir: Path, key: str) -> Path:
    """The path of the partial file of the shard with this fingerprint."""
    return work_dir / f"{key}{SUFFIX}"


def save_partial(path: Path, count: ShardCount, shard: str) -> None:
    """Writes a partial file, whole or not at all.

    Args:
        path: from `partial_path`; its fingerprint goes into the file too.
        count: the counts of the shard.
        shard: the shard's name, for people.
    """
    tensors = {
        **_sparse(count.counts, "ids", "counts"),
        **_sparse(count.heldout, "heldout_ids", "heldout"),
    }
    fields = {name: getattr(count, name) for name in _SHARD_COUNT_FIELDS}
    fields["digest"] = f"{count.digest:064x}"
    metadata = _Metadata(_key(path), shard, len(count.counts), **fields)
    metadata.sha256 = _hash(metadata, tensors)
    data = save(tensors, metadata={_METADATA_KEY: msgspec.json.encode(metadata).decode()})
    write_atomically(path, data)


def _sparse(full: Counts, ids_name: str, counts_name: str) -> dict[str, npt.NDArray[Any]]:
    ids = np.flatnonzero(full)
    counts = full[ids]
    small = not len(counts) or counts.max() < 2**32
    return {ids_name: ids.astype(np.uint32), counts_name: counts.astype("u4" if small else "i8")}


def _key(path: Path) -> str:
    return path.name.removesuffix(SUFFIX)


def _hash(metadata: _Metadata, tensors: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(metadata, sha256="")))
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def load_partial(path: Path) -> ShardCount | None:
    """Reads a partial file; None when it is missing, damaged, or another shard's."""
    if not path.is_file():
        return None
    try:
        with safe_open(str(path), "numpy") as file:
            metadata = msgspec.json.decode((file.metadata() or {})[_METADATA_KEY], type=_Metadata)
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
    except (SafetensorError, msgspec.DecodeError, KeyError, OSError, ValueError):
        return None
    if metadata.key != _key(path) or metadata.sha256 != _hash(metadata, tensors):
        return None
    counts, heldout = np.zeros(metadata.rows, np.int64), np.zeros(metadata.rows, np.int64)
    counts[tensors["ids"]] = tensors["counts"]
    heldout[tensors["heldout_ids"]] = tensors["heldout"]
    fields = {name: getattr(metadata, name) for name in _SHARD_COUNT_FIELDS}
    fields["digest"] = int(metadata.digest, 16)
    return ShardCount(counts, heldout, **fields)


@contextlib.contextmanager
def open_work_dir(plan: Plan) -> Iterator[Path]:
    """The work directory of a plan, created and locked; a temporary one when it names none.

    Raises:
        RefusedError: another build is writing there.
        WorkDirError: it cannot be written to.
    """
    work_dir = plan.options.work_dir
    if work_dir is None:
        with tempfile.TemporaryDirectory(prefix="vocabfreq-") as folder:
            yield Path(folder)
        return
    try:
        lock = _create_and_lock(work_dir)
    except Timeout:
        raise RefusedError(
            f"another build is writing into {work_dir}",
            hint="wait for it, or name another --output or --work-dir",
        ) from None
    except OSError as error:
        raise _unwritable(work_dir, error) from None
    try:
        _remove_temporary(work_dir)
        yield work_dir
    finally:
        lock.release()


def _create_and_lock(work_dir: Path) -> FileLock:
    """Retries, since a build that ends may remove the folder in between."""
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
    """Records in the work directory what is being counted.

    Returns:
        The differences from an earlier build there, each as a phrase, when its partial files are of
        no use to this plan.

    Raises:
        WorkDirError: it cannot be written.
    """
    path = work_dir / MANIFEST
    manifest = _manifest(plan)
    ours = {partial_path(work_dir, key) for key in plan.keys}
    has_others = any(part not in ours for part in work_dir.glob(f"*{SUFFIX}"))
    changes = _changes(_read_manifest(path), manifest) if has_others else []
    try:
        write_atomically(path, json.dumps(manifest, sort_keys=True, indent=1).encode())
    except OSError as error:
        raise _unwritable(work_dir, error) from None
    return changes


def _manifest(plan: Plan) -> dict[str, Any]:
    return {
        "tokenizer": plan.tokenizer.sha256,
        "rows": plan.tokenizer.rows,
        "holdout": plan.options.holdout,
        "encoder": plan.options.encoder,
        "columns": sorted({f"{s.layout.kind} of {s.layout.column!r}" for s in plan.shards}),
        "roles": sorted({source.roles for source in plan.sources}),
        "separator": sorted({repr(source.separator) for source in plan.sources}),
        "max_documents": sorted({repr(source.max_documents) for source in plan.sources}),
        "files": {p.file.path: p.file.stamp for shard in plan.shards for p in shard.pieces},
    }


def _read_manifest(path: Path) -> dict[str, Any] | None:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _changes(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    if before is None:
        return []
    options = [key for key in after if key != "files" and before.get(key) != after[key]]
    changes = [f"{key} was {before.get(key)}, is {after[key]}" for key in options]
    earlier = before.get("files") or {}
    changed = [p for p, stamp in after["files"].items() if earlier.get(p, stamp) != stamp]
    return changes + [f"{Path(path).name} has another content" for path in changed]
