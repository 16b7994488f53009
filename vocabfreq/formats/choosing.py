"""`choose`: whatever names a vocabulary → the ids to keep.

>>> choose("vocab_freq.safetensors", {"size": 32_768})
DraftVocab(K=32,768 of V=128,256, 25.5%, covers 98.10 %)
"""

from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError, SelectionError
from vocabfreq.formats.counts import Counts
from vocabfreq.formats.reading import read
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.table import FrequencyTable

Chooser = DraftVocab | FrequencyTable | Counts | str | Path


def choose(vocab: Chooser, wish: dict[str, Any], rows: int | None = None) -> DraftVocab:
    """The ids to keep.

    Args:
        vocab: ids, what they are chosen from, or a file or Hub repo of either.
        wish: how they are chosen, as in `FrequencyTable.select`; empty for ids.
        rows: V as the head or its config has it, for files and counts that do not say it.

    Raises:
        FileFormatError: there is no such file, or it is not what it should be.
        SelectionError: a wish beside ids that are already chosen, or one that cannot be met.
    """
    if isinstance(vocab, str | Path):
        vocab = _read(vocab, rows)
    if not isinstance(vocab, DraftVocab):
        if isinstance(vocab, Counts):
            return _of_counts(vocab, wish, rows)
        return vocab.select(**wish)
    given = [name for name, value in wish.items() if value is not None]
    if given:
        raise SelectionError(
            f"{', '.join(given)} beside a vocabulary of {len(vocab):,} ids",
            expected="none of them: the ids are already chosen",
            hint="give the frequency file to choose anew",
        )
    return vocab


def _read(source: str | Path, rows: int | None) -> DraftVocab | Counts | FrequencyTable:
    """A file that says V itself is read as it is; only others take the given one."""
    try:
        return read(source)
    except FileFormatError as error:
        if rows is None or "--rows" not in error.hint:
            raise
        return read(source, rows=rows)


def _of_counts(counts: Counts, wish: dict[str, Any], rows: int | None) -> DraftVocab:
    """Counts of other tools know no special tokens: who leaves them out has to say so."""
    if wish.get("pins") != "none":
        raise SelectionError(
            "counts alone do not say which ids are special",
            expected="--pins none (pins='none')",
            hint="to keep ids such as EOS all the same: vocabfreq export --pins none --keep ID, "
            "and prune with that",
        )
    others = {name: value for name, value in wish.items() if name != "pins"}
    return counts.select(rows=rows if counts.rows is None else None, **others)
