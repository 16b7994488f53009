"""`d2t` and `t2d`, the EAGLE-3 encoding: offsets int64 [K] and mask bool [V] → `DraftVocab`.

`vocab_from_d2t` is the one place where offsets from a file become ids; `DraftVocab` computes with
both encodings, and here they are only compared. The readers below find them in

- a dict `{"d2t", "t2d"}` in a `.pt` (SpecForge, AngelSlim, EAGLE)
- a bare tensor of offsets in a `.pt` (Model-Optimizer)
- `d2t.npy` and `t2d.npy`, or `d2t-K.npy` and `t2d-K.npy`, in a folder (speculators)
- the tensors `d2t` and `t2d` in an EAGLE-3 drafter; weights are not read
"""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.formats.containers import (
    Array,
    as_array,
    is_array,
    load_json_object,
    load_npy,
    to_vector,
)
from vocabfreq.formats.read_options import ReadOptions, prefix_errors
from vocabfreq.formats.safetensors_file import (
    INDEX,
    MAX_JSON,
    SINGLE,
    find_name,
    read_array,
    read_header,
    read_index,
)
from vocabfreq.formats.token_map import check_size_in_name, require_keys
from vocabfreq.formats.torch_file import save_tensors
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import MAX_ROWS
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.resolve import Location

MAPPING_KEYS = {"d2t", "t2d"}
NPY_NAME = re.compile(r"^(?:d2t|t2d)(?P<size>-\d+)?\.npy$")
NPY_FILES = ("t2d.npy", "d2t.npy")  # in the order of writing: a pair cut short lacks its d2t
_STORED_DTYPES = {"d2t": ("I64", "I32", "I16", "I8", "U8"), "t2d": ("BOOL",)}


def vocab_from_d2t(
    d2t: Any,
    t2d: Any,
    name: str,
    options: ReadOptions,
    rows: int | None = None,
    *,
    is_bare: bool = False,
) -> DraftVocab:
    """A vocabulary from offsets, a mask, or both, which must agree.

    Args:
        d2t: integers [K], offsets, or None.
        t2d: bool [V], or None.
        name: of the file, for messages.
        options: V, and whether offsets that are all zero are accepted.
        rows: V, where the file states it apart from t2d.
        is_bare: whether the file holds d2t alone, so that it can be read as a list of ids too.

    Raises:
        FileFormatError: they do not agree, or break their encoding.
    """
    mask = None if t2d is None else _vocab_from_mask(t2d, name)
    if mask is not None and rows not in (None, mask.rows, options.rows):
        raise FileFormatError(
            f"{name}: t2d has {mask.rows} entries, the config says {rows} rows",
            hint=f"if t2d is right, pass --rows {mask.rows} (rows={mask.rows})",
        )
    rows = options.resolve_rows(name, rows if mask is None else mask.rows)
    if d2t is None:
        if mask is None:
            raise FileFormatError(f"{name} has neither d2t nor t2d")
        return mask
    offsets = as_array(d2t, f"{name}: d2t")
    # Zeros that a mask confirms are the first ids, not a map that was never loaded.
    with prefix_errors(f"{name}: d2t", lambda: _ids_hint(offsets, mask, rows, is_bare=is_bare)):
        vocab = DraftVocab.from_d2t(offsets, rows=rows, force=options.force or mask is not None)
    if mask is not None and mask.fingerprint != vocab.fingerprint:
        raise _disagreement(vocab, mask, offsets, name)
    return vocab


def _vocab_from_mask(t2d: Any, name: str) -> DraftVocab:
    array = as_array(t2d, f"{name}: t2d")
    with prefix_errors(f"{name}: t2d"):
        return DraftVocab.from_t2d(array)


