"""How far a run is: an engine tells, its parent hears. Lines on standard output with a mark."""

import sys
import time

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
