"""Makes a process fail at a chosen step; Python imports this at start when PYTHONPATH names us.

Only files under $FAULTS_ROOT count. Every step that writes appends a record of fixed length to
$FAULTS_LOG, so that the length of that file numbers the steps of all processes of a build. At step
$FAULTS_AT, $FAULTS_WHEN `before`, `after` or `torn` (half of a write), it kills $FAULTS_WHO (`self`
or `group`), or with $FAULTS_ERRNO raises that error, then and ever after. `faultyreads.py` does the
same to reads. Vocabfreq knows nothing of all this.
"""

import importlib
import io
import os
import signal
import tempfile
from collections.abc import Callable
from typing import Any

RECORD = 120
ROOT = os.environ.get("FAULTS_ROOT", "")
LOG = os.environ.get("FAULTS_LOG", "")
AT = int(os.environ.get("FAULTS_AT", "0"))
WHEN = os.environ.get("FAULTS_WHEN", "before")
WHO = os.environ.get("FAULTS_WHO", "group")
ERRNO = int(os.environ.get("FAULTS_ERRNO", "0"))
FULL = ("mkdir", "mkstemp", "write", "fsync")  # what needs room on a disk

_mkstemp, _fdopen, _fsync = tempfile.mkstemp, os.fdopen, os.fsync
_temporary: dict[int, str] = {}


def note(log: str, text: str) -> int:
    """Appends a record; which one it is, from 1."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, text.encode()[: RECORD - 1].ljust(RECORD - 1) + b"\n")
        return os.lseek(handle, 0, os.SEEK_CUR) // RECORD
    finally:
        os.close(handle)


def strike(who: str) -> None:
    """Kills this process, or the build with all its processes."""
    note(f"{LOG}.struck", str(os.getpid()))
    if who == "group":
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def step(kind: str, path: Any, action: Callable[[], Any], half: Any = None) -> Any:
    """Does one step, or fails at it."""
    path = os.fsdecode(path)
    there_already = kind == "mkdir" and os.path.isdir(path)
    if there_already or not os.path.abspath(path).startswith(ROOT):
        return action()
    number = note(LOG, f"{kind}\t{os.getpid()}\t{os.path.relpath(path, ROOT)}")
    if AT and ERRNO and number >= AT and kind in FULL:
        note(f"{LOG}.struck", str(os.getpid()))
        raise OSError(ERRNO, os.strerror(ERRNO))
    if number != AT or ERRNO:
        return action()
    if WHEN != "before":
        result = action() if half is None or WHEN == "after" else half()
        strike(WHO)
        return result
    return strike(WHO)


class _Raw(io.FileIO):
    def write(self, data: Any) -> int:
        name = _temporary[self.fileno()]
        return int(step("write", name, lambda: self._put(data), lambda: self._put(data, 2)))

    def _put(self, data: Any, part: int = 1) -> int:
        return super().write(bytes(data)[: len(data) // part])


def mkstemp(*args: Any, **named: Any) -> tuple[int, str]:
    name = f"{named.get('dir')}/{named.get('prefix')}"
    made: tuple[int, str] = step("mkstemp", name, lambda: _mkstemp(*args, **named))
    _temporary[made[0]] = made[1]
    return made


def fdopen(handle: int, *args: Any, **named: Any) -> Any:
    if handle not in _temporary:
        return _fdopen(handle, *args, **named)
    return io.BufferedWriter(_Raw(handle, "wb"))


def fsync(handle: Any) -> None:
    number = handle if isinstance(handle, int) else handle.fileno()
    path = os.readlink(f"/proc/self/fd/{number}")
    step("sync folder" if os.path.isdir(path) else "fsync", path, lambda: _fsync(number))


def wrapped(name: str, original: Callable[..., Any], position: int = 0) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        return step(name, args[position], lambda: original(*args, **named))

    return call


if ROOT:
    tempfile.mkstemp, os.fdopen, os.fsync = mkstemp, fdopen, fsync  # type: ignore[assignment]
    for _name, _position in (("mkdir", 0), ("chmod", 0), ("replace", 1), ("unlink", 0)):
        setattr(os, _name, wrapped(_name, getattr(os, _name), _position))
    os.rmdir = wrapped("rmdir", os.rmdir)
    importlib.import_module("faultyreads").install(note, strike, ROOT, LOG)
