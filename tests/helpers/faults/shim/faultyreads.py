"""Makes reading a file of the corpus fail: $FAULTS_READ says how, $FAULTS_READ_NAME which file.

From the $FAULTS_READ_AT-th time on that the file is opened, over all processes of a build:
`eio` fails in the middle, `truncate`, `overwrite` and `replace` change the file (once) when half
of it is read, `kill` kills the process as it opens it, `hold` stops it with Python's lock held.
"""

import builtins
import ctypes
import errno
import io
import os
from collections.abc import Callable
from typing import Any

HOW = os.environ.get("FAULTS_READ", "")
NAME = os.environ.get("FAULTS_READ_NAME", "")
AT = int(os.environ.get("FAULTS_READ_AT", "0"))


def install(note: Callable[[str, str], int], strike: Any, root: str, log: str) -> None:
    """Puts itself in the place of `open`, for files to be read under `root`/data."""
    plain = builtins.open

    def faulty(file: Any, mode: str = "r", *args: Any, **named: Any) -> Any:
        path = os.path.abspath(file) if isinstance(file, str | os.PathLike) else ""
        if mode != "rb" or not path.startswith(f"{root}/data/"):
            return plain(file, mode, *args, **named)
        number = note(f"{log}.open.{os.path.basename(path)}", str(os.getpid()))
        if not HOW or os.path.basename(path) != NAME or number < AT:
            return plain(file, mode, *args, **named)
        if HOW == "kill":
            strike("self")
        note(f"{log}.struck", str(os.getpid()))
        if HOW == "hold":
            ctypes.PyDLL(None).sleep(60)
        return io.BufferedReader(_Faulty(path))

    builtins.open = faulty


class _Faulty(io.FileIO):
    """Hands out one half of the file, then does it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.half, self.done = max(os.path.getsize(path) // 2, 1), False

    def readinto(self, buffer: Any) -> int:
        if self.tell() + len(buffer) <= self.half or self.done:
            return super().readinto(buffer) or 0
        if self.tell() < self.half:
            return super().readinto(memoryview(buffer)[: self.half - self.tell()]) or 0
        self._fail()
        return super().readinto(buffer) or 0

    def read(self, size: int | None = -1) -> bytes:
        wanted = os.fstat(self.fileno()).st_size - self.tell()
        buffer = bytearray(wanted if size is None or size < 0 else size)
        return bytes(buffer[: self.readinto(buffer)])

    def readall(self) -> bytes:
        return b"".join(iter(self.read, b""))

    def _fail(self) -> None:
        if HOW == "eio":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.done, path = True, str(self.name)
        size = os.path.getsize(path)
        if HOW == "truncate":
            os.truncate(path, size // 4)
            return
        other = bytes(size)
        handle = os.open(f"{path}.new" if HOW == "replace" else path, os.O_WRONLY | os.O_CREAT)
        os.write(handle, other)
        os.close(handle)
        if HOW == "replace":
            os.rename(f"{path}.new", path)
