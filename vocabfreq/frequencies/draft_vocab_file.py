"""draft-vocab: the kept ids as a safetensors file, with what is known of them.

Tensors: `target_ids` int64 [K], ascending; `ranked` int64 [K], the same ids, most frequent first.
One metadata key, `vocabfreq_draft`, holds canonical JSON: `format`, `rows`, `tokenizer` (sha256 or
null), `coverage` {source: share}, `filled`, `fingerprint`.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.read_options import check_known, check_rows
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import FORMAT, canonical_json, read_metadata
from vocabfreq.storage.atomic import write_atomically

KEY = "vocabfreq_draft"
TENSORS = ("target_ids", "ranked")


class _Meta(msgspec.Struct, frozen=True):
    format: int
    rows: int
    tokenizer: str | None
    coverage: dict[str, float]
    filled: int
    fingerprint: str


def save_draft_vocab(vocab: DraftVocab, path: Path) -> None:
    """Writes a vocabulary; equal ones give equal bytes."""
    meta = _Meta(
        FORMAT,
        vocab.rows,
        vocab.tokenizer,
        dict(vocab.coverage),
        vocab.filled,
        vocab.fingerprint,
    )
    tensors = {name: np.ascontiguousarray(getattr(vocab, name)) for name in TENSORS}
    write_atomically(path, save(tensors, metadata={KEY: canonical_json(meta).decode()}))


def load_draft_vocab(path: Path) -> DraftVocab:
    """Reads and checks a vocabulary.

    Raises:
        FileFormatError: naming what is wrong.
    """
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}")
    try:
        with safe_open(str(path), "numpy") as file:
            meta = _metadata(path, file.metadata() or {})
            _check_shapes(path, file, meta.rows)
            target_ids, ranked = (file.get_tensor(name) for name in TENSORS)
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path} is not a safetensors file: {error}") from None
    check_known(meta.filled, meta.coverage, len(ranked), path.name)
    vocab = DraftVocab.from_ids(
        ranked, rows=meta.rows, tokenizer=meta.tokenizer, coverage=meta.coverage, filled=meta.filled
    )
    if not np.array_equal(vocab.target_ids, target_ids) or vocab.fingerprint != meta.fingerprint:
        raise FileFormatError(
            f"{path}: target_ids, ranked and fingerprint do not agree",
            expected="ascending ids, the same by rank, and their fingerprint",
        )
    return vocab


def is_draft_vocab(metadata: dict[str, str]) -> bool:
    """Whether the metadata of a safetensors file says that it is one."""
    return KEY in metadata


def _metadata(path: Path, metadata: dict[str, str]) -> _Meta:
    meta = read_metadata(path, metadata, KEY, _Meta, "a draft-vocab file")
    check_rows(meta.rows, path.name)
    return meta


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