def _disagreement(
    vocab: DraftVocab, mask: DraftVocab, offsets: Array, name: str
) -> FileFormatError:
    differing = int(np.flatnonzero(vocab.t2d != mask.t2d)[0])
    side, other = ("d2t", "t2d") if vocab.t2d[differing] else ("t2d", "d2t")
    zeros = "; all offsets are 0" if not offsets.any() else ""
    return FileFormatError(
        f"{name}: d2t keeps {len(vocab)} ids, t2d {len(mask)}; id {differing} is in {side} and not "
        f"in {other}{zeros}",
        expected="the same ids in both",
        hint=_ids_hint(offsets, mask, mask.rows, is_bare=False),
    )


def _ids_hint(offsets: Array, mask: DraftVocab | None, rows: int, *, is_bare: bool) -> str:
    """A hint for offsets that would be a vocabulary if they were target ids."""
    try:
        vocab = DraftVocab.from_ids(offsets, rows=rows)
    except FileFormatError:
        return ""
    if mask is None and is_bare:
        return "read as target ids it makes sense: --kind token-map (kind='token-map')"
    if mask is None:
        return "d2t may hold target ids where offsets belong: as ids it makes sense"
    if mask.fingerprint != vocab.fingerprint:
        return ""
    return "d2t holds target ids where offsets belong: as ids it agrees with t2d"


def _note_row_order(vocab: DraftVocab, name: str, options: ReadOptions) -> DraftVocab:
    """Adds a remark when the rows of a drafter are not in the order of the vocabulary."""
    if not np.array_equal(vocab.ranked, vocab.target_ids):
        options.note(
            f"{name}: d2t is not ascending, so the rows of the head trained with it are in another "
            "order than those of this vocabulary; tools that slice rows by t2d get wrong ones"
        )
    return vocab


def vocab_from_mapping(value: Any, name: str, options: ReadOptions) -> DraftVocab:
    """A vocabulary from `{"d2t", "t2d"}`, of which t2d may be missing, or from a mask alone."""
    if is_array(value):
        return vocab_from_d2t(None, value, name, options)
    mapping = require_keys(value, {"d2t"}, name)
    vocab = vocab_from_d2t(mapping["d2t"], mapping.get("t2d"), name, options)
    return _note_row_order(vocab, name, options)


def save_mapping(vocab: DraftVocab, path: Path) -> None:
    """Writes `{"d2t", "t2d"}` as tensors of torch."""
    save_tensors({"d2t": vocab.d2t, "t2d": vocab.t2d}, path)


def vocab_from_offsets(value: Any, name: str, options: ReadOptions) -> DraftVocab:
    """A vocabulary from offsets alone, in any order: Model-Optimizer's `d2t.pt`."""
    offsets = to_vector(value, name)
    vocab = vocab_from_d2t(offsets, None, name, options, is_bare=True)
    return _note_row_order(vocab, name, options)


def save_offsets(vocab: DraftVocab, path: Path) -> None:
    """Writes d2t as a bare tensor of torch."""
    save_tensors(vocab.d2t, path)


def load_npy_pair(location: Location, options: ReadOptions) -> DraftVocab:
    """Reads a pair of `.npy` files, given as either file or as their folder; one alone may do.

    Raises:
        FileFormatError: there is none, there are several, or they do not agree.
    """
    size = _npy_size(location)
    paths = [location.sibling(f"{name}{size}.npy") for name in ("d2t", "t2d")]
    if not any(paths):
        raise FileFormatError(
            f"{location.display_name} has no d2t.npy", expected="d2t.npy and t2d.npy"
        )
    d2t, t2d = (path and load_npy(path) for path in paths)
    vocab = vocab_from_d2t(
        d2t, t2d, location.display_name, options, is_bare=location.name is not None
    )
    if not options.force:
        check_size_in_name(f"d2t{size}.npy", len(vocab))
    return _note_row_order(vocab, location.display_name, options)


def has_npy_pair(location: Location) -> bool:
    """Whether a local folder holds `d2t.npy`, `t2d.npy` or one with K in its name."""
    return any(NPY_NAME.match(name) for name in location.glob("*.npy"))


