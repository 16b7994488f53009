"""Partial files: what one shard counted, kept until every shard is there.

A partial file is a safetensors file: `ids` uint32 [N], the ids met, and `counts` [N]; the same of
the held-out documents as `heldout_ids` and `heldout` [M]; counts are uint32 where they fit, else
int64; and one metadata key with the rest as JSON and a hash over all of it, so that a damaged
file is noticed and counted again.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.atomic import write_atomically
from vocabfreq.shardcount import Counts, ShardCount
from vocabfreq.sources.tally import Tally

SUFFIX = ".part.safetensors"
_KEY = "vocabfreq_part"
_TENSORS = ("ids", "counts", "heldout_ids", "heldout")


class _Meta(msgspec.Struct):
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


def partial_path(work_dir: Path, key: str) -> Path:
    """Where the shard with this fingerprint leaves its counts."""
    return work_dir / f"{key}{SUFFIX}"


def save_partial(path: Path, count: ShardCount) -> None:
    """Writes a partial file, whole or not at all."""
    tensors = {
        **_sparse(count.counts, "ids", "counts"),
        **_sparse(count.heldout, "heldout_ids", "heldout"),
    }
    meta = _meta(count)
    meta.sha256 = _hash(meta, tensors)
    data = save(tensors, metadata={_KEY: msgspec.json.encode(meta).decode()})
    write_atomically(path, data)


def _sparse(full: Counts, ids_name: str, counts_name: str) -> dict[str, npt.NDArray[Any]]:
    ids = np.flatnonzero(full)
    counts = full[ids]
    small = not len(counts) or counts.max() < 2**32
    return {ids_name: ids.astype(np.uint32), counts_name: counts.astype("u4" if small else "i8")}


def _meta(count: ShardCount) -> _Meta:
    fields = {name: getattr(count, name) for name in _Meta.__struct_fields__[1:-1]}
    fields["digest"] = f"{count.digest:064x}"
    return _Meta(rows=len(count.counts), **fields)


def _hash(meta: _Meta, tensors: dict[str, npt.NDArray[Any]]) -> str:
    digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(meta, sha256="")))
    for name in sorted(tensors):
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()


def load_partial(path: Path) -> ShardCount | None:
    """Reads a partial file; None when there is none, or it is not whole."""
    if not path.exists():
        return None
    try:
        with safe_open(str(path), "numpy") as file:
            meta = msgspec.json.decode((file.metadata() or {})[_KEY], type=_Meta)
            tensors = {name: file.get_tensor(name) for name in _TENSORS}
    except (SafetensorError, msgspec.DecodeError, KeyError, OSError, ValueError):
        return None
    return _restore(meta, tensors) if _hash(meta, tensors) == meta.sha256 else None


def _restore(meta: _Meta, tensors: dict[str, npt.NDArray[Any]]) -> ShardCount:
    counts, heldout = np.zeros(meta.rows, np.int64), np.zeros(meta.rows, np.int64)
    counts[tensors["ids"]] = tensors["counts"]
    heldout[tensors["heldout_ids"]] = tensors["heldout"]
    fields = {name: getattr(meta, name) for name in _Meta.__struct_fields__[1:-1]}
    fields["digest"] = int(meta.digest, 16)
    return ShardCount(counts, heldout, **fields)
