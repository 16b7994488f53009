"""JSON: a list of ids, or one object with `target_ids`, `rows` and what else is known."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.read_options import ReadOptions, prefix_errors
from vocabfreq.formats.token_map import vocab_from_list
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import check_statistics
from vocabfreq.storage.atomic import write_atomically


class _Object(msgspec.Struct, frozen=True):
    target_ids: list[int]
    rows: int
    ranked: list[int] | None = None
    tokenizer: str | None = None
    coverage: dict[str, float] = {}
    filled: int = 0
    fingerprint: str | None = None


JSON_KEYS = {*_Object.__struct_fields__, "size"}  # of an object that `save_json` wrote


def vocab_from_json(value: Any, name: str, options: ReadOptions) -> DraftVocab:
    """A vocabulary from the list or object of a JSON file.

    Raises:
        FileFormatError: it is neither, or its parts do not agree.
    """
    if isinstance(value, list):
        return vocab_from_list(value, name, options)
    try:
        stored = msgspec.convert(value, _Object)
    except msgspec.ValidationError as error:
        raise FileFormatError(
            f"{name}: {error}", expected="a list of ids, or an object with target_ids and rows"
        ) from None
    rows = options.resolve_rows(name, stored.rows)
    check_statistics(stored.filled, stored.coverage, len(stored.target_ids), name)
    with prefix_errors(name):
        vocab = DraftVocab.from_ids(
            stored.target_ids if stored.ranked is None else stored.ranked,
            rows=rows,
            tokenizer=stored.tokenizer,
            coverage=stored.coverage,
            filled=stored.filled,
        )
    same_ids = np.array_equal(vocab.target_ids, sorted(stored.target_ids))
    if not same_ids or stored.fingerprint not in (None, vocab.fingerprint):
        raise FileFormatError(
            f"{name}: target_ids, ranked and fingerprint do not agree",
            expected="the same ids twice, and their fingerprint",
        )
    return vocab


def save_json(vocab: DraftVocab, path: Path) -> None:
    """Writes one object, one key per line, the long lists last; equal ones give equal bytes."""
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
