"""Lists of target ids: FR-Spec, CPM.cu and SGLang token maps, NeMo's selection, JSON and text."""

import re
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.formats.arrays import as_array, is_array
from vocabfreq.formats.read_options import How, naming
from vocabfreq.frequencies.draft_vocab import DraftVocab

_SAID = re.compile(r"^(?:freq_|d2t-|t2d-)(\d+)\.\w+$")


def vocab_from_list(values: Any, name: str, how: How, rows: int | None = None) -> DraftVocab:
    """A vocabulary from a list, tuple, tensor or array of target ids; the order is the rank.

    Args:
        values: target ids.
        name: of the file, for messages; `freq_K.pt` must hold K ids.
        how: rows, and whether repeated ids are dropped.
        rows: V, where the file says it.

    Raises:
        FileFormatError: it is no list, or an id is no integer, repeated or outside the rows.
    """
    if isinstance(values, dict):
        counts = all(isinstance(key, int) for key in values)
        raise FileFormatError(
            f"{name} is a {type(values).__name__} of {len(values)} keys, not a list of ids",
            expected="a list of ids; counts by id have no order",
            hint="read it with --kind token-freq (kind='token-freq')" if counts else "",
        )
    ids, bare = _listed(values, name), rows is None
    rows = how.rows_of(name, rows)
    if isinstance(ids, list):
        ids = _without_repeats(ids, name, how)
        _check_said(ids, name, how)
    with naming(name, lambda: _as_offsets(ids, rows, bare=bare)):
        return DraftVocab.from_ids(ids, rows=rows)


def check_name(name: str, size: int) -> None:
    """Refuses a name such as `freq_K.pt` for a list of another length.

    Raises:
        FileFormatError: naming both numbers.
    """
    said = _SAID.match(name)
    if said and int(said[1]) != size:
        raise FileFormatError(
            f"{name}: its name says {int(said[1])} ids, it holds {size}",
            expected=f"{int(said[1])} ids",
            hint="give it the right name, or take it as it is with --force (force=True)",
        )


def _listed(values: Any, name: str) -> Any:
    """A list of Python values; an array stays one if it cannot be a list of ids."""
    if isinstance(values, list | tuple):
        for place, value in enumerate(values):
            if type(value) is not int or abs(value) >= 2**63:
                raise FileFormatError(
                    f"{name}: id {short_repr(value)} at position {place}",
                    expected="whole numbers below 2**63",
                )
        return list(values)
    if not is_array(values):
        raise FileFormatError(f"{name} is a {type(values).__name__}", expected="a list of ids")
    array = as_array(values, name)
    return array.tolist() if array.dtype.kind in "iu" else array


def _without_repeats(ids: list[Any], name: str, how: How) -> list[Any]:
    first: dict[int, int] = {}
    repeats = {n: first[i] for n, i in enumerate(ids) if first.setdefault(i, n) != n}
    if not repeats:
        return ids
    place, before = next(iter(repeats.items()))
    more = f" ({len(repeats)} repeated)" if len(repeats) > 1 else ""
    what = f"id {ids[place]} is repeated at position {place} after position {before}{more}"
    if not how.repair:
        raise FileFormatError(
            f"{name} {_sizes(ids, name)}; {what}",
            expected="every id once",
            hint="--repair (repair=True) keeps the first of each",
        )
    kept = [i for n, i in enumerate(ids) if n not in repeats]
    how.note(f"{name}: {what}; dropped, {len(kept)} ids are left")
    return kept


def _sizes(ids: list[Any], name: str) -> str:
    said = _SAID.match(name)
    return f"holds {len(ids)} ids" + (f", its name says {int(said[1])}" if said else "")


def _check_said(ids: list[Any], name: str, how: How) -> None:
    if not how.force:
        check_name(name, len(ids))


def _as_offsets(ids: Any, rows: int, *, bare: bool) -> str:
    """A hint when offsets were read as ids."""
    try:
        DraftVocab.from_d2t(np.array(ids, np.int64), rows=rows)
    except (FileFormatError, ValueError, TypeError, OverflowError):
        return ""
    where = ": --kind modelopt (kind='modelopt')" if bare else ""
    return f"read as offsets it makes sense{where}"
