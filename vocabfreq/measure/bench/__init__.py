"""How fast ids are drafted, beside the ways that others take, on this machine.

>>> from vocabfreq.measure.bench import run, usual
>>> result = run(usual("cpu", hidden_size=512, sizes=(16_384,)))
>>> result.cells[0].timings[0].median_us

Nothing is timed before its ids are checked: on small whole numbers, where every product and sum is
exact, and on the random numbers that are timed. The contenders take turns, so that a machine that
slows down does so for all; a ratio is the median of the ratios of the turns. Needs torch
(`vocabfreq[runtime]`).
"""

from vocabfreq.storage.extras import require

require("torch", "runtime")

from vocabfreq.measure.bench.benchmark import run  # noqa: E402
from vocabfreq.measure.bench.setup import Setup, usual  # noqa: E402
from vocabfreq.measure.bench.timing import Cell, Result, Timing  # noqa: E402 (the hint comes first)

__all__ = ["Cell", "Result", "Setup", "Timing", "run", "usual"]
