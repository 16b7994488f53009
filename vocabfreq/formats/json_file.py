"""JSON: a list of ids, or one object with `target_ids` and `rows`, which people can read too."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.read_options import How, naming
from vocabfreq.formats.token_map import vocab_from_list
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import check_statistics
from vocabfreq.storage.atomic import write_atomically

WRITTEN = {
    "rows",
    "size",
    "tokenizer",
    "fingerprint",
    "filled",
    "coverage",
    "target_ids",
    "ranked",
}


class _Object(msgspec.Struct, frozen=True):
    target_ids: list[int]
    rows: int
    ranked: list[int] | None = None
    tokenizer: str | None = None
    coverage: dict[str, float] = {}
    filled: int = 0
    fingerprint: str | None = None


def vocab_from_json(value: Any, name: str, how: How) -> DraftVocab:
    """A vocabulary from what a JSON file holds.

    Raises:
        FileFormatError: it is neither, or does not hold together.
    """
    if isinstance(value, list):
        return vocab_from_list(value, name, how)
    try:
        held = msgspec.convert(value, _Object)
    except msgspec.ValidationError as error:
        raise FileFormatError(
            f"{name}: {error}", expected="a list of ids, or an object with target_ids and rows"
        ) from None
    rows = how.rows_of(name, held.rows)
    check_statistics(held.filled, held.coverage, len(held.target_ids), name)
    with naming(name):
        vocab = DraftVocab.from_ids(
            held.target_ids if held.ranked is None else held.ranked,
            rows=rows,
            tokenizer=held.tokenizer,
            coverage=held.coverage,
            filled=held.filled,
        )
    if not np.array_equal(vocab.target_ids, sorted(held.target_ids)) or held.fingerprint not in (
        None,
        vocab.fingerprint,
    ):
        raise FileFormatError(
            f"{name}: target_ids, ranked and fingerprint do not agree",
            expected="the same ids twice, and their fingerprint",
        )
    return vocab


def save_json(vocab: DraftVocab, path: Path) -> None:
    """Writes one object, a key a line, the long lists last; equal ones give equal bytes."""
    content = {
        "rows": vocab.rows,
        "size": len(vocab),
        "tokenizer": vocab.tokenizer,
        "fingerprint": vocab.fingerprint,
        "filled": vocab.filled,
        "coverage": dict(sorted(vocab.coverage.items())),
        "target_ids": vocab.target_ids.tolist(),
        "ranked": vocab.ranked.tolist(),
    }
    lines = ",\n".join(
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in content.items()
    )
    write_atomically(path, f"{{\n{lines}\n}}\n".encode())
