"""What may be replaced: a file that shows that it is of the format about to be written.

The container counts too: a JSON list is no token map. A bare vector in a `.pt` may be ids, offsets
or counts, so it is never replaced unasked.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vocabfreq.errors import OverwriteError, VocabfreqError
from vocabfreq.formats.containers import Container, container_of, load_value
from vocabfreq.formats.json_file import WRITTEN
from vocabfreq.formats.npypair import NAMES
from vocabfreq.formats.read_options import MAX_ROWS, Kind, ignore
from vocabfreq.formats.reading import read
from vocabfreq.formats.values import MAPPING, NEMO

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
