"""`write`: a vocabulary or counts → the file that a tool expects, read back and compared.

What may be replaced: a file that shows that it is of the format about to be written.

The container counts too: a JSON list is no token map. A bare vector in a `.pt` may be ids, offsets
or counts, so it is never replaced unasked.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, OverwriteError, RefusedError, VocabfreqError, require
from vocabfreq.formats.counts import Counts
from vocabfreq.formats.d2t import NAMES, save_pair
from vocabfreq.formats.json_file import WRITTEN, save_json
from vocabfreq.formats.read_options import Kind, ignore
from vocabfreq.formats.reading import Container, container_of, load_value, read
from vocabfreq.formats.token_map import check_name
from vocabfreq.formats.torch_file import save_plain, save_tensors
from vocabfreq.formats.values import MAPPING, NEMO
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import MAX_ROWS

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable


_BARE: tuple[Kind, ...] = ("vocab-freq", "modelopt")


def check_output(path: Path, kind: Kind, *, force: bool) -> None:
    """Refuses to replace anything that does not show that it is of the same format.

    Raises:
        OverwriteError: something else is in the way.
    """
    if kind == "npy":
        _check_folder(path, force)
    elif path.is_dir():
        raise OverwriteError(f"{path} is a folder", hint="name a file")
    elif path.exists() and not force and not _is(path, kind):
        raise _in_the_way(path, kind)


def _check_folder(path: Path, force: bool) -> None:
    if path.exists() and not path.is_dir():
        raise OverwriteError(f"{path} is a file", expected="a folder for d2t.npy and t2d.npy")
    there = [path / name for name in NAMES if (path / name).exists()]
    if there and not force and not _reads(there[0], "npy"):
        raise _in_the_way(there[0], "npy")


def _in_the_way(path: Path, kind: Kind) -> OverwriteError:
    told = f"nothing in a {kind} file says what it is" if kind in _BARE else f"no {kind} file"
    return OverwriteError(
        f"{path} is in the way, and {told}",
        hint="choose another name, or replace it with --force (force=True)",
    )


def _is(path: Path, kind: Kind) -> bool:
    """Whether a file shows that it is of a format, by its container and by what it holds."""
    return kind not in _BARE and _shows(path, kind) and _reads(path, kind)


def _shows(path: Path, kind: Kind) -> bool:
    if kind not in _PROOFS:  # its metadata says it
        return True
    container, proves = _PROOFS[kind]
    try:
        return container_of(path) == container and proves(load_value(path))
    except (VocabfreqError, OSError):
        return False


def _reads(path: Path, kind: Kind) -> bool:
    rows = MAX_ROWS if kind == "token-map" else None  # it does not say V, so any will do here
    try:
        read(path, kind, rows=rows, force=True, note=ignore)
    except VocabfreqError:
        return False
    return True


def _has_keys(keys: set[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, Mapping) and value.keys() == keys


_PROOFS: Mapping[Kind, tuple[Container, Callable[[Any], bool]]] = {
    "token-map": ("torch", lambda value: isinstance(value, list)),
    "token-freq": ("torch", lambda value: isinstance(value, Mapping) and len(value) > 0),
    "mapping": ("torch", _has_keys(MAPPING)),
    "nemo": ("torch", _has_keys(NEMO)),
    "json": ("json", _has_keys(WRITTEN)),
}


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
COUNT_FORMATS: tuple[Format, ...] = ("token-freq", "vocab-freq")
_KEEP_RANK = ("draft-vocab", "token-map", "json")


def write(
    what: "DraftVocab | Counts | FrequencyTable",
    path: str | Path,
    kind: Format,
    *,
    force: bool = False,
) -> None:
    """Writes a vocabulary, or counts, whole or not at all, and compares what is read back.

    Args:
        what: a `DraftVocab` for the formats of ids, `Counts` or a `FrequencyTable` for those of
            counts (its counts, summed over the sources, without held-out ones).
        path: a file; for `npy` a folder.
        kind: one of `FORMATS`.
        force: replace a file that is in the way even if it is of another format, and take a name
            such as `freq_K.pt` for another number of ids.

    Raises:
        RefusedError: it would lose or invent information, such as counts of a vocabulary.
        OverwriteError: something else is in the way.
        FileFormatError: it cannot be written, or what was read back differs; the file is removed.
        MissingExtraError: the format holds tensors, and torch is not installed.
    """
    if kind not in FORMATS:
        raise FileFormatError(f"format {kind!r}", expected=f"one of {', '.join(FORMATS)}")
    wanted = _counts(what, kind) if kind in COUNT_FORMATS else _vocab(what, kind)
    path = Path(path)
    if kind == "token-map" and isinstance(wanted, DraftVocab) and not force:
        check_name(path.name, len(wanted))
    check_output(path, kind, force=force)
    try:
        _WRITERS[kind](wanted, path)
        _compare(wanted, path, kind)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be written: {error.strerror or error}") from None


def _vocab(what: Any, kind: Format) -> DraftVocab:
    if isinstance(what, DraftVocab):
        return what
    raise RefusedError(
        f"{what!r} says how often ids occur, not which to keep",
        expected=f"a size, to make a {kind} file of it",
        hint=f"vocabfreq export FILE --size K --format {kind} -o OUT (or select(size=…) in Python)",
    )


def _counts(what: Any, kind: Format) -> Counts:
    if isinstance(what, DraftVocab):
        raise RefusedError(
            f"{what!r} holds no counts, they would be invented",
            expected="a frequency file, or counts of another tool",
            hint="write ids instead: token-map, mapping, npy, …",
        )
    counts = what if isinstance(what, Counts) else _raw_counts(what)
    if kind == "token-freq" and not counts.exact:
        raise RefusedError(
            f"{counts!r} are no counts, they would be invented",
            expected="exact counts",
            hint="write them as vocab-freq",
        )
    if kind == "vocab-freq":
        counts.vector()  # refuses where V is not known
    return counts


def _raw_counts(table: "FrequencyTable") -> Counts:
    """The counts that rank, of ids that can be emitted: whoever selects from them selects as we."""
    if any(source.weight is not None for source in table.sources):
        raise RefusedError(
            f"{table!r} ranks by weights, which counts cannot tell",
            expected="a table that ranks by raw counts",
            hint="export ids with a size instead, or take table.reweighted(None)",
        )
    counts = Counts.from_vector(table.counts.sum(axis=0) * table.emittable)
    return replace(counts, fill=_fill(table))


def _fill(table: "FrequencyTable") -> npt.NDArray[np.int64]:
    """Ids that never occur, if there are holes: who fills up by counting 0, 1, 2 … hits those."""
    if all(stop == table.rows for _, stop in table.tokenizer.absent):
        return np.zeros(0, np.int64)
    return np.flatnonzero(table.emittable & (table.counts.sum(axis=0) == 0))


def _compare(wanted: DraftVocab | Counts, path: Path, kind: Format) -> None:
    """Reads back what was written; removes it if it differs."""
    files = [path / name for name in NAMES] if kind == "npy" else [path]
    try:
        again = read(files[0], kind, rows=wanted.rows, force=True, note=ignore)
        if not _same(wanted, again, kind):
            raise FileFormatError(f"{path} reads back as {again!r}", expected=repr(wanted))
    except VocabfreqError:
        for file in files:
            file.unlink(missing_ok=True)
        raise


def _same(wanted: Any, again: Any, kind: Format) -> bool:
    if kind in _KEEP_RANK and not np.array_equal(wanted.ranked, again.ranked):
        return False
    return bool(wanted == again)


def _token_freq(counts: Counts, path: Path) -> None:
    """Most frequent first, ties to the lower id: who breaks ties by insertion breaks them alike."""
    order = np.lexsort((counts.ids, -counts.values))
    ids, values = counts.ids[order].tolist(), counts.values[order].tolist()
    seen = dict(zip(ids, values, strict=True))
    save_plain(seen | dict.fromkeys(counts.fill.tolist(), 0), path)


def _mapping(vocab: DraftVocab, path: Path) -> None:
    save_tensors({"d2t": _tensor(vocab.d2t), "t2d": _tensor(vocab.t2d)}, path)


def _nemo(vocab: DraftVocab, path: Path) -> None:
    ids = _tensor(vocab.target_ids)
    save_tensors({"selected_token_ids": ids, "target_vocab_size": vocab.rows}, path)


def _tensor(array: Any) -> Any:
    return require("torch", "runtime").from_numpy(np.array(array))


_WRITERS: dict[Format, Callable[[Any, Path], None]] = {
    "draft-vocab": DraftVocab.save,
    "token-map": lambda vocab, path: save_plain(vocab.ranked.tolist(), path),
    "token-freq": _token_freq,
    "vocab-freq": lambda counts, path: save_tensors(_tensor(counts.vector()), path),
    "npy": save_pair,
    "mapping": _mapping,
    "modelopt": lambda vocab, path: save_tensors(_tensor(vocab.d2t), path),
    "nemo": _nemo,
    "json": save_json,
}
