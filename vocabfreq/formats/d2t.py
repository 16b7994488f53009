"""`d2t` with or without `t2d`: the EAGLE-3 encoding, wherever it lies.

`DraftVocab` computes with both; here they are only held against each other.

`d2t` and `t2d` inside an EAGLE-3 drafter: a folder or a safetensors file, V from config.json.

Only these two small tensors are read; the weights stay where they are.

`d2t.npy` and `t2d.npy`, or `d2t-K.npy` and `t2d-K.npy`: speculators' mapping, a folder.
"""

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.formats.arrays import Array, as_array, load_npy
from vocabfreq.formats.read_options import How, naming
from vocabfreq.formats.token_map import check_name
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import MAX_ROWS
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.resolve import Location


def vocab_from_map(
    d2t: Any, t2d: Any, name: str, how: How, rows: int | None = None, *, bare: bool = False
) -> DraftVocab:
    """A vocabulary from offsets, a mask, or both, which must agree.

    Args:
        d2t: integers [K], offsets, or None.
        t2d: bool [V], or None.
        name: of the file, for messages.
        how: rows, and whether offsets that are all zero are meant.
        rows: V, where something beside the two says it.
        bare: whether d2t is all that the file holds, so that it can be read as a list of ids too.

    Raises:
        FileFormatError: they do not agree, or break their encoding.
    """
    mask = None if t2d is None else _mask(t2d, name)
    if mask is not None and rows not in (None, mask.rows, how.rows):
        raise FileFormatError(
            f"{name}: t2d has {mask.rows} entries, the config says {rows} rows",
            hint=f"if t2d is right, pass --rows {mask.rows} (rows={mask.rows})",
        )
    rows = how.rows_of(name, rows if mask is None else mask.rows)
    if d2t is None:
        if mask is None:
            raise FileFormatError(f"{name} has neither d2t nor t2d")
        return mask
    offsets = as_array(d2t, f"{name}: d2t")
    # Zeros that a mask confirms are the first ids, not a map that was never loaded.
    with naming(f"{name}: d2t", lambda: _as_ids(offsets, mask, rows, bare=bare)):
        vocab = DraftVocab.from_d2t(offsets, rows=rows, force=how.force or mask is not None)
    if mask is not None and mask.fingerprint != vocab.fingerprint:
        raise _disagreement(vocab, mask, offsets, name)
    return vocab


def note_order(vocab: DraftVocab, name: str, how: How) -> None:
    """Says so when the rows of a drafter are not in the order of the vocabulary."""
    if not np.array_equal(vocab.ranked, vocab.target_ids):
        how.note(
            f"{name}: d2t is not ascending, so the rows of the head trained with it are in another "
            "order than those of this vocabulary; whoever slices rows by t2d gets wrong ones"
        )


def _mask(t2d: Any, name: str) -> DraftVocab:
    array = as_array(t2d, f"{name}: t2d")
    with naming(f"{name}: t2d"):
        return DraftVocab.from_t2d(array)


def _disagreement(
    vocab: DraftVocab, mask: DraftVocab, offsets: Array, name: str
) -> FileFormatError:
    place = int(np.flatnonzero(vocab.t2d != mask.t2d)[0])
    side, other = ("d2t", "t2d") if vocab.t2d[place] else ("t2d", "d2t")
    zeros = "; all offsets are 0" if not offsets.any() else ""
    return FileFormatError(
        f"{name}: d2t keeps {len(vocab)} ids, t2d {len(mask)}; id {place} is in {side} and not in "
        f"{other}{zeros}",
        expected="the same ids in both",
        hint=_as_ids(offsets, mask, mask.rows, bare=False),
    )


def _as_ids(offsets: Array, mask: DraftVocab | None, rows: int, *, bare: bool) -> str:
    """A hint when target ids were read as offsets."""
    try:
        vocab = DraftVocab.from_ids(offsets, rows=rows)
    except FileFormatError:
        return ""
    if mask is None and bare:
        return "read as target ids it makes sense: --kind token-map (kind='token-map')"
    if mask is None:
        return "d2t may hold target ids where offsets belong: as ids it makes sense"
    if mask.fingerprint != vocab.fingerprint:
        return ""
    return "d2t holds target ids where offsets belong: as ids it agrees with t2d"


INDEX = "model.safetensors.index.json"
MAX_JSON = 64 << 20
_DTYPES = {"d2t": ("I64", "I32", "I16", "I8", "U8"), "t2d": ("BOOL",)}


def load_checkpoint(place: Location, how: How) -> DraftVocab:
    """Reads which ids a pruned drafter keeps.

    Raises:
        FileFormatError: it keeps all, or says so in a way that does not hold together.
    """
    config = _json(place, "config.json")
    found = {name: _tensor(_holder(place, name), name) for name in _DTYPES}
    if found["d2t"] is None:
        raise FileFormatError(
            f"{place.display_name} has no tensor d2t",
            expected="a pruned EAGLE-3 drafter",
            hint="vocabfreq prune makes one",
        )
    rows = how.rows if how.rows is not None else _rows(config)
    vocab = vocab_from_map(found["d2t"], found["t2d"], place.display_name, how, rows)
    _check_size(config, len(vocab), place.display_name)
    note_order(vocab, place.display_name, how)
    return vocab


