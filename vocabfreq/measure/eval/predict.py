"""What a size should do to acceptance, told from the run of the unpruned drafter alone.

If drafts end at the first id outside the kept ones, a step accepts what comes before it. Measured
acceptance may be a little higher: where the full head would draft an id that is not kept, and be
rejected, the pruned head drafts its next best, which may be right.
"""

from dataclasses import dataclass
from math import hypot

import numpy as np
import numpy.typing as npt

from vocabfreq.frequencies.draft_vocab import DraftVocab

Steps = list[tuple[list[int], int]]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """Mean acceptance length that was to be expected, beside what was measured.

    Attributes:
        length: predicted, tokens per target step.
        two_errors: two standard errors of measured minus predicted, taken as independent.
        off: whether they are further apart than that.
    """

    length: float
    two_errors: float
    off: bool


def predict(full: Steps, measured: Steps, vocab: DraftVocab) -> Prediction:
    """Compares.

    Args:
        full: steps of the unpruned drafter, drafted target ids and how many were accepted.
        measured: the same of the drafter pruned to `vocab`.
        vocab: the kept ids.
    """
    expected = np.array([kept_of(step, vocab.t2d) for step in full], float)
    found = np.array([accepted for _, accepted in measured], float)
    both = 2 * hypot(standard_error(expected), standard_error(found))
    return Prediction(1 + expected.mean(), both, bool(abs(expected.mean() - found.mean()) > both))


def kept_of(step: tuple[list[int], int], kept: npt.NDArray[np.bool_]) -> int:
    """How many of the accepted ids come before the first that is not kept."""
    drafted, accepted = step
    outside = (n for n, i in enumerate(drafted) if i >= len(kept) or not kept[i])
    return min(accepted, next(outside, len(drafted)))


def standard_error(values: Numbers) -> float:
    """Of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
