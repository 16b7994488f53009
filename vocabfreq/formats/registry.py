"""The table of formats: how each is read, written and recognized. A new format is one entry here.

Add its name to `Kind` (read_options.py) and, if it is written, to `Format` below; its reader and
writer stand together in the module of its content: ids in token_map.py and json_file.py, offsets
and masks in d2t.py, counts in counts.py. docs/formats.md lists the tools that take each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from vocabfreq.errors import FileFormatError, VocabfreqError
from vocabfreq.formats.containers import Container, detect_container, load_value
from vocabfreq.formats.counts import (
    counts_from_dict,
    counts_from_vector,
    save_dict,
    save_vector,
)
from vocabfreq.formats.d2t import (
    MAPPING_KEYS,
    load_checkpoint,
    load_npy_pair,
    save_mapping,
    save_npy_pair,
    save_offsets,
    vocab_from_mapping,
    vocab_from_offsets,
)
from vocabfreq.formats.json_file import JSON_KEYS, save_json, vocab_from_json
from vocabfreq.formats.read_options import Kind, ReadOptions
from vocabfreq.formats.token_map import (
    NEMO_KEYS,
    save_nemo,
    save_token_map,
    vocab_from_list,
    vocab_from_nemo,
)
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.resolve import Place

Format = Literal[
    "draft-vocab",
    "token-map",
    "token-freq",
    "vocab-freq",
    "npy",
    "mapping",
    "modelopt",
    "nemo",
    "json",
]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class FileFormat:
    """How one format is read, written and recognized.

    Attributes:
        from_value: reads what `load_value` gives for a file: (value, name, options).
        from_place: reads a file or folder itself, where its value alone is not enough.
        save: writes a `DraftVocab`, or `Counts`, to a path.
        recognize: whether a file at a path shows that it is of this format, so that it may be
            replaced; None where nothing in such a file does, as in a bare vector.
        holds_counts: whether it holds counts instead of ids.
        keeps_rank: whether it keeps the order of `DraftVocab.ranked`.
    """

    from_value: Callable[[Any, str, ReadOptions], Any] | None = None
    from_place: Callable[[Place, ReadOptions], Any] | None = None
    save: Callable[[Any, Path], None] | None = None
    recognize: Callable[[Path], bool] | None = None
    holds_counts: bool = False
    keeps_rank: bool = False


def _contains(container: Container, predicate: Callable[[Any], bool]) -> Callable[[Path], bool]:
    """A `recognize` that tests the container too: a JSON list is no token map."""

    def recognize(path: Path) -> bool:
        try:
            return detect_container(path) == container and predicate(load_value(path))
        except (VocabfreqError, OSError):
            return False

    return recognize


def _has_keys(keys: set[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and value.keys() == keys


def _load_json(place: Place, options: ReadOptions) -> DraftVocab:
    if detect_container(place.path) != "json":
        raise FileFormatError(f"{place.called} is not JSON", expected="a list or an object")
    return vocab_from_json(load_value(place.path), place.called, options)


def _load_draft_vocab(place: Place, options: ReadOptions) -> DraftVocab:
    vocab = DraftVocab.load(place.path)
    options.resolve_rows(place.called, vocab.rows)
    return vocab


def _load_frequency(place: Place, options: ReadOptions) -> FrequencyTable:
    table = FrequencyTable.load(place.path)
    options.resolve_rows(place.called, table.rows)
    return table


FILE_FORMATS: Mapping[Kind, FileFormat] = {
    "token-map": FileFormat(
        from_value=vocab_from_list,
        save=save_token_map,
        recognize=_contains("torch", lambda value: isinstance(value, list)),
        keeps_rank=True,
    ),
    "text": FileFormat(from_value=vocab_from_list),
    "nemo": FileFormat(
        from_value=vocab_from_nemo,
        save=save_nemo,
        recognize=_contains("torch", _has_keys(NEMO_KEYS)),
    ),
    "json": FileFormat(
        from_place=_load_json,
        save=save_json,
        recognize=_contains("json", _has_keys(JSON_KEYS)),
        keeps_rank=True,
    ),
    "mapping": FileFormat(
        from_value=vocab_from_mapping,
        save=save_mapping,
        recognize=_contains("torch", _has_keys(MAPPING_KEYS)),
    ),
    "modelopt": FileFormat(from_value=vocab_from_offsets, save=save_offsets),
    "npy": FileFormat(from_place=load_npy_pair, save=save_npy_pair, recognize=lambda path: True),
    "checkpoint": FileFormat(from_place=load_checkpoint),
    "draft-vocab": FileFormat(
        from_place=_load_draft_vocab,
        save=DraftVocab.save,
        recognize=lambda path: True,  # its reader looks at the metadata
        keeps_rank=True,
    ),
    "token-freq": FileFormat(
        from_value=counts_from_dict,
        save=save_dict,
        recognize=_contains("torch", lambda value: isinstance(value, Mapping) and len(value) > 0),
        holds_counts=True,
    ),
    "vocab-freq": FileFormat(from_value=counts_from_vector, save=save_vector, holds_counts=True),
    "frequency": FileFormat(from_place=_load_frequency),
}
COUNT_FORMATS = tuple(name for name in FORMATS if FILE_FORMATS[name].holds_counts)