def _rows(config: dict[str, Any]) -> Any:
    inner = (config.get(name) for name in ("text_config", "transformer_layer_config"))
    places = [config, *(place for place in inner if isinstance(place, dict))]
    return next((place["vocab_size"] for place in places if "vocab_size" in place), None)


def _check_size(config: dict[str, Any], size: int, name: str) -> None:
    said = config.get("draft_vocab_size", size)
    if said != size:
        raise FileFormatError(
            f"{name}: d2t has {size} entries, config.json says draft_vocab_size {short_repr(said)}",
            expected="one number",
            hint="vocabfreq check says what engines make of it",
        )


def _holder(place: Location, tensor: str) -> Path:
    """The file that has a tensor, as far as the index says so."""
    if place.name is not None:
        return place.path
    weights = _json(place, INDEX).get("weight_map")
    weights = weights if isinstance(weights, dict) else {}
    name = weights.get(_named(weights, tensor, place.display_name))
    names = place.glob("*.safetensors")
    if name is None:
        name = names[0] if len(names) == 1 else "model.safetensors"
    if not isinstance(name, str) or Path(name).name != name:
        raise FileFormatError(
            f"{place.display_name}: {INDEX} names {short_repr(name)}", expected="a file in it"
        )
    path = place.sibling(name)
    if path is None:
        raise FileFormatError(
            f"{place.display_name} has no {name}", expected="a drafter folder with safetensors"
        )
    return path


def _named(names: Iterable[str], tensor: str, where: str) -> str | None:
    """The full name of a tensor, which may stand behind a prefix such as `model.`."""
    found = [name for name in names if name.rpartition(".")[2] == tensor]
    if len(found) > 1 and tensor not in found:
        raise FileFormatError(
            f"{where} has {len(found)} tensors {tensor}: {short_repr(found)}", expected="one"
        )
    return tensor if tensor in found else next(iter(found), None)


def _json(place: Location, name: str) -> dict[str, Any]:
    path = place.sibling(name)
    if path is None:
        return {}
    if path.stat().st_size > MAX_JSON:
        raise FileFormatError(f"{place.display_name}: {name} has {path.stat().st_size:,} bytes")
    try:
        loaded = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{place.display_name}: {name} is not JSON: {error}") from None
    return loaded if isinstance(loaded, dict) else {}


def _tensor(path: Path, name: str) -> Array | None:
    try:
        with safe_open(str(path), "numpy") as file:
            found = _named(file.keys(), name, path.name)
            if found is None:
                return None
            view = file.get_slice(found)
            dtype, shape = view.get_dtype(), view.get_shape()
            if dtype not in _DTYPES[name] or len(shape) != 1 or shape[0] > MAX_ROWS:
                raise FileFormatError(
                    f"{path.name}: {name} is {dtype} {shape}",
                    expected="BOOL [V]" if name == "t2d" else "I64 [K]",
                )
            tensor: Array = file.get_tensor(found)
            return tensor
    except (SafetensorError, OSError) as error:
        raise FileFormatError(f"{path.name} is not a safetensors file: {error}") from None


PAIR = re.compile(r"^(?:d2t|t2d)(?P<size>-\d+)?\.npy$")
NAMES = ("t2d.npy", "d2t.npy")  # in the order of writing: a pair cut short lacks its d2t


def load_pair(place: Location, how: How) -> DraftVocab:
    """Reads a pair from either of its files, or from the folder; one alone serves where it can.

    Raises:
        FileFormatError: there is none, there are several, or they do not agree.
    """
    size = _size(place)
    found = {name: place.sibling(f"{name}{size}.npy") for name in ("d2t", "t2d")}
    if not any(found.values()):
        raise FileFormatError(
            f"{place.display_name} has no d2t.npy", expected="d2t.npy and t2d.npy"
        )
    d2t, t2d = (path and load_npy(path) for path in found.values())
    vocab = vocab_from_map(d2t, t2d, place.display_name, how, bare=place.name is not None)
    if not how.force:
        check_name(f"d2t{size}.npy", len(vocab))
    note_order(vocab, place.display_name, how)
    return vocab


def has_pair(place: Location) -> bool:
    """Whether a local folder holds a mapping."""
    return any(PAIR.match(name) for name in place.glob("*.npy"))


def save_pair(vocab: DraftVocab, folder: Path) -> None:
    """Writes both files into a folder."""
    for name in NAMES:
        buffer = io.BytesIO()
        array: Any = getattr(vocab, name.removesuffix(".npy"))
        np.save(buffer, array, allow_pickle=False)
        write_atomically(folder / name, buffer.getvalue())


def _size(place: Location) -> str:
    """What stands after `d2t` in the names of the pair."""
    if place.name is not None:
        match = PAIR.match(place.display_name)
        if match is None:
            raise FileFormatError(
                f"{place.display_name!r}",
                expected="d2t.npy, t2d.npy, d2t-K.npy, t2d-K.npy or their folder",
                hint="for another array say what it is, with --kind token-map, modelopt or "
                "vocab-freq",
            )
        return match["size"] or ""
    sizes = {m["size"] or "" for name in place.glob("*.npy") if (m := PAIR.match(name))}
    if len(sizes) > 1:
        raise FileFormatError(
            f"{place.display_name} holds {len(sizes)} mappings",
            expected=f"one of d2t{{{','.join(sorted(sizes))}}}.npy",
            hint="name the file",
        )
    return next(iter(sizes), "")
