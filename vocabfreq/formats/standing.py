"""What may be replaced: a file of the format that is about to be written, nothing else."""

from pathlib import Path

from vocabfreq.errors import OverwriteError, VocabfreqError
from vocabfreq.formats.how import MAX_ROWS, Kind, ignore
from vocabfreq.formats.npypair import NAMES
from vocabfreq.formats.reading import read

_WITHOUT_ROWS = ("token-map", "modelopt")  # they do not say V, so any will do here


def check_output(path: Path, kind: Kind, *, force: bool) -> None:
    """Refuses to replace anything that is not of the same format.

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
    if there and not force and not _is(there[0], "npy"):
        raise _in_the_way(there[0], "npy")


def _in_the_way(path: Path, kind: Kind) -> OverwriteError:
    return OverwriteError(
        f"{path} is in the way, and no {kind} file",
        hint="choose another name, or replace it with --force (force=True)",
    )


def _is(path: Path, kind: Kind) -> bool:
    rows = MAX_ROWS if kind in _WITHOUT_ROWS else None
    try:
        read(path, kind, rows=rows, force=True, note=ignore)
    except VocabfreqError:
        return False
    return True
