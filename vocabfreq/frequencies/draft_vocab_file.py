"""The draft-vocab file: kept ids and what is known of them, as arrays and metadata.

A safetensors file with the tensors `target_ids` int64 [K], ascending, and `ranked` int64 [K], the
same ids, most frequent first. One metadata key, `vocabfreq_draft`, holds canonical JSON: `format`,
`rows`, `tokenizer` (sha256 or null), `coverage` {source: share}, `filled`, `fingerprint`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.metadata import (
    canonical_json,
    check_rows,
    check_statistics,
    read_metadata,
)
from vocabfreq.storage.atomic import write_atomically

KEY = "vocabfreq_draft"
TENSORS = ("target_ids", "ranked")
Ids = npt.NDArray[np.int64]


class DraftVocabMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of the metadata key; the fields are those of `DraftVocab`."""

    format: int
    rows: int
    tokenizer: str | None
    coverage: dict[str, float]
    filled: int
    fingerprint: str


def write_draft_vocab(path: Path, meta: DraftVocabMetadata, ids: Mapping[str, Ids]) -> None:
    """Writes a draft-vocab file, whole or not at all; equal content gives equal bytes.

    Args:
        path: the file.
        meta: its metadata.
        ids: `target_ids` and `ranked`, int64 [K].
    """
    tensors = {name: np.ascontiguousarray(ids[name]) for name in TENSORS}
    write_atomically(path, save(tensors, metadata={KEY: canonical_json(meta).decode()}))


def read_draft_vocab(path: Path) -> tuple[DraftVocabMetadata, dict[str, Ids]]:
    """Reads a draft-vocab file; the ids themselves are left to check.

    Returns:
        The metadata, and `target_ids` and `ranked`, int64 [K].

    Raises:
        FileFormatError: naming what is wrong.
    """
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}")
    try:
        with safe_open(str(path), "numpy") as file:
            meta = read_metadata(
                path, file.metadata() or {}, KEY, DraftVocabMetadata, "a draft-vocab file"
            )
            check_rows(meta.rows, path.name)
            _check_shapes(path, file, meta.rows)
            ids = {name: file.get_tensor(name) for name in TENSORS}
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path} is not a safetensors file: {error}") from None
    check_statistics(meta.filled, meta.coverage, len(ids["ranked"]), path.name)
    return meta, ids


def _check_shapes(path: Path, file: Any, rows: int) -> None:
    for name in TENSORS:
        if name not in file.keys():  # noqa: SIM118 (a safetensors handle is no dict)
            raise FileFormatError(f"{path} has no tensor {name!r}", expected=", ".join(TENSORS))
        view = file.get_slice(name)
        shape = view.get_shape()
        if view.get_dtype() != "I64" or len(shape) != 1 or not 1 <= shape[0] <= rows:
            raise FileFormatError(
                f"{path}: {name} is {view.get_dtype()} {shape}", expected=f"I64 [K], K ≤ {rows}"
            )
