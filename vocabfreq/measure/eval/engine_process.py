"""One run in a process of its own: the side of the parent, and the process itself.

    python -m vocabfreq.measure.eval.engine_process SPEC.json RESULT.json

The process reports progress in marked lines on standard output; all else that it prints goes to a
log. Its standard input is a pipe from the parent. When that closes, because the parent was
interrupted or is gone, the process ends, and with it those that an engine has started.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

from vocabfreq.errors import VocabfreqError
from vocabfreq.measure.eval.engines import find_engine
from vocabfreq.measure.eval.plan import RunResult, RunSpec, load, save

COMMAND = (sys.executable, "-m", "vocabfreq.measure.eval.engine_process")
MARK = "vocabfreq-eval: "
INTERVAL = 10.0  # seconds between two reports of `PromptProgress`
Progress = Callable[[str], None]
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception|Exit|Interrupt|Killed)\b")


def run_in_process(
    spec: Path, out: Path, log: Path, progress: Progress, command: Sequence[str] = COMMAND
) -> str | None:
    """Runs a spec in a fresh process, which ends with this call.

    Args:
        spec: file of the spec.
        out: where the result goes.
        log: where everything goes that the process prints.
        progress: called with each report.
        command: of the process; gets the two files as arguments.

    Returns:
        Why it failed; None where the result is there.
    """
    with (
        log.open("w", encoding="utf-8") as log_file,
        subprocess.Popen(
            [*command, str(spec), str(out)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log_file,
            start_new_session=True,  # Ctrl-C is the parent's alone
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(MARK):
                progress(line.removeprefix(MARK).rstrip("\n"))
            else:
                log_file.write(line)
                log_file.flush()
        code = process.wait()
    return None if code == 0 and out.exists() else _failure(log, code)


def _failure(log: Path, code: int) -> str:
    """Our own error if the log has one, else the last exception, else the last line.

    What the process printed may be read, and so logged, after its traceback.
    """
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    ours = [n for n, line in enumerate(lines) if line.startswith("error: ")]
    if ours:
        return "; ".join(lines[ours[-1] :]).removeprefix("error: ")
    status = f"ended by signal {-code}" if code < 0 else f"exit code {code}"
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    last = f": {(exceptions or lines)[-1].strip()[:200]}" if lines else ""
    return f"{status}{last} (full log: {log})"


def report(text: str) -> None:
    """Reports progress to the parent."""
    sys.stdout.write(f"{MARK}{text}\n")
    sys.stdout.flush()


class PromptProgress:
    """Reports how many prompts are done, at most every ten seconds, to keep logs short."""

    def __init__(self, total: int) -> None:
        """Starts the clock."""
        self._total, self._reported = total, time.monotonic()

    def done(self, prompts: int) -> None:
        """So many prompts are done."""
        now = time.monotonic()
        if now - self._reported >= INTERVAL:
            self._reported = now
            report(f"{prompts} of {self._total} prompts")


def main() -> int:
    """Runs a spec and writes the result, atomically; returns the exit code."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    spec_path, out = map(Path, sys.argv[1:])
    try:
        spec = load(spec_path, RunSpec)
        result: RunResult = import_module(find_engine(spec.engine).module).run(spec)
        save(out, replace(result, ended_at=datetime.now(UTC).isoformat(timespec="seconds")))
    except VocabfreqError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


def _end_with_parent() -> None:
    """Waits for the end of standard input, then ends this process and its children."""
    while os.read(0, 4096):
        pass
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():  # a group of its own
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
