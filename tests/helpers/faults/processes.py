"""Commands in sessions of their own, and what is alive of a session."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import warm


@dataclass(frozen=True)
class Result:
    """How a command ended, and how many of its processes were still alive 2 s later."""

    code: int
    errors: str
    children: int


class Command:
    """A running command; what it tells goes to a file.

    With a pipe, waiting for its end would wait for orphans that hold the pipe, and hide them.
    """

    def __init__(
        self, words: Iterable[object], environment: Mapping[str, str] | None = None
    ) -> None:
        self.told = tempfile.TemporaryFile()  # noqa: SIM115  closed by finish
        self.process = warm.start(
            words,
            stderr=self.told,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )

    @property
    def session(self) -> int:
        """Its process id, and that of its session and group."""
        return self.process.pid

    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def send(self, number: signal.Signals, to_all: bool = False) -> bool:
        """Sends it (or all its group) a signal; False when it has ended before."""
        if not self.alive():
            return False
        (os.killpg if to_all else os.kill)(self.session, number)
        return True

    def finish(self, seconds: float = 120) -> Result:
        """Waits for it, and ends what it left behind."""
        try:
            code = self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = 999
        children = left_behind(self.session)
        for pid in members(self.session):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        with self.told:
            self.told.seek(0)
            return Result(code, self.told.read().decode(), children)


def left_behind(session: int, seconds: float = 2) -> int:
    """How many processes of a session are alive after so many seconds at most."""
    deadline = time.monotonic() + seconds
    while (alive := members(session)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(alive)


def members(session: int) -> list[int]:
    """Living processes of a session."""
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if _belongs(p, session)]


def workers(session: int) -> list[int]:
    """Those that are workers of ours."""
    return [pid for pid in members(session) if is_worker(pid)]


def _belongs(process: Path, session: int) -> bool:
    fields = _stat(process)
    return bool(fields) and fields[0] not in "ZX" and int(fields[3]) == session


def _stat(process: Path) -> list[str]:
    try:
        return (process / "stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []


def is_worker(pid: int) -> bool:
    """Whether it is (still) a worker of ours."""
    try:
        return b"vocabfreq.counting.workers" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def processor_seconds(pid: int) -> float:
    """User time that a process has had."""
    fields = _stat(Path(f"/proc/{pid}"))
    return int(fields[11]) / os.sysconf("SC_CLK_TCK") if fields else 0.0
