"""`read`: any file of ids or counts → what it holds. `load_vocab`: any source of ids → the ids.

>>> load_vocab("vocab_freq.safetensors", {"size": 32_768})
DraftVocab(K=32,768 of V=128,256, 25.5%, covers 98.10 %)

`_detect_kind` finds out the format of a file; the readers are in `registry`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError, SelectionError, short_repr
from vocabfreq.formats.containers import as_array, detect_container, is_array, load_value
from vocabfreq.formats.counts import Counts, check_probabilities
from vocabfreq.formats.d2t import NPY_NAME, has_npy_pair
from vocabfreq.formats.read_options import Kind, ReadOptions, warn
from vocabfreq.formats.registry import FILE_FORMATS
from vocabfreq.formats.safetensors_file import read_header
from vocabfreq.formats.token_map import NEMO_KEYS
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.draft_vocab_file import KEY as DRAFT_VOCAB_KEY
from vocabfreq.frequencies.frequency_file import KEY as TABLE_KEY
from vocabfreq.frequencies.frequency_file import NAME as TABLE_NAME
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.resolve import Location, locate

VocabLike = DraftVocab | FrequencyTable | Counts | str | Path


def read(
    source: str | Path,
    kind: Kind = "auto",
    *,
    rows: int | None = None,
    repair: bool = False,
    force: bool = False,
    note: Callable[[str], None] = warn,
) -> DraftVocab | Counts | FrequencyTable:
    """Reads a file of ids or counts that any tool wrote.

    Args:
        source: a path, or `owner/repo/file[@revision]` on the Hub. A `Path` is always local.
        kind: its format, one of `KINDS`; `auto` detects it, and refuses where two readings are
            possible, as of a bare tensor of integers.
        rows: V, needed where the file does not state it.
        repair: drop repeated ids of a list, with a remark.
        force: accept offsets that are all zero, and a length that contradicts the file name.
        note: receives remarks; by default they become Python warnings.

    Returns:
        A `DraftVocab` from files of ids, `Counts` from files of counts or probabilities, a
        `FrequencyTable` from our own.

    Raises:
        FileFormatError: it breaks its format; names the file and what is wrong in it.
        MissingExtraError: it holds tensors of torch, and torch is not installed.
    """
    options = ReadOptions(kind, rows, repair, force, note)
    try:
        content: DraftVocab | Counts | FrequencyTable = _read_location(locate(source), options)
    except OSError as error:
        raise FileFormatError(f"{source} cannot be read: {error.strerror or error}") from None
    return content


def _read_location(location: Location, options: ReadOptions) -> Any:
    """Reads a file or folder; of a folder or repo that has a frequency file, that file."""
    if (
        location.name is None
        and options.kind in ("auto", "frequency")
        and location.sibling(TABLE_NAME)
    ):
        return _read_location(Location(location.folder, TABLE_NAME), options)
    kind = options.kind if options.kind != "auto" else _detect_kind(location)
    from_location = None if kind == "auto" else FILE_FORMATS[kind].from_location
    if from_location is not None:
        return from_location(location, options)
    value = load_value(location.path)
    if kind == "auto":
        kind = _detect_kind_of_value(value, location.display_name)
    from_value = FILE_FORMATS[kind].from_value
    assert from_value is not None  # every format has one of the two
    return from_value(value, location.display_name, options)


def _detect_kind(location: Location) -> Kind:
    """The format of a file by its container; `auto` where only its value can tell."""
    if location.name is None:
        return "npy" if has_npy_pair(location) else "checkpoint"
    container = detect_container(location.path)
    if container == "safetensors":
        _, metadata = read_header(location.path)
        if DRAFT_VOCAB_KEY in metadata:
            return "draft-vocab"
        return "frequency" if TABLE_KEY in metadata else "checkpoint"
    if container == "npy" and NPY_NAME.match(location.display_name):
        return "npy"
    return container if container in ("json", "text") else "auto"


def _detect_kind_of_value(value: Any, name: str) -> Kind:
    """The one format that a value can have.

    Raises:
        FileFormatError: it can have several, or none.
    """
    kinds = _possible_kinds(value)
    if kinds == ["vocab-freq"]:
        check_probabilities(value, name)
    if len(kinds) == 1:
        return kinds[0]
    if kinds and isinstance(value, Mapping):
        raise FileFormatError(
            f"{name} has the keys of {' and of '.join(kinds)} files",
            expected="one of these",
            hint=f"state which to read: --kind {' or '.join(kinds)} (kind=…)",
        )
    if not kinds:
        content = type(value).__name__
        if isinstance(value, dict):
            keys = ", ".join(short_repr(key) for key in list(value)[:6])
            content = f"a dict with {f'the keys {keys}' if keys else 'no keys'}"
        raise FileFormatError(
            f"{name} holds {content}", expected="ids, offsets, counts, or a dict of these"
        )
    size = len(as_array(value, name))  # or refuses another shape
    raise FileFormatError(
        f"{name} is a bare vector of {size} integers: it may hold ids, counts or offsets",
        hint=f"state its kind: --kind {', '.join(kinds[:-1])} or {kinds[-1]} (kind=…)",
    )


def _possible_kinds(value: Any) -> list[Kind]:
    """Every format that a value can have; a bare vector of integers can have three."""
    if isinstance(value, list | tuple):
        return ["token-map"]
    if isinstance(value, Mapping):
        kinds: list[Kind] = ["nemo"] if value.keys() >= NEMO_KEYS else []
        if "d2t" in value:
            kinds.append("mapping")
        if kinds:
            return kinds
        return ["token-freq"] if value and all(isinstance(key, int) for key in value) else []
    if not is_array(value):
        return []
    dtype = str(value.dtype)
    if "float" in dtype:
        return ["vocab-freq"]
    return ["mapping"] if "bool" in dtype else ["token-map", "vocab-freq", "modelopt"]


def load_vocab(
    source: VocabLike, selection: Mapping[str, Any], rows: int | None = None
) -> DraftVocab:
    """The ids to keep, from a vocabulary, a table or counts to select from, or a file of either.

    Args:
        source: one of these; a `str` may name a Hub repo.
        selection: arguments of `FrequencyTable.select`; empty for ids.
        rows: V of the head or its config, for files and counts that do not state it.

    Raises:
        FileFormatError: there is no such file, or it breaks its format.
        SelectionError: a selection from ids that are already selected, or one that is impossible.
    """
    if isinstance(source, str | Path):
        source = _read_with_rows(source, rows)
    if isinstance(source, FrequencyTable):
        return source.select(**selection)
    if isinstance(source, Counts):
        return _select_from_counts(source, selection, rows)
    given = [name for name, value in selection.items() if value is not None]
    if given:
        raise SelectionError(
            f"{', '.join(given)} given with a vocabulary of {len(source):,} ids",
            expected="none of them: the ids are already chosen",
            hint="give the frequency file to select other ids",
        )
    return source


def _read_with_rows(source: str | Path, rows: int | None) -> DraftVocab | Counts | FrequencyTable:
    """Passes V only to files that do not state it, so that another V is an error of the caller."""
    try:
        return read(source)
    except FileFormatError as error:
        if rows is None or "--rows" not in error.hint:
            raise
        return read(source, rows=rows)


def _select_from_counts(
    counts: Counts, selection: Mapping[str, Any], rows: int | None
) -> DraftVocab:
    """Counts of other tools name no special tokens, so the caller must decline pins."""
    if selection.get("pins") != "none":
        raise SelectionError(
            "counts alone do not say which ids are special",
            expected="--pins none (pins='none')",
            hint="to keep ids such as EOS all the same: vocabfreq export --pins none --keep ID, "
            "and prune with that",
        )
    others = {name: value for name, value in selection.items() if name != "pins"}
    return counts.select(rows=rows if counts.rows is None else None, **others)
