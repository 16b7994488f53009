"""Partial files: what one shard counted, kept until every shard is there.

A partial file is a safetensors file: `ids` uint32 [N], the ids met, and `counts` [N]; the same of
the held-out documents as `heldout_ids` and `heldout` [M]; counts are uint32 where they fit, else
int64; and one metadata key with the rest as JSON: the fingerprint that the file is called by, the
shard's name, what was read and skipped, and a hash over all of it. A damaged file, or one under
another's name, is noticed and counted again.
"""

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.counting.shardcount import Counts, ShardCount
from vocabfreq.storage.atomic import write_atomically

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
