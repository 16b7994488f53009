"""`d2t.npy` and `t2d.npy`, or `d2t-K.npy` and `t2d-K.npy`: speculators' mapping, a folder."""

import io
import re
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.arrays import load_npy
from vocabfreq.formats.d2t import note_order, vocab_from_map
from vocabfreq.formats.read_options import How
from vocabfreq.formats.token_map import check_name
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.places import Place

PAIR = re.compile(r"^(?:d2t|t2d)(?P<size>-\d+)?\.npy$")
NAMES = ("t2d.npy", "d2t.npy")  # in the order of writing: a pair cut short lacks its d2t


def load_pair(place: Place, how: How) -> DraftVocab:
    """Reads a pair from either of its files, or from the folder; one alone serves where it can.

    Raises:
        FileFormatError: there is none, there are several, or they do not agree.
    """
    size = _size(place)
    found = {name: place.beside(f"{name}{size}.npy") for name in ("d2t", "t2d")}
    if not any(found.values()):
        raise FileFormatError(f"{place.called} has no d2t.npy", expected="d2t.npy and t2d.npy")
    d2t, t2d = (path and load_npy(path) for path in found.values())
    vocab = vocab_from_map(d2t, t2d, place.called, how, bare=place.name is not None)
    if not how.force:
        check_name(f"d2t{size}.npy", len(vocab))
    note_order(vocab, place.called, how)
    return vocab


def has_pair(place: Place) -> bool:
    """Whether a local folder holds a mapping."""
    return any(PAIR.match(name) for name in place.names("*.npy"))


def save_pair(vocab: DraftVocab, folder: Path) -> None:
    """Writes both files into a folder."""
    for name in NAMES:
        buffer = io.BytesIO()
        array: Any = getattr(vocab, name.removesuffix(".npy"))
        np.save(buffer, array, allow_pickle=False)
        write_atomically(folder / name, buffer.getvalue())


def _size(place: Place) -> str:
    """What stands after `d2t` in the names of the pair."""
    if place.name is not None:
        match = PAIR.match(place.called)
        if match is None:
            raise FileFormatError(
                f"{place.called!r}",
                expected="d2t.npy, t2d.npy, d2t-K.npy, t2d-K.npy or their folder",
                hint="for another array say what it is, with --kind token-map, modelopt or "
                "vocab-freq",
            )
        return match["size"] or ""
    sizes = {m["size"] or "" for name in place.names("*.npy") if (m := PAIR.match(name))}
    if len(sizes) > 1:
        raise FileFormatError(
            f"{place.called} holds {len(sizes)} mappings",
            expected=f"one of d2t{{{','.join(sorted(sizes))}}}.npy",
            hint="name the file",
        )
    return next(iter(sizes), "")
