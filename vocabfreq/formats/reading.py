"""`read`: any file of ids or counts → what it holds."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.arrays import as_array
from vocabfreq.formats.checkpoint import load_checkpoint
from vocabfreq.formats.containers import container_of, load_value
from vocabfreq.formats.counts import Counts
from vocabfreq.formats.json_file import vocab_from_json
from vocabfreq.formats.npypair import PAIR, has_pair, load_pair
from vocabfreq.formats.read_options import How, Kind, short, warn
from vocabfreq.formats.values import READERS, check_share, kinds_of
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.storage.places import Place, find

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable


def read(
    source: str | Path,
    kind: Kind = "auto",
    *,
    rows: int | None = None,
    repair: bool = False,
    force: bool = False,
    note: Callable[[str], None] = warn,
) -> "DraftVocab | Counts | FrequencyTable":
    """Reads a file of ids or counts that any tool wrote.

    Args:
        source: a path, or `owner/repo/file[@revision]` on the Hub. A `Path` is always local.
        kind: what it is, one of `KINDS`; `auto` finds out, and refuses where two readings are
            possible, as of a bare tensor of integers.
        rows: V, needed where the file does not say it.
        repair: drop repeated ids of a list, and say so.
        force: take offsets that are all zero, or a length other than the name says, as they are.
        note: hears remarks; by default they become Python warnings.

    Returns:
        A `DraftVocab` from files of ids, `Counts` from files of counts or probabilities, a
        `FrequencyTable` from our own.

    Raises:
        FileFormatError: it is not what it should be; names the file and what is wrong in it.
        MissingExtraError: it holds tensors, and torch is not installed.
    """
    how = How(kind, rows, repair, force, note)
    try:
        return read_place(find(source), how)
    except OSError as error:
        raise FileFormatError(f"{source} cannot be read: {error.strerror or error}") from None


def read_place(place: Place, how: How) -> "DraftVocab | Counts | FrequencyTable":
    """Reads a file that is found; of a folder or repo that has a frequency file, that one."""
    if place.name is None and how.kind in ("auto", "frequency") and place.beside(FREQUENCIES):
        return read_place(Place(place.folder, FREQUENCIES), how)
    kind = how.kind if how.kind != "auto" else _kind_of(place)
    if kind == "auto":
        value = load_value(place.path)
        return READERS[_only_kind(value, place.called)](value, place.called, how)
    if kind in _FILES:
        held: DraftVocab | Counts | FrequencyTable = _FILES[kind](place, how)
        return held
    return READERS[kind](load_value(place.path), place.called, how)


def _kind_of(place: Place) -> Kind:
    """What a file is by its container, `auto` where its value must tell."""
    if place.name is None:
        return "npy" if has_pair(place) else "checkpoint"
    container = container_of(place.path)
    if container == "safetensors":
        return _kind_of_safetensors(place.path)
    if container == "npy" and PAIR.match(place.called):
        return "npy"
    return container if container in ("json", "text") else "auto"


def _kind_of_safetensors(path: Path) -> Kind:
    from vocabfreq.frequencies import draft_vocab_file
    from vocabfreq.frequencies.file import KEY

    try:
        with safe_open(str(path), "numpy") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path.name} is not a safetensors file: {error}") from None
    if draft_vocab_file.is_draft_vocab(metadata):
        return "draft-vocab"
    return "frequency" if KEY in metadata else "checkpoint"


def _only_kind(value: Any, name: str) -> Kind:
    kinds = kinds_of(value)
    if kinds == ["vocab-freq"]:
        check_share(value, name)
    if len(kinds) == 1:
        return kinds[0]
    if kinds and isinstance(value, Mapping):
        raise FileFormatError(
            f"{name} holds what {' and what '.join(kinds)} files hold",
            expected="one of these",
            hint=f"say which to read: --kind {' or '.join(kinds)} (kind=…)",
        )
    size = len(as_array(value, name)) if kinds else 0  # or refuses another shape
    if not kinds:
        what = f"a dict with {_keys(value)}" if isinstance(value, dict) else type(value).__name__
        raise FileFormatError(
            f"{name} holds {what}", expected="ids, offsets, counts, or a dict of these"
        )
    raise FileFormatError(
        f"{name} is a bare vector of {size} integers: it may hold ids, counts or offsets",
        hint=f"say what it is: --kind {', '.join(kinds[:-1])} or {kinds[-1]} (kind=…)",
    )


def _keys(value: dict[Any, Any]) -> str:
    keys = [short(key) for key in list(value)[:6]]
    return f"the keys {', '.join(keys)}" if keys else "no keys"


def _frequency(place: Place, how: How) -> "FrequencyTable":
    from vocabfreq.frequencies.table import FrequencyTable

    table = FrequencyTable.load(place.path)
    how.rows_of(place.called, table.rows)
    return table


def _draft_vocab(place: Place, how: How) -> DraftVocab:
    vocab = DraftVocab.load(place.path)
    how.rows_of(place.called, vocab.rows)
    return vocab


def _json(place: Place, how: How) -> DraftVocab:
    if container_of(place.path) != "json":
        raise FileFormatError(f"{place.called} is not JSON", expected="a list or an object")
    return vocab_from_json(load_value(place.path), place.called, how)


_FILES: dict[Kind, Callable[[Place, How], Any]] = {
    "npy": load_pair,
    "checkpoint": load_checkpoint,
    "json": _json,
    "draft-vocab": _draft_vocab,
    "frequency": _frequency,
}
