"""`vocabfreq` commands in processes that start at once: forks of one that has imported everything.

A fresh interpreter imports for 0.3 to 0.5 s before it does anything. A fork differs from it in
nothing that a command can see: it has its own process id, streams, folder, environment and, on
demand, session; it runs the `sitecustomize.py` of its PYTHONPATH and ends as an interpreter does.
Variables that Python or OpenBLAS read at their start alone need a fresh interpreter. A command that
forgets an import could be helped by what is loaded here: with VOCABFREQ_COLD set, as in .ci/run for
the wheel, every command has a fresh interpreter.

The test process asks a server over a socket, the server forks a watcher, and the watcher forks the
command, tells its process id and exit code, and reaps it when the test has read the code.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Protocol

MAIN = "from vocabfreq.cli import main; main()"
LOADED = (
    "awkward", "gigatoken", "numpy", "pyarrow.json", "pyarrow.parquet", "rich.table", "safetensors",
    "tokenizers", "vocabfreq.cli.build", "vocabfreq.cli.show",
)  # fmt: skip


class Process(Protocol):
    """What `start` gives: the part of `subprocess.Popen` that tests use."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


def start(
    words: Iterable[object],
    *,
    stdout: IO[bytes] | int = subprocess.DEVNULL,
    stderr: IO[bytes] | int = subprocess.DEVNULL,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
    loaded: tuple[str, ...] = (),
) -> Process:
    """Starts `vocabfreq` with these words.

    Args:
        words: of the command line.
        stdout: a file, a descriptor or DEVNULL, as the other streams.
        stderr: the same.
        stdin: the same.
        cwd: where it runs.
        env: all of its variables.
        start_new_session: in a session, and group, of its own.
        loaded: modules to be imported beside `LOADED`.
    """
    arguments = [str(word) for word in words]
    environment = dict(os.environ if env is None else env)
    if sys.platform != "linux" or environment.get("VOCABFREQ_COLD"):
        command = [sys.executable, "-c", MAIN, *arguments]
        return subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=environment,
            start_new_session=start_new_session,
        )
    request = {
        "argv": ["-c", *arguments],
        "cwd": str(cwd or Path.cwd()),
        "env": environment,
        "session": start_new_session,
    }
    return _server(loaded).fork(request, (stdin, stdout, stderr))


class _Fork:
    """One process; it stays a zombie until `poll` or `wait` has its exit code, as with Popen."""

    def __init__(self, status: socket.socket) -> None:
        self.status, self.lock = status, threading.Lock()
        self.pid = int(self._line())
        self.returncode: int | None = None

    def _line(self) -> bytes:
        line = self.status.recv(64)
        assert line, "the server of warm processes has ended"
        return line

    def wait(self, timeout: float | None = None) -> int:
        with self.lock:
            if self.returncode is None:
                self.status.settimeout(timeout)
                try:
                    self.returncode = int(self._line())
                except (BlockingIOError, TimeoutError):
                    raise subprocess.TimeoutExpired("vocabfreq", timeout or 0) from None
                self.status.settimeout(None)
                self.status.send(b"seen")  # the process may be reaped
                self.status.recv(1)
                self.status.close()
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None


class _Server:
    """The process that is forked."""

    def __init__(self, loaded: tuple[str, ...]) -> None:
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno()), *LOADED, *loaded],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
            )
        atexit.register(self.close)

    def fork(self, request: object, streams: Iterable[IO[bytes] | int]) -> _Fork:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            numbers = [_descriptor(stream, null) for stream in streams]
            socket.send_fds(
                self.control, [json.dumps(request).encode()], [theirs.fileno(), *numbers]
            )
        finally:
            theirs.close()
            os.close(null)
        return _Fork(ours)

    def close(self) -> None:
        self.control.close()
        self.process.wait()


def _descriptor(stream: IO[bytes] | int, null: int) -> int:
    if isinstance(stream, int):
        return null if stream == subprocess.DEVNULL else stream
    return stream.fileno()


_servers: dict[tuple[str, ...], _Server] = {}
_starting = threading.Lock()


def _server(loaded: tuple[str, ...]) -> _Server:
    with _starting:
        if loaded not in _servers:
            _servers[loaded] = _Server(loaded)
        return _servers[loaded]


def _serve(control: socket.socket) -> None:
    """Forks for each request; returns in the fork that is to run the command."""
    while True:
        data, numbers, _, _ = socket.recv_fds(control, 1 << 18, 4)
        _reap()
        if not data:
            os._exit(0)
        if os.fork() == 0:
            control.close()
            _follow(json.loads(data), *numbers)
            return
        for number in numbers:
            os.close(number)


def _reap() -> None:
    """Lets those that have ended go, so that their processor time counts."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _follow(request: dict[str, Any], status_number: int, *streams: int) -> None:
    """Forks once more: this one tells how the other ends, the other returns as the command."""
    status = socket.socket(fileno=status_number)
    pid = os.fork()
    if pid == 0:
        status.close()
        _become(streams, **request)
        return
    for number in streams:
        os.close(number)
    status.send(str(pid).encode())
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert ended is not None
    code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
    with contextlib.suppress(OSError):
        status.send(str(code).encode())
        status.recv(8)
    os.waitpid(pid, 0)
    os._exit(0)


def _become(
    streams: tuple[int, ...], argv: list[str], cwd: str, env: dict[str, str], session: bool
) -> None:
    """Makes this fork what a fresh interpreter would be."""
    if session:
        os.setsid()
    for target, number in enumerate(streams):
        os.dup2(number, target)
        os.close(number)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = argv
    sys.path[:1] = ["", *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    if find_spec("sitecustomize"):
        importlib.import_module("sitecustomize")


if __name__ == "__main__":
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from vocabfreq.cli import main

    main()
