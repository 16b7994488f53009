"""The frequency file, format 1: see docs/file-format.md. A file from a stranger is only data."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.metadata import Metadata, canonical_json, read_metadata
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.atomic import write_atomically

WHAT = "a frequency file that vocabfreq build wrote"
KEY = "vocabfreq"
NAME = "vocab_freq.safetensors"
TENSORS = ("counts", "heldout", "ranked_ids")
MAX_BYTES = 64 << 30


def save_table(table: FrequencyTable, path: Path) -> None:
    """Writes a table; equal tables give equal bytes."""
    tensors = {
        "counts": np.ascontiguousarray(table.counts),
        "heldout": np.ascontiguousarray(table.heldout),
        "ranked_ids": np.ascontiguousarray(table.ranked_ids),
    }
    write_atomically(path, save(tensors, metadata={KEY: canonical_json(table.meta).decode()}))


def is_frequency_file(path: Path) -> bool:
    """Whether a file says that it is one of ours; it may still be damaged."""
    try:
        with safe_open(str(path), "numpy") as file:
            return KEY in (file.metadata() or {}) and set(TENSORS) <= set(file.keys())
    except (SafetensorError, OSError):
        return False


def published(spec: str) -> Path | None:
    """Local copy of the frequency file of a repo on the Hub; None when the spec is a path.

    Raises:
        FileFormatError: there is no such repo, it has no such file, or other bytes than it says.
    """
    from vocabfreq.storage.resolve import looks_like_repo, open_folder

    if not looks_like_repo(spec):
        return None
    folder = open_folder(spec, FileFormatError)
    path = folder.file(NAME)
    if path is None:
        raise FileFormatError(
            f"{folder.name} at {folder.revision} has no {NAME}",
            expected="a repo that vocabfreq push made",
        )
    return path


def load_table(path: Path) -> FrequencyTable:
    """Reads a table and checks everything that can be checked.

    Raises:
        FileFormatError: naming what is wrong.
    """
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}", hint="vocabfreq build makes one")
    try:
        with safe_open(str(path), "numpy") as file:
            meta = read_metadata(path, file.metadata() or {}, KEY, Metadata, WHAT)
            _check_shapes(path, file, meta)
            counts, heldout, ranked = (file.get_tensor(name) for name in TENSORS)
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{path} is not a safetensors file: {error}",
            expected=WHAT,
        ) from None
    _check_values(path, counts, heldout, meta)
    table = FrequencyTable(counts, heldout, meta)
    _check_ranking(path, ranked, table)
    return table


def _check_shapes(path: Path, file: Any, meta: Metadata) -> None:
    """Before a byte of a tensor is read: names, dtypes and shapes."""
    rows, sources = meta.tokenizer.rows, len(meta.sources)
    wanted = {
        "counts": [sources, rows],
        "heldout": [sources, rows],
        "ranked_ids": [rows],
    }
    for name, shape in wanted.items():
        if name not in file.keys():  # noqa: SIM118 (a safetensors handle is no dict)
            raise FileFormatError(f"{path} has no tensor {name!r}", expected=", ".join(TENSORS))
        view = file.get_slice(name)
        if view.get_dtype() != "I64" or view.get_shape() != shape:
            raise FileFormatError(
                f"{path}: {name} is {view.get_dtype()} {view.get_shape()}",
                expected=f"I64 {shape}, by its own metadata",
            )


def _check_values(path: Path, counts: Any, heldout: Any, meta: Metadata) -> None:
    for name, array in (("counts", counts), ("heldout", heldout)):
        if array.size and array.min() < 0:
            raise FileFormatError(f"{path}: {name} has a negative number {array.min()}")
    names = [source.name for source in meta.sources]
    if len(set(names)) != len(names):
        raise FileFormatError(f"{path}: two sources are called alike, of {names}")
    for index, source in enumerate(meta.sources):
        tokens = int(counts[index].sum() + heldout[index].sum())
        if tokens != source.tokens:
            raise FileFormatError(
                f"{path}: counts of source {source.name!r} add up to {tokens}",
                expected=f"{source.tokens}, its tokens",
            )
    _check_ids(path, meta)


def _check_numbers(path: Path, meta: Metadata) -> None:
    """What could not have been counted."""
    for source in meta.sources:
        numbers = (source.documents, source.heldout_documents, source.tokens, source.bytes)
        weight = 0.0 if source.weight is None else source.weight
        if min(*numbers, weight) < 0 or not weight < float("inf"):
            raise FileFormatError(
                f"{path}: source {source.name[:80]!r} has numbers {numbers}, weight {weight}",
                expected="none below 0",
            )
    edges = [edge for part in meta.tokenizer.absent for edge in part]
    if edges != sorted(set(edges)) or (
        edges and not 0 <= edges[0] < edges[-1] <= meta.tokenizer.rows
    ):
        raise FileFormatError(f"{path}: absent ids {edges[:8]}", expected="ranges, ascending")
    if not re.fullmatch(r"[0-9a-f]{64}", meta.tokenizer.sha256):
        raise FileFormatError(
            f"{path}: sha256 {meta.tokenizer.sha256[:80]!r}", expected="64 digits"
        )


def _check_ids(path: Path, meta: Metadata) -> None:
    _check_numbers(path, meta)
    rows = meta.tokenizer.rows
    for name in ("special_ids", "stop_ids", "template_ids", "byte_ids"):
        ids = getattr(meta, name)
        if any(not 0 <= i < rows for i in ids) or len(set(ids)) != len(ids):
            raise FileFormatError(
                f"{path}: {name} has repeated ids or ids outside the rows",
                expected=f"unique ids from 0 to {rows - 1}",
            )
    missing = sum(stop - start for start, stop in meta.tokenizer.absent)
    if meta.tokenizer.size + missing != rows:
        raise FileFormatError(
            f"{path}: size {meta.tokenizer.size} and {missing} absent ids",
            expected=f"{rows} together, the rows",
        )


def _check_ranking(path: Path, ranked: Any, table: FrequencyTable) -> None:
    if not np.array_equal(np.sort(ranked), np.arange(table.rows)):
        raise FileFormatError(
            f"{path}: ranked_ids does not name every id once", expected=f"0 to {table.rows - 1}"
        )
    if not np.array_equal(ranked, table.ranked_ids):
        place = int(np.flatnonzero(ranked != table.ranked_ids)[0])
        raise FileFormatError(
            f"{path}: ranked_ids has id {ranked[place]} at rank {place}",
            expected=f"id {table.ranked_ids[place]} by the counts and weights in the same file",
        )
