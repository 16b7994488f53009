"""The frequency file, format 1, as plain arrays and metadata: see docs/file-format.md.

Files come from strangers: dtypes, shapes, ranges and sums are checked before use, and nothing in
a file is executed.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.metadata import Metadata, canonical_json, read_metadata
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.resolve import looks_like_repo, open_folder

KEY = "vocabfreq"
NAME = "vocab_freq.safetensors"
TENSORS = ("counts", "heldout", "ranked_ids")
_DESCRIPTION = "a frequency file that vocabfreq build wrote"


@dataclass(frozen=True)
class FrequencyArrays:
    """The content of a frequency file.

    Attributes:
        counts: int64 [S, V], occurrences per source, held-out documents left out.
        heldout: int64 [S, V], occurrences in the held-out documents.
        ranked_ids: int64 [V], every target id once, most frequent first.
        meta: the metadata.
    """

    counts: npt.NDArray[np.int64]
    heldout: npt.NDArray[np.int64]
    ranked_ids: npt.NDArray[np.int64]
    meta: Metadata


def write_frequency_file(arrays: FrequencyArrays, path: Path) -> None:
    """Writes a frequency file, whole or not at all; equal content gives equal bytes."""
    tensors = {name: np.ascontiguousarray(getattr(arrays, name)) for name in TENSORS}
    write_atomically(path, save(tensors, metadata={KEY: canonical_json(arrays.meta).decode()}))


def is_frequency_file(path: Path) -> bool:
    """Whether a file claims to be a frequency file; it may still be damaged."""
    try:
        with safe_open(str(path), "numpy") as file:
            return KEY in (file.metadata() or {}) and set(TENSORS) <= set(file.keys())
    except (SafetensorError, OSError):
        return False


def locate_frequency_file(path: str | Path) -> Path:
    """A local path as it is, or the downloaded frequency file of `owner/name[@revision]`.

    Raises:
        FileFormatError: no such repo, it has no frequency file, or its manifest disagrees.
    """
    if isinstance(path, Path) or not looks_like_repo(path):
        return Path(path)
    folder = open_folder(path, FileFormatError)
    local = folder.file(NAME)
    if local is None:
        raise FileFormatError(
            f"{folder.name} at {folder.revision} has no {NAME}",
            expected="a repo that vocabfreq push made",
        )
    return local


def read_frequency_file(path: Path) -> FrequencyArrays:
    """Reads a frequency file and checks all of it but the ranking (`check_ranking` does).

    Raises:
        FileFormatError: naming what is wrong.
    """
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}", hint="vocabfreq build makes one")
    try:
        with safe_open(str(path), "numpy") as file:
            meta = read_metadata(path, file.metadata() or {}, KEY, Metadata, _DESCRIPTION)
            _check_shapes(path, file, meta)
            counts, heldout, ranked_ids = (file.get_tensor(name) for name in TENSORS)
    except (SafetensorError, OSError) as error:
        raise FileFormatError(
            f"{path} is not a safetensors file: {error}", expected=_DESCRIPTION
        ) from None
    arrays = FrequencyArrays(counts, heldout, ranked_ids, meta)
    _check_counts(path, arrays)
    _check_sources(path, meta)
    _check_tokenizer(path, meta)
    return arrays


def check_ranking(
    path: Path, ranked_ids: npt.NDArray[np.int64], expected: npt.NDArray[np.int64]
) -> None:
    """Compares the ranking in a file with the one that its counts and weights give.

    Raises:
        FileFormatError: they differ; names the first rank.
    """
    rows = len(expected)
    if not np.array_equal(np.sort(ranked_ids), np.arange(rows)):
        raise FileFormatError(
            f"{path}: ranked_ids does not name every id once", expected=f"0 to {rows - 1}"
        )
    if not np.array_equal(ranked_ids, expected):
        rank = int(np.flatnonzero(ranked_ids != expected)[0])
        raise FileFormatError(
            f"{path}: ranked_ids has id {ranked_ids[rank]} at rank {rank}",
            expected=f"id {expected[rank]} by the counts and weights in the same file",
        )


def _check_shapes(path: Path, file: Any, meta: Metadata) -> None:
    """Checks names, dtypes and shapes before any tensor is read."""
    rows, sources = meta.tokenizer.rows, len(meta.sources)
    shapes = {"counts": [sources, rows], "heldout": [sources, rows], "ranked_ids": [rows]}
    for name, shape in shapes.items():
        if name not in file.keys():  # noqa: SIM118 (a safetensors handle is no dict)
            raise FileFormatError(f"{path} has no tensor {name!r}", expected=", ".join(TENSORS))
        view = file.get_slice(name)
        if view.get_dtype() != "I64" or view.get_shape() != shape:
            raise FileFormatError(
                f"{path}: {name} is {view.get_dtype()} {view.get_shape()}",
                expected=f"I64 {shape}, by its own metadata",
            )


def _check_counts(path: Path, arrays: FrequencyArrays) -> None:
    for name in ("counts", "heldout"):
        array = getattr(arrays, name)
        if array.size and array.min() < 0:
            raise FileFormatError(f"{path}: {name} has a negative number {array.min()}")
    for index, source in enumerate(arrays.meta.sources):
        tokens = int(arrays.counts[index].sum() + arrays.heldout[index].sum())
        if tokens != source.tokens:
            raise FileFormatError(
                f"{path}: counts of source {source.name!r} add up to {tokens}",
                expected=f"{source.tokens}, its tokens",
            )


def _check_sources(path: Path, meta: Metadata) -> None:
    names = [source.name for source in meta.sources]
    if len(set(names)) != len(names):
        raise FileFormatError(f"{path}: two sources have the same name, of {names}")
    for source in meta.sources:
        numbers = (source.documents, source.heldout_documents, source.tokens, source.bytes)
        weight = 0.0 if source.weight is None else source.weight
        if min(*numbers, weight) < 0 or not weight < float("inf"):
            raise FileFormatError(
                f"{path}: source {source.name[:80]!r} has numbers {numbers}, weight {weight}",
                expected="none below 0",
            )


def _check_tokenizer(path: Path, meta: Metadata) -> None:
    tokenizer, rows = meta.tokenizer, meta.tokenizer.rows
    edges = [edge for part in tokenizer.absent for edge in part]
    if edges != sorted(set(edges)) or (edges and not 0 <= edges[0] < edges[-1] <= rows):
        raise FileFormatError(f"{path}: absent ids {edges[:8]}", expected="ranges, ascending")
    if not re.fullmatch(r"[0-9a-f]{64}", tokenizer.sha256):
        raise FileFormatError(f"{path}: sha256 {tokenizer.sha256[:80]!r}", expected="64 digits")
    for name in ("special_ids", "stop_ids", "template_ids", "byte_ids"):
        ids = getattr(meta, name)
        if any(not 0 <= i < rows for i in ids) or len(set(ids)) != len(ids):
            raise FileFormatError(
                f"{path}: {name} has repeated ids or ids outside the rows",
                expected=f"unique ids from 0 to {rows - 1}",
            )
    missing = sum(stop - start for start, stop in tokenizer.absent)
    if tokenizer.size + missing != rows:
        raise FileFormatError(
            f"{path}: size {tokenizer.size} and {missing} absent ids",
            expected=f"{rows} together, the rows",
        )
