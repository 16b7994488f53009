"""The table of formats: reader, writer and recognizer of each. A new format is one entry here.

Add its name to `Kind` (read_options.py) and, if it is written, to `Format` below; its reader and
writer stand together in the module of its content: ids in token_map.py and json_file.py, offsets
and masks in d2t.py, counts in counts.py. docs/formats.md lists the tools that take each.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from vocabfreq.errors import FileFormatError, VocabfreqError
from vocabfreq.formats import counts, d2t, json_file, token_map
from vocabfreq.formats.containers import Container, detect_container, load_value
from vocabfreq.formats.read_options import Kind, ReadOptions
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.resolve import Location

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
    """Reader, writer and recognizer of one format.

    Attributes:
        from_value: reads what `load_value` gives for a file: (value, name, options).
        from_location: reads a file or folder itself, where its value alone is not enough.
        save: writes a `DraftVocab`, or `Counts`, to a path.
        recognize: whether a file at a path shows that it is of this format, so that it may be
            replaced; None where nothing in such a file does, as in a bare vector.
        holds_counts: whether it holds counts instead of ids.
        keeps_rank: whether it keeps the order of `DraftVocab.ranked`.
    """

    from_value: Callable[[Any, str, ReadOptions], Any] | None = None
    from_location: Callable[[Location, ReadOptions], Any] | None = None
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


def _load_json(location: Location, options: ReadOptions) -> DraftVocab:
    if detect_container(location.path) != "json":
        raise FileFormatError(
            f"{location.display_name} is not JSON", expected="a list or an object"
        )
    return json_file.vocab_from_json(load_value(location.path), location.display_name, options)


def _load_own(load: Callable[[Path], Any]) -> Callable[[Location, ReadOptions], Any]:
    """A `from_location` for a file of vocabfreq itself, which states V."""

    def load_and_check(location: Location, options: ReadOptions) -> Any:
        content = load(location.path)
        options.resolve_rows(location.display_name, content.rows)
        return content

    return load_and_check


FILE_FORMATS: Mapping[Kind, FileFormat] = {
    "token-map": FileFormat(
        from_value=token_map.vocab_from_list,
        save=token_map.save_token_map,
        recognize=_contains("torch", lambda value: isinstance(value, list)),
        keeps_rank=True,
    ),
    "text": FileFormat(from_value=token_map.vocab_from_list),
    "nemo": FileFormat(
        from_value=token_map.vocab_from_nemo,
        save=token_map.save_nemo,
        recognize=_contains("torch", _has_keys(token_map.NEMO_KEYS)),
    ),
    "json": FileFormat(
        from_location=_load_json,
        save=json_file.save_json,
        recognize=_contains("json", _has_keys(json_file.JSON_KEYS)),
        keeps_rank=True,
    ),
    "mapping": FileFormat(
        from_value=d2t.vocab_from_mapping,
        save=d2t.save_mapping,
        recognize=_contains("torch", _has_keys(d2t.MAPPING_KEYS)),
    ),
    "modelopt": FileFormat(from_value=d2t.vocab_from_offsets, save=d2t.save_offsets),
    "npy": FileFormat(
        from_location=d2t.load_npy_pair, save=d2t.save_npy_pair, recognize=lambda path: True
    ),
    "checkpoint": FileFormat(from_location=d2t.load_checkpoint),
    "draft-vocab": FileFormat(
        from_location=_load_own(DraftVocab.load),
        save=DraftVocab.save,
        recognize=lambda path: True,  # its reader looks at the metadata
        keeps_rank=True,
    ),
    "token-freq": FileFormat(
        from_value=counts.counts_from_dict,
        save=counts.save_dict,
        recognize=_contains("torch", lambda value: isinstance(value, Mapping) and len(value) > 0),
        holds_counts=True,
    ),
    "vocab-freq": FileFormat(
        from_value=counts.counts_from_vector, save=counts.save_vector, holds_counts=True
    ),
    "frequency": FileFormat(from_location=_load_own(FrequencyTable.load)),
}
COUNT_FORMATS = tuple(name for name in FORMATS if FILE_FORMATS[name].holds_counts)
