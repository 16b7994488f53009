"""Lists of target ids: token maps of FR-Spec, CPM.cu and SGLang, text files, NeMo's selection.

A list is `list[int]` in rank order and does not state V; NeMo's dict states it.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.formats.containers import as_array, is_array
from vocabfreq.formats.read_options import ReadOptions, prefix_errors
from vocabfreq.formats.torch_file import save_plain, save_tensors
from vocabfreq.frequencies.draft_vocab import DraftVocab

NEMO_KEYS = {"selected_token_ids", "target_vocab_size"}
_SIZE_IN_NAME = re.compile(r"^(?:freq_|d2t-|t2d-)(\d+)\.\w+$")


def vocab_from_list(
    values: Any, name: str, options: ReadOptions, rows: int | None = None
) -> DraftVocab:
    """A vocabulary from a list, tuple, tensor or array of target ids; their order is the rank.

    Args:
        values: target ids.
        name: of the file, for messages; `freq_K.pt` must hold K ids.
        options: V, and whether repeated ids are dropped.
        rows: V, where the file states it.

    Raises:
        FileFormatError: it is no list, or an id is no integer, repeated or outside the rows.
    """
    if isinstance(values, dict):
        is_counts = all(isinstance(key, int) for key in values)
        raise FileFormatError(
            f"{name} is a {type(values).__name__} of {len(values)} keys, not a list of ids",
            expected="a list of ids; counts by id have no order",
            hint="read it with --kind token-freq (kind='token-freq')" if is_counts else "",
        )
    ids, is_bare = _to_list(values, name), rows is None
    rows = options.resolve_rows(name, rows)
    if isinstance(ids, list):
        ids = _without_repeats(ids, name, options)
        if not options.force:
            check_size_in_name(name, len(ids))
    with prefix_errors(name, lambda: _offsets_hint(ids, rows, is_bare)):
        return DraftVocab.from_ids(ids, rows=rows)


def save_token_map(vocab: DraftVocab, path: Path) -> None:
    """Writes the ids by rank as `torch.save` of a list of integers."""
    save_plain(vocab.ranked.tolist(), path)


def vocab_from_nemo(value: Any, name: str, options: ReadOptions) -> DraftVocab:
    """A vocabulary from `{"selected_token_ids": ids [K], "target_vocab_size": V}`."""
    selection = require_keys(value, NEMO_KEYS, name)
    rows = selection["target_vocab_size"]
    if is_array(rows) and not rows.ndim:  # a number that was saved as a tensor
        rows = as_array(rows.reshape(1), f"{name}: target_vocab_size")[0].item()
    return vocab_from_list(selection["selected_token_ids"], name, options, rows)


def save_nemo(vocab: DraftVocab, path: Path) -> None:
    """Writes NeMo's dict, ids ascending."""
    selection = {"selected_token_ids": vocab.target_ids, "target_vocab_size": vocab.rows}
    save_tensors(selection, path)


def require_keys(value: Any, keys: set[str], name: str) -> Mapping[Any, Any]:
    """The value, which must be a dict with these keys.

    Raises:
        FileFormatError: it is something else.
    """
    if isinstance(value, Mapping) and keys <= value.keys():
        return value
    raise FileFormatError(
        f"{name} is a {type(value).__name__}",
        expected=f"a dict with {' and '.join(map(repr, sorted(keys)))}",
    )


def check_size_in_name(name: str, size: int) -> None:
    """Refuses a file name such as `freq_K.pt` for a list of another length.

    Raises:
        FileFormatError: naming both numbers.
    """
    match = _SIZE_IN_NAME.match(name)
    if match and int(match[1]) != size:
        raise FileFormatError(
            f"{name}: its name says {int(match[1])} ids, it holds {size}",
            expected=f"{int(match[1])} ids",
            hint="give it the right name, or take it as it is with --force (force=True)",
        )


def _to_list(values: Any, name: str) -> Any:
    """The ids as a list of Python integers; an array of another dtype is returned as it is."""
    if isinstance(values, list | tuple):
        for position, value in enumerate(values):
            if type(value) is not int or abs(value) >= 2**63:
                raise FileFormatError(
                    f"{name}: id {short_repr(value)} at position {position}",
                    expected="whole numbers below 2**63",
                )
        return list(values)
    if not is_array(values):
        raise FileFormatError(f"{name} is a {type(values).__name__}", expected="a list of ids")
    array = as_array(values, name)
    return array.tolist() if array.dtype.kind in "iu" else array


def _without_repeats(ids: list[int], name: str, options: ReadOptions) -> list[int]:
    first: dict[int, int] = {}
    repeats = {n: first[i] for n, i in enumerate(ids) if first.setdefault(i, n) != n}
    if not repeats:
        return ids
    position, before = next(iter(repeats.items()))
    more = f" ({len(repeats)} repeated)" if len(repeats) > 1 else ""
    problem = f"id {ids[position]} is repeated at position {position} after position {before}{more}"
    if not options.repair:
        match = _SIZE_IN_NAME.match(name)
        named = f", its name says {int(match[1])}" if match else ""
        raise FileFormatError(
            f"{name} holds {len(ids)} ids{named}; {problem}",
            expected="every id once",
            hint="--repair (repair=True) keeps the first of each",
        )
    unique_ids = list(first)
    options.note(f"{name}: {problem}; dropped, {len(unique_ids)} ids are left")
    return unique_ids


def _offsets_hint(ids: Any, rows: int, is_bare: bool) -> str:
    """A hint for ids that would be a vocabulary if they were offsets."""
    try:
        DraftVocab.from_d2t(np.array(ids, np.int64), rows=rows)
    except (FileFormatError, ValueError, TypeError, OverflowError):
        return ""
    option = ": --kind modelopt (kind='modelopt')" if is_bare else ""
    return f"read as offsets it makes sense{option}"
