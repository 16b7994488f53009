"""`read`: any file of ids or counts → what it holds.

What kind of container a file is, told by its first bytes, and the value in it.

`choose`: whatever names a vocabulary → the ids to keep.

>>> choose("vocab_freq.safetensors", {"size": 32_768})
DraftVocab(K=32,768 of V=128,256, 25.5%, covers 98.10 %)
"""

import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from safetensors import SafetensorError, safe_open

from vocabfreq.errors import FileFormatError, SelectionError, short_repr
from vocabfreq.formats import torch_file
from vocabfreq.formats.arrays import as_array, load_npy
from vocabfreq.formats.counts import Counts
from vocabfreq.formats.d2t import PAIR, has_pair, load_checkpoint, load_pair
from vocabfreq.formats.json_file import vocab_from_json
from vocabfreq.formats.read_options import How, Kind, warn
from vocabfreq.formats.values import READERS, check_share, kinds_of
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.draft_vocab_file import KEY as DRAFT_VOCAB_KEY
from vocabfreq.frequencies.file import KEY as FREQUENCY_KEY
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.resolve import Location, locate

Container = Literal["safetensors", "torch", "npy", "json", "text"]
_TORCH_NAMES = (".pt", ".pth", ".bin", ".pkl")


def container_of(path: Path) -> Container:
    """Tells a container by what it begins with; the name only helps where that says nothing.

    Raises:
        FileFormatError: it is a GGUF file, which is not read.
    """
    with path.open("rb") as file:
        head = file.read(64)
    if head[:4] == b"GGUF":
        raise FileFormatError(
            f"{path.name} is a GGUF file",
            expected="the checkpoint that it was converted from, whose d2t holds offsets",
        )
    # Before the others: the length that a safetensors file begins with can look like any of them.
    if head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] < path.stat().st_size:
        return "safetensors"
    if head[:6] == b"\x93NUMPY":
        return "npy"
    if head[:4] == b"PK\x03\x04" or head[:1] == b"\x80":
        return "torch"
    if head.lstrip()[:1] in (b"[", b"{"):
        return "json"
    return "torch" if path.suffix in _TORCH_NAMES else "text"


def load_value(path: Path) -> Any:
    """The list, dict, tensor or array that a file holds; nothing in it is executed.

    Raises:
        FileFormatError: it holds something else, or is broken or too large.
    """
    container = container_of(path)
    if container == "torch":
        return torch_file.load(path)
    if container == "npy":
        return load_npy(path)
    if container == "safetensors":
        raise FileFormatError(
            f"{path.name} is a safetensors file",
            expected="a list, a mapping or a vector",
            hint="--kind checkpoint, draft-vocab or frequency read one",
        )
    torch_file.check_size(path)
    return _load_json(path) if container == "json" else _lines(path)


def _load_json(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FileFormatError(f"{path.name} is not JSON: {error}") from None


def _lines(path: Path) -> list[int]:
    """An id a line; empty lines do not count."""
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except UnicodeError:
        raise FileFormatError(
            f"{path.name} is neither text nor a known container",
            expected="a torch, npy, safetensors, JSON or text file",
        ) from None
    return [_id(line.strip(), n, path.name) for n, line in enumerate(lines, 1) if line.strip()]


def _id(text: str, number: int, name: str) -> int:
    if not (text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 20):
        raise FileFormatError(f"{name}: line {number} is {text[:40]!r}", expected="an id a line")
    return int(text)


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
        return read_place(locate(source), how)
    except OSError as error:
        raise FileFormatError(f"{source} cannot be read: {error.strerror or error}") from None


def read_place(place: Location, how: How) -> "DraftVocab | Counts | FrequencyTable":
    """Reads a file that is found; of a folder or repo that has a frequency file, that one."""
    if place.name is None and how.kind in ("auto", "frequency") and place.sibling(FREQUENCIES):
        return read_place(Location(place.folder, FREQUENCIES), how)
    kind = how.kind if how.kind != "auto" else _kind_of(place)
    if kind == "auto":
        value = load_value(place.path)
        return READERS[_only_kind(value, place.display_name)](value, place.display_name, how)
    if kind in _FILES:
        held: DraftVocab | Counts | FrequencyTable = _FILES[kind](place, how)
        return held
    return READERS[kind](load_value(place.path), place.display_name, how)


def _kind_of(place: Location) -> Kind:
    """What a file is by its container, `auto` where its value must tell."""
    if place.name is None:
        return "npy" if has_pair(place) else "checkpoint"
    container = container_of(place.path)
    if container == "safetensors":
        return _kind_of_safetensors(place.path)
    if container == "npy" and PAIR.match(place.display_name):
        return "npy"
    return container if container in ("json", "text") else "auto"


def _kind_of_safetensors(path: Path) -> Kind:

    try:
        with safe_open(str(path), "numpy") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path.name} is not a safetensors file: {error}") from None
    if DRAFT_VOCAB_KEY in metadata:
        return "draft-vocab"
    return "frequency" if FREQUENCY_KEY in metadata else "checkpoint"


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
    keys = [short_repr(key) for key in list(value)[:6]]
    return f"the keys {', '.join(keys)}" if keys else "no keys"


def _frequency(place: Location, how: How) -> "FrequencyTable":
    table = FrequencyTable.load(place.path)
    how.rows_of(place.display_name, table.rows)
    return table


def _draft_vocab(place: Location, how: How) -> DraftVocab:
    vocab = DraftVocab.load(place.path)
    how.rows_of(place.display_name, vocab.rows)
    return vocab


def _json(place: Location, how: How) -> DraftVocab:
    if container_of(place.path) != "json":
        raise FileFormatError(f"{place.display_name} is not JSON", expected="a list or an object")
    return vocab_from_json(load_value(place.path), place.display_name, how)


_FILES: dict[Kind, Callable[[Location, How], Any]] = {
    "npy": load_pair,
    "checkpoint": load_checkpoint,
    "json": _json,
    "draft-vocab": _draft_vocab,
    "frequency": _frequency,
}


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
