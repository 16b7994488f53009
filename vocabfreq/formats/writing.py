"""`write`: a vocabulary or counts → the file that a tool expects, read back and compared.

A file in the way is replaced only if it shows that it is of the format about to be written, by its
container too: a JSON list is no token map. A bare vector in a `.pt` may be ids, offsets or counts,
so it is replaced only with `force`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError, OverwriteError, RefusedError, VocabfreqError
from vocabfreq.formats.counts import Counts, counts_from_table
from vocabfreq.formats.d2t import NPY_FILES
from vocabfreq.formats.reading import read
from vocabfreq.formats.registry import FILE_FORMATS, FORMATS, Format
from vocabfreq.formats.token_map import check_size_in_name
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import MAX_ROWS
from vocabfreq.frequencies.table import FrequencyTable


def write(
    content: DraftVocab | Counts | FrequencyTable,
    path: str | Path,
    kind: Format,
    *,
    force: bool = False,
) -> None:
    """Writes a vocabulary, or counts, whole or not at all, and compares what is read back.

    Args:
        content: a `DraftVocab` for the formats of ids, `Counts` or a `FrequencyTable` for those of
            counts (its counts, summed over the sources, without held-out ones).
        path: a file; for `npy` a folder.
        kind: one of `FORMATS`.
        force: replace a file that is in the way even if it is of another format, and accept a name
            such as `freq_K.pt` for another number of ids.

    Raises:
        RefusedError: it would lose or invent information, such as counts of a vocabulary.
        OverwriteError: something else is in the way.
        FileFormatError: it cannot be written, or what was read back differs; the file is removed.
        MissingExtraError: the format holds tensors of torch, and torch is not installed.
    """
    if kind not in FORMATS:
        raise FileFormatError(f"format {kind!r}", expected=f"one of {', '.join(FORMATS)}")
    file_format = FILE_FORMATS[kind]
    as_stored = _as_counts if file_format.holds_counts else _as_vocab
    stored = as_stored(content, kind)
    path = Path(path)
    if kind == "token-map" and not force:
        check_size_in_name(path.name, len(stored))
    _check_output(path, kind, force=force)
    assert file_format.save is not None  # the formats that have none are not in FORMATS
    try:
        file_format.save(stored, path)
        _compare(stored, path, kind)
    except OSError as error:
        raise FileFormatError(f"{path} cannot be written: {error.strerror or error}") from None


def _as_vocab(content: Any, kind: Format) -> DraftVocab:
    if isinstance(content, DraftVocab):
        return content
    raise RefusedError(
        f"{content!r} says how often ids occur, not which to keep",
        expected=f"a size, to make a {kind} file of it",
        hint=f"vocabfreq export FILE --size K --format {kind} -o OUT (or select(size=…) in Python)",
    )


def _as_counts(content: Any, kind: Format) -> Counts:
    if isinstance(content, DraftVocab):
        raise RefusedError(
            f"{content!r} holds no counts, they would be invented",
            expected="a frequency file, or counts of another tool",
            hint="write ids instead: token-map, mapping, npy, …",
        )
    counts = content if isinstance(content, Counts) else counts_from_table(content)
    if kind == "token-freq" and not counts.exact:
        raise RefusedError(
            f"{counts!r} are no counts, they would be invented",
            expected="exact counts",
            hint="write them as vocab-freq",
        )
    if kind == "vocab-freq":
        counts.vector()  # raises where V is not known
    return counts


def _check_output(path: Path, kind: Format, *, force: bool) -> None:
    """Refuses to replace a file that does not show that it is of the same format.

    Raises:
        OverwriteError: such a file, or a folder, is in the way.
    """
    if kind == "npy":
        if path.exists() and not path.is_dir():
            raise OverwriteError(f"{path} is a file", expected="a folder for d2t.npy and t2d.npy")
        existing = next((path / name for name in NPY_FILES if (path / name).exists()), None)
    else:
        if path.is_dir():
            raise OverwriteError(f"{path} is a folder", hint="name a file")
        existing = path if path.exists() else None
    if existing is None or force:
        return
    recognize = FILE_FORMATS[kind].recognize
    if recognize is not None and recognize(existing) and _is_readable(existing, kind):
        return
    reason = f"nothing in a {kind} file says what it is" if not recognize else f"no {kind} file"
    raise OverwriteError(
        f"{existing} is in the way, and {reason}",
        hint="choose another name, or replace it with --force (force=True)",
    )


def _is_readable(path: Path, kind: Format) -> bool:
    rows = MAX_ROWS if kind == "token-map" else None  # a list does not state V, so any will do here
    try:
        _read_back(path, kind, rows)
    except VocabfreqError:
        return False
    return True


def _read_back(path: Path, kind: Format, rows: int | None) -> Any:
    return read(path, kind, rows=rows, force=True, note=lambda remark: None)


def _compare(stored: Any, path: Path, kind: Format) -> None:
    """Reads back what was written, and removes it if it differs."""
    files = [path / name for name in NPY_FILES] if kind == "npy" else [path]
    keeps_rank = FILE_FORMATS[kind].keeps_rank
    try:
        found = _read_back(files[0], kind, stored.rows)
        if found != stored or (keeps_rank and not np.array_equal(found.ranked, stored.ranked)):
            raise FileFormatError(f"{path} reads back as {found!r}", expected=repr(stored))
    except VocabfreqError:
        for file in files:
            file.unlink(missing_ok=True)
        raise
