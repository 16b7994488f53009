"""`d2t` with or without `t2d`: the EAGLE-3 encoding, wherever it lies.

`DraftVocab` computes with both; here they are only held against each other.
"""

from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.arrays import Array, as_array
from vocabfreq.formats.read_options import How, naming
from vocabfreq.frequencies.draft_vocab import DraftVocab


def vocab_from_map(
    d2t: Any, t2d: Any, name: str, how: How, rows: int | None = None, *, bare: bool = False
) -> DraftVocab:
    """A vocabulary from offsets, a mask, or both, which must agree.

    Args:
        d2t: integers [K], offsets, or None.
        t2d: bool [V], or None.
        name: of the file, for messages.
        how: rows, and whether offsets that are all zero are meant.
        rows: V, where something beside the two says it.
        bare: whether d2t is all that the file holds, so that it can be read as a list of ids too.

    Raises:
        FileFormatError: they do not agree, or break their encoding.
    """
    mask = None if t2d is None else _mask(t2d, name)
    if mask is not None and rows not in (None, mask.rows, how.rows):
        raise FileFormatError(
            f"{name}: t2d has {mask.rows} entries, the config says {rows} rows",
            hint=f"if t2d is right, pass --rows {mask.rows} (rows={mask.rows})",
        )
    rows = how.rows_of(name, rows if mask is None else mask.rows)
    if d2t is None:
        if mask is None:
            raise FileFormatError(f"{name} has neither d2t nor t2d")
        return mask
    offsets = as_array(d2t, f"{name}: d2t")
    # Zeros that a mask confirms are the first ids, not a map that was never loaded.
    with naming(f"{name}: d2t", lambda: _as_ids(offsets, mask, rows, bare=bare)):
        vocab = DraftVocab.from_d2t(offsets, rows=rows, force=how.force or mask is not None)
    if mask is not None and mask.fingerprint != vocab.fingerprint:
        raise _disagreement(vocab, mask, offsets, name)
    return vocab


def note_order(vocab: DraftVocab, name: str, how: How) -> None:
    """Says so when the rows of a drafter are not in the order of the vocabulary."""
    if not np.array_equal(vocab.ranked, vocab.target_ids):
        how.note(
            f"{name}: d2t is not ascending, so the rows of the head trained with it are in another "
            "order than those of this vocabulary; whoever slices rows by t2d gets wrong ones"
        )


def _mask(t2d: Any, name: str) -> DraftVocab:
    array = as_array(t2d, f"{name}: t2d")
    with naming(f"{name}: t2d"):
        return DraftVocab.from_t2d(array)


def _disagreement(
    vocab: DraftVocab, mask: DraftVocab, offsets: Array, name: str
) -> FileFormatError:
    place = int(np.flatnonzero(vocab.t2d != mask.t2d)[0])
    side, other = ("d2t", "t2d") if vocab.t2d[place] else ("t2d", "d2t")
    zeros = "; all offsets are 0" if not offsets.any() else ""
    return FileFormatError(
        f"{name}: d2t keeps {len(vocab)} ids, t2d {len(mask)}; id {place} is in {side} and not in "
        f"{other}{zeros}",
        expected="the same ids in both",
        hint=_as_ids(offsets, mask, mask.rows, bare=False),
    )


def _as_ids(offsets: Array, mask: DraftVocab | None, rows: int, *, bare: bool) -> str:
    """A hint when target ids were read as offsets."""
    try:
        vocab = DraftVocab.from_ids(offsets, rows=rows)
    except FileFormatError:
        return ""
    if mask is None and bare:
        return "read as target ids it makes sense: --kind token-map (kind='token-map')"
    if mask is None:
        return "d2t may hold target ids where offsets belong: as ids it makes sense"
    if mask.fingerprint != vocab.fingerprint:
        return ""
    return "d2t holds target ids where offsets belong: as ids it agrees with t2d"
