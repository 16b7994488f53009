"""The command line, in a process of its own."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

import warm

AT_START = {"PYTHONHASHSEED"}  # what a fresh interpreter alone reads


def run(
    *arguments: object, cwd: Path | None = None, stdin: bytes | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as installed; standard input is a pipe where `stdin` is given."""
    environment = {**os.environ, "COLUMNS": "120", **env}
    return run_with(environment, arguments, cwd, stdin)


def run_with(
    environment: dict[str, str],
    arguments: Iterable[object],
    cwd: Path | None = None,
    stdin: bytes | None = None,
    loaded: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Runs the command with these variables alone; `loaded` as in `warm.start`."""
    if AT_START & environment.keys():
        command = [sys.executable, "-c", warm.MAIN, *map(str, arguments)]
        done = subprocess.run(
            command, input=stdin, capture_output=True, check=False, cwd=cwd, env=environment
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        feed, source = _piped(stdin)
        process = warm.start(
            arguments,
            stdin=source,
            stdout=out,
            stderr=err,
            cwd=cwd,
            env=environment,
            loaded=loaded,
        )
        if feed:
            os.close(source)
        code = process.wait(120)
        if feed:
            feed.join()
        told = []
        for file in (out, err):
            file.seek(0)
            told.append(file.read().decode())
    return subprocess.CompletedProcess([*map(str, arguments)], code, *told)


def _piped(data: bytes | None) -> tuple[threading.Thread | None, int]:
    """The reading end of a pipe, and the thread that fills it."""
    if data is None:
        return None, subprocess.DEVNULL
    source, sink = os.pipe()

    def feed() -> None:
        try:
            with os.fdopen(sink, "wb") as pipe:
                pipe.write(data)
        except BrokenPipeError:
            pass  # it was not read to its end

    thread = threading.Thread(target=feed)
    thread.start()
    return thread, source
