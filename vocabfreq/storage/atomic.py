"""Files that are there whole or not at all."""

import contextlib
import glob
import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Writes to a temporary name beside `path`, syncs, and renames.

    Raises:
        OSError: it cannot be written; `path` is as it was, and the error names it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_rename(path, data)
    except OSError as error:
        error.filename = str(path)  # not the temporary name; errors of `write` name nothing
        error.filename2 = None
        raise
    _sync_folder(path.parent)


def remove_leftovers(folder: Path, name: str, *, older_than: float | None = None) -> None:
    """Removes temporary files that a killed process left of `write_atomically`.

    Args:
        folder: where to look.
        name: what was to be written there, as a glob pattern.
        older_than: leave those alone that were written to after this time.
    """
    for path in folder.glob(f".{name}.{'[a-z0-9_]' * 8}.tmp"):
        with contextlib.suppress(OSError):
            if older_than is None or path.stat().st_mtime < older_than:
                path.unlink()


def remove_leftovers_of(path: Path, *, older_than: float) -> None:
    """The same for one file."""
    remove_leftovers(path.parent, glob.escape(path.name), older_than=older_than)


def _write_and_rename(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Makes the rename itself durable, where folders can be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
