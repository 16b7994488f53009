"""A run in a child process: started, listened to, and ended with whoever waits for it."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from vocabfreq.measure.eval.progress import MARK, WITH_PARENT

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
