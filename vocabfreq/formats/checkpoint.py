"""`d2t` and `t2d` inside an EAGLE-3 drafter: a folder or a safetensors file, V from config.json.

Only these two small tensors are read; the weights stay where they are.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.arrays import Array
from vocabfreq.formats.d2t import note_order, vocab_from_map
from vocabfreq.formats.read_options import MAX_ROWS, How, short
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.places import Place

INDEX = "model.safetensors.index.json"
MAX_JSON = 64 << 20
_DTYPES = {"d2t": ("I64", "I32", "I16", "I8", "U8"), "t2d": ("BOOL",)}


def load_checkpoint(place: Place, how: How) -> DraftVocab:
    """Reads which ids a pruned drafter keeps.

    Raises:
        FileFormatError: it keeps all, or says so in a way that does not hold together.
    """
    config = _json(place, "config.json")
    found = {name: _tensor(_holder(place, name), name) for name in _DTYPES}
    if found["d2t"] is None:
        raise FileFormatError(
            f"{place.called} has no tensor d2t",
            expected="a pruned EAGLE-3 drafter",
            hint="vocabfreq prune makes one",
        )
    rows = how.rows if how.rows is not None else _rows(config)
    vocab = vocab_from_map(found["d2t"], found["t2d"], place.called, how, rows)
    _check_size(config, len(vocab), place.called)
    note_order(vocab, place.called, how)
    return vocab


def _rows(config: dict[str, Any]) -> Any:
    inner = (config.get(name) for name in ("text_config", "transformer_layer_config"))
    places = [config, *(place for place in inner if isinstance(place, dict))]
    return next((place["vocab_size"] for place in places if "vocab_size" in place), None)


def _check_size(config: dict[str, Any], size: int, name: str) -> None:
    said = config.get("draft_vocab_size", size)
    if said != size:
        raise FileFormatError(
            f"{name}: d2t has {size} entries, config.json says draft_vocab_size {short(said)}",
            expected="one number",
            hint="vocabfreq check says what engines make of it",
        )


def _holder(place: Place, tensor: str) -> Path:
    """The file that has a tensor, as far as the index says so."""
    if place.name is not None:
        return place.path
    weights = _json(place, INDEX).get("weight_map")
    weights = weights if isinstance(weights, dict) else {}
    name = weights.get(_named(weights, tensor, place.called))
    names = place.names("*.safetensors")
    if name is None:
        name = names[0] if len(names) == 1 else "model.safetensors"
    if not isinstance(name, str) or Path(name).name != name:
        raise FileFormatError(
            f"{place.called}: {INDEX} names {short(name)}", expected="a file in it"
        )
    path = place.beside(name)
    if path is None:
        raise FileFormatError(
            f"{place.called} has no {name}", expected="a drafter folder with safetensors"
        )
    return path


def _named(names: Iterable[str], tensor: str, where: str) -> str | None:
    """The full name of a tensor, which may stand behind a prefix such as `model.`."""
    found = [name for name in names if name.rpartition(".")[2] == tensor]
    if len(found) > 1 and tensor not in found:
        raise FileFormatError(
            f"{where} has {len(found)} tensors {tensor}: {short(found)}", expected="one"
        )
    return tensor if tensor in found else next(iter(found), None)


def _json(place: Place, name: str) -> dict[str, Any]:
    path = place.beside(name)
    if path is None:
        return {}
    if path.stat().st_size > MAX_JSON:
        raise FileFormatError(f"{place.called}: {name} has {path.stat().st_size:,} bytes")
    try:
        loaded = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{place.called}: {name} is not JSON: {error}") from None
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
