"""Speed of drafting with a pruned head, next to the implementations of other engines.

>>> from vocabfreq.measure.bench import default_setup, run
>>> result = run(default_setup("cpu", hidden_size=512, sizes=(16_384,)))
>>> result.cells[0].timings[0].median_us

Heads and hidden states are random; no model is needed. No implementation is timed before its ids
are checked, on small whole numbers, where every product and sum is exact, and on the random numbers
that are timed. All implementations are timed in turns, so that a slow phase of the machine affects
each of them; a ratio is the median of the ratios of the turns. Needs torch (`vocabfreq[runtime]`).
"""

from vocabfreq.errors import require

require("torch", "runtime")

from vocabfreq.measure.bench.benchmark import Cell, Result, Timing, run  # noqa: E402 (after the hint)
from vocabfreq.measure.bench.setup import Setup, default_setup  # noqa: E402

__all__ = ["Cell", "Result", "Setup", "Timing", "default_setup", "run"]
