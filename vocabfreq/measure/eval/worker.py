"""One run in a process of its own: `python -m vocabfreq.measure.eval.worker SPEC.json OUT.json`.

With `--with-parent`, standard input is a pipe from the parent, and the process ends with it.
"""

import os
import signal
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from vocabfreq.errors import VocabfreqError
from vocabfreq.measure.eval.engines import runner_of
from vocabfreq.measure.eval.progress import WITH_PARENT
from vocabfreq.measure.eval.spec import RunSpec, load, save


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