def save_npy_pair(vocab: DraftVocab, folder: Path) -> None:
    """Writes `t2d.npy` and `d2t.npy` into a folder."""
    for name, array in zip(NPY_FILES, (vocab.t2d, vocab.d2t), strict=True):
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_atomically(folder / name, buffer.getvalue())


def _npy_size(location: Location) -> str:
    """The `-K` in the names of the pair, or nothing."""
    if location.name is not None:
        match = NPY_NAME.match(location.display_name)
        if match is None:
            raise FileFormatError(
                f"{location.display_name!r}",
                expected="d2t.npy, t2d.npy, d2t-K.npy, t2d-K.npy or their folder",
                hint="for another array state its kind: --kind token-map, modelopt or vocab-freq",
            )
        return match["size"] or ""
    sizes = {m["size"] or "" for name in location.glob("*.npy") if (m := NPY_NAME.match(name))}
    if len(sizes) > 1:
        raise FileFormatError(
            f"{location.display_name} holds {len(sizes)} mappings",
            expected=f"one of d2t{{{','.join(sorted(sizes))}}}.npy",
            hint="name the file",
        )
    return next(iter(sizes), "")


def load_checkpoint(location: Location, options: ReadOptions) -> DraftVocab:
    """Reads d2t and t2d of an EAGLE-3 drafter, a folder, repo or safetensors file.

    V is that of config.json (`vocab_size`, also in a nested config), where the caller gives none.

    Raises:
        FileFormatError: it has no d2t, or d2t, t2d and config.json do not agree.
    """
    path = location.sibling("config.json")
    config = {} if path is None else load_json_object(path, MAX_JSON)
    index = location.sibling(INDEX) if location.name is None else None
    weight_map = {} if index is None else read_index(index)
    d2t, t2d = (_read_stored(_file_with(location, weight_map, n), n) for n in ("d2t", "t2d"))
    if d2t is None:
        raise FileFormatError(
            f"{location.display_name} has no tensor d2t",
            expected="a pruned EAGLE-3 drafter",
            hint="vocabfreq prune makes one",
        )
    rows = options.rows if options.rows is not None else _vocab_size(config)
    vocab = vocab_from_d2t(d2t, t2d, location.display_name, options, rows)
    stated = config.get("draft_vocab_size", len(vocab))
    if stated != len(vocab):
        raise FileFormatError(
            f"{location.display_name}: d2t has {len(vocab)} entries, "
            f"config.json says draft_vocab_size {short_repr(stated)}",
            expected="one number",
            hint="vocabfreq check says what engines do with it",
        )
    return _note_row_order(vocab, location.display_name, options)


def _vocab_size(config: dict[str, Any]) -> Any:
    nested = (config.get(name) for name in ("text_config", "transformer_layer_config"))
    parts = [config, *(part for part in nested if isinstance(part, dict))]
    return next((part["vocab_size"] for part in parts if "vocab_size" in part), None)


def _file_with(location: Location, weight_map: Mapping[str, str], tensor: str) -> Path:
    """The file that has a tensor, as the index says; without one, the only file there is."""
    if location.name is not None:
        return location.path
    full_name = find_name(weight_map, tensor)
    local = location.glob("*.safetensors")
    file = weight_map[full_name] if full_name else local[0] if len(local) == 1 else SINGLE
    path = location.sibling(file)
    if path is None:
        raise FileFormatError(
            f"{location.display_name} has no {file}", expected="a drafter folder with safetensors"
        )
    return path


def _read_stored(path: Path, name: str) -> Array | None:
    """d2t or t2d of a safetensors file, None where it has none."""
    tensors, _ = read_header(path)
    full_name = find_name(tensors, name)
    if full_name is None:
        return None
    info = tensors[full_name]
    dtype, shape = info.dtype, info.shape
    if dtype not in _STORED_DTYPES[name] or len(shape) != 1 or shape[0] > MAX_ROWS:
        raise FileFormatError(
            f"{path.name}: {name} is {dtype} {list(shape)}",
            expected="BOOL [V]" if name == "t2d" else "I64 [K]",
        )
    return read_array(path, info)
