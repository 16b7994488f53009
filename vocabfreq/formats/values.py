"""What a list, dict, tensor or array means: which readings are possible, and each of them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.arrays import Array, as_array, is_array
from vocabfreq.formats.counts import Counts
from vocabfreq.formats.d2t import note_order, vocab_from_map
from vocabfreq.formats.read_options import How, Kind, naming
from vocabfreq.formats.token_map import vocab_from_list
from vocabfreq.frequencies.draft_vocab import DraftVocab

MAPPING = {"d2t", "t2d"}
NEMO = {"selected_token_ids", "target_vocab_size"}


def kinds_of(value: Any) -> list[Kind]:
    """Every reading that a value allows; a bare vector of integers allows three.

    One of floats allows frequencies, as far as `check_share` takes them.
    """
    if isinstance(value, list | tuple):
        return ["token-map"]
    if isinstance(value, Mapping):
        return _kinds_of_mapping(value)
    if not is_array(value):
        return []
    name = str(value.dtype)
    if "float" in name:
        return ["vocab-freq"]
    return ["mapping"] if "bool" in name else ["token-map", "vocab-freq", "modelopt"]


def _kinds_of_mapping(value: Mapping[Any, Any]) -> list[Kind]:
    held: list[Kind] = ["nemo"] if value.keys() >= NEMO else []
    if "d2t" in value:
        held.append("mapping")
    if held:
        return held
    return ["token-freq"] if value and all(isinstance(key, int) for key in value) else []


def counts_from_vector(value: Any, name: str, how: How) -> Counts:
    """Counts or probabilities of every target id."""
    with naming(name):
        counts = Counts.from_vector(_vector(value, name))
    how.rows_of(name, counts.rows)
    return counts


def check_share(value: Any, name: str) -> None:
    """Refuses floats that nobody called frequencies, unless they are shares of a whole.

    Raises:
        FileFormatError: they sum to something else than 1, or are no frequencies at all.
    """
    with naming(name):
        counts = Counts.from_vector(_vector(value, name))
    if not counts.normalized:
        raise FileFormatError(
            f"{name} is a bare vector of {len(value)} floats that sum to "
            f"{counts.values.sum():.6g}: it may hold ids or frequencies",
            expected="probabilities, which sum to 1",
            hint="if they are frequencies, say --kind vocab-freq (kind='vocab-freq')",
        )


def counts_from_mapping(value: Any, name: str, how: How) -> Counts:
    """Counts by id."""
    if not isinstance(value, Mapping):
        raise FileFormatError(f"{name} is a {type(value).__name__}", expected="a dict id → count")
    with naming(name):
        return Counts.from_mapping(value, how.rows)


def vocab_from_mapping(value: Any, name: str, how: How) -> DraftVocab:
    """`{"d2t", "t2d"}`, or a mask alone."""
    if is_array(value):
        return vocab_from_map(None, value, name, how)
    held = _held(value, {"d2t"}, name)
    vocab = vocab_from_map(held["d2t"], held.get("t2d"), name, how)
    note_order(vocab, name, how)
    return vocab


def vocab_from_offsets(value: Any, name: str, how: How) -> DraftVocab:
    """Offsets alone, in any order: Model-Optimizer's `d2t.pt`."""
    vocab = vocab_from_map(_vector(value, name), None, name, how, bare=True)
    note_order(vocab, name, how)
    return vocab


def vocab_from_nemo(value: Any, name: str, how: How) -> DraftVocab:
    """`{"selected_token_ids", "target_vocab_size"}`."""
    held = _held(value, NEMO, name)
    rows = held["target_vocab_size"]
    if is_array(rows) and not rows.ndim:  # a number that was saved as a tensor
        rows = as_array(rows.reshape(1), f"{name}: target_vocab_size")[0].item()
    return vocab_from_list(held["selected_token_ids"], name, how, rows)


def _vector(value: Any, name: str) -> Array:
    """A vector out of a tensor, an array or a list of numbers."""
    try:
        return as_array(np.asarray(value) if isinstance(value, list | tuple) else value, name)
    except (ValueError, OverflowError, RecursionError):
        raise FileFormatError(
            f"{name} is a list of other things than numbers", expected="a vector of numbers"
        ) from None


def _held(value: Any, keys: set[str], name: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping) and keys <= value.keys():
        return value
    raise FileFormatError(
        f"{name} is a {type(value).__name__}",
        expected=f"a dict with {' and '.join(map(repr, sorted(keys)))}",
    )


READERS: dict[Kind, Callable[[Any, str, How], DraftVocab | Counts]] = {
    "token-map": vocab_from_list,
    "text": vocab_from_list,
    "vocab-freq": counts_from_vector,
    "token-freq": counts_from_mapping,
    "mapping": vocab_from_mapping,
    "modelopt": vocab_from_offsets,
    "nemo": vocab_from_nemo,
}
