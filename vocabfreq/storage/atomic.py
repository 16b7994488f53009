"""Writes files and folders that appear complete or not at all.

The content goes to a temporary name in the same folder (`.NAME.xxxxxxxx.tmp`), which is renamed
once everything is written. A killed process leaves its temporary file; `remove_leftovers` finds it.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from vocabfreq.errors import OverwriteError, VocabfreqError

_SUFFIX = ".tmp"


def write_atomically(path: Path, data: bytes) -> None:
    """Writes `data` to a new or an existing file.

    Raises:
        OSError: it cannot be written; `path` is as it was, and the error names it.
    """
    try:
        with open_atomically(path) as file:
            file.write(data)
    except OSError as error:
        error.filename = str(path)  # not the temporary name; errors of `write` have no name
        error.filename2 = None
        raise


@contextlib.contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which is synced and becomes `path` if the block ends without an error.

    Raises:
        OSError: it cannot be written; `path` is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(path.parent)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A temporary folder, which becomes `path` if the block ends without an error.

    A folder that is already at `path` is replaced.

    Raises:
        VocabfreqError: the operating system reports an error, such as a full disk; `path` is as it
            was.
        OverwriteError: a file is in the way.
    """
    check_no_file(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=_SUFFIX))
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        _replace_folder(temporary, path)
    except OSError as error:
        raise VocabfreqError(f"making {path} failed: {error}", hint="nothing was kept") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_no_file(path: Path) -> None:
    """Refuses a file where a folder shall be.

    Raises:
        OverwriteError: `path` exists and is no folder.
    """
    if path.exists() and not path.is_dir():
        raise OverwriteError(
            f"{path} is a file", expected="a folder to be made", hint="choose another name"
        )


def remove_leftovers(folder: Path, name: str, *, older_than: float | None = None) -> None:
    """Removes temporary files that killed processes left.

    Args:
        folder: where to look.
        name: name of the file that was to be written, as a glob pattern.
        older_than: keep files modified after this time (seconds since the epoch).
    """
    for path in folder.glob(f".{name}.{'[a-z0-9_]' * 8}{_SUFFIX}"):
        with contextlib.suppress(OSError):
            if older_than is None or path.stat().st_mtime < older_than:
                path.unlink()


def _replace_folder(new: Path, path: Path) -> None:
    if not path.exists() or not any(path.iterdir()):
        new.replace(path)
        return
    old = new.with_name(new.name + ".old")
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Makes a rename durable, where the system can open folders."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
