"""Full disks: at every step that needs room, and for real on a small tmpfs."""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.kills import each
from faults.processes import Result
from faults.scene import Row, Scene

NEED_ROOM = ("mkdir", "mkstemp", "write", "fsync")  # as in the shim
FULL = os.strerror(errno.ENOSPC)


def full_at(scene: Scene, step: int, workers: int = 0) -> Row:
    """A disk that is full from a step on, until there is room again."""
    attempt = scene.attempt()
    done = attempt.build({"at": step, "errno": errno.ENOSPC}, workers)
    row = Row(tried=1, struck=attempt.struck(), children=done.children)
    _told(row, done, attempt.folder)
    row.expect(not list(attempt.folder.rglob(".*.tmp")), "a temporary file stayed")
    return attempt.go_on(row, workers)


def _told(row: Row, done: Result, folder: Path) -> None:
    told = done.errors
    right = done.code == 1 and FULL in told and str(folder) in told
    row.expect(right and "Traceback" not in told, f"a full disk gave {done.code}: {told[-500:]}")


def need_room(scene: Scene) -> list[int]:
    """Steps that fail on a full disk."""
    return [n for n, (kind, _) in enumerate(scene.steps, 1) if kind in NEED_ROOM]


def full_steps(scene: Scene, steps: Iterable[int], workers: int = 0) -> Row:
    """A disk that is full from each of these steps on."""
    return each(full_at, [(scene, step, workers) for step in steps])


def can_mount() -> bool:
    """Whether this process may mount a disk."""
    try:
        with tempfile.TemporaryDirectory() as folder, small_disk(Path(folder) / "disk", "4k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A tmpfs of so many bytes at `folder`."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def small(scene: Scene, what: str, size: str, workers: int = 0) -> Row:
    """The work directory, or the output, on a disk of a few KB that is then made larger."""
    attempt = scene.attempt()
    disk = scene.folder / f"small-{attempt.folder.name}"
    with small_disk(disk, size):
        if what == "work dir":
            attempt.extra = ["--work-dir", str(disk / "parts")]
        else:
            attempt.output = disk / "out"
            attempt.extra = ["--work-dir", str(attempt.folder / "parts")]
        done = attempt.build(workers=workers)
        row = Row(tried=1, struck=int(FULL in done.errors), children=done.children)
        _told(row, done, disk)
        subprocess.run(["mount", "-o", "remount,size=1m", str(disk)], check=True)
        row = attempt.go_on(row, workers)
        row.litter += len(list(disk.rglob(".*.tmp")))
        return row
