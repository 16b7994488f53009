"""A run in a child process: started, listened to, and ended with whoever waits for it.

How far a run is: an engine tells, its parent hears. Lines on standard output with a mark.

One run in a process of its own: `python -m vocabfreq.measure.eval.worker SPEC.json OUT.json`.

With `--with-parent`, standard input is a pipe from the parent, and the process ends with it.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from vocabfreq.errors import VocabfreqError
from vocabfreq.measure.eval.plan import RunSpec, load, runner_of, save

MARK = "vocabfreq-eval: "
WITH_PARENT = "--with-parent"  # tells a worker that its standard input is its parent's pipe
EVERY = 10.0  # seconds


class Progress:
    """Tells how many prompts are done, at most every ten seconds, so that logs stay short."""

    def __init__(self, total: int) -> None:
        """Starts the clock."""
        self._total, self._told = total, time.monotonic()

    def done(self, prompts: int) -> None:
        """So many prompts are done."""
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            tell(f"{prompts} of {self._total} prompts")


def tell(text: str) -> None:
    """Says something to whoever started this process."""
    sys.stdout.write(f"{MARK}{text}\n")
    sys.stdout.flush()


Note = Callable[[str], None]
RAISED = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt|Killed)\b")
WORKER = (sys.executable, "-m", "vocabfreq.measure.eval.worker")


def run_child(spec: Path, out: Path, log: Path, note: Note, worker: Sequence[str]) -> str | None:
    """Runs a spec in a fresh process.

    Args:
        spec: file of the spec.
        out: where the result goes.
        log: where all that the process prints goes.
        note: is told how far it is.
        worker: the command, which gets the two files as arguments.

    Returns:
        What went wrong, in words; None where the result is there.
    """
    command = [*worker, str(spec), str(out), WITH_PARENT]
    with log.open("w", encoding="utf-8") as written:
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            start_new_session=True,  # Ctrl-C is the parent's alone
            encoding="utf-8",
            errors="replace",
        )
        with child, _ended(child):
            assert child.stdout is not None
            _listen(child.stdout, written, note)
            code = child.wait()
    return None if code == 0 and out.exists() else _what_went_wrong(log, code)


def _listen(lines: IO[str], log: IO[str], note: Note) -> None:
    """Progress is told, the rest is logged."""
    for line in lines:
        if line.startswith(MARK):
            note(line.removeprefix(MARK).rstrip("\n"))
        else:
            log.write(line)
            log.flush()


@contextlib.contextmanager
def _ended(child: "subprocess.Popen[str]") -> Iterator[None]:
    """Whatever happens here, the child and its own children do not outlive it."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            _kill(child)
        raise


def _kill(child: "subprocess.Popen[str]") -> None:
    if hasattr(os, "killpg"):
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()


def _what_went_wrong(log: Path, code: int) -> str:
    """Our own error where there is one, else what Python says last of all, else the last line.

    What the child printed may be read, and so logged, after its traceback.
    """
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    ours = [n for n, line in enumerate(lines) if line.startswith("error: ")]
    if ours:
        return "; ".join(lines[ours[-1] :]).removeprefix("error: ")
    ended = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    raised = [line for line in lines if RAISED.match(line)]
    last = f": {(raised or lines)[-1].strip()[:200]}" if lines else ""
    return f"{ended}{last} (all of it: {log})"


def main(arguments: list[str] | None = None) -> int:
    """Runs a spec and writes the result, whole or not at all.

    Returns:
        The exit code.
    """
    given = sys.argv[1:] if arguments is None else arguments
    if WITH_PARENT in given:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    spec, out = (Path(name) for name in given if name != WITH_PARENT)
    try:
        wanted = load(spec, RunSpec)
        result = runner_of(wanted.engine)(wanted)
        save(out, replace(result, ended_at=datetime.now(UTC).isoformat(timespec="seconds")))
    except VocabfreqError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


def _end_with_parent() -> None:
    """Reads until the parent is gone, then ends this process and those that an engine started."""
    while os.read(0, 4096):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():  # a group of our own
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
