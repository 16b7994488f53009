"""Compares two frequency tables of one tokenizer."""

from dataclasses import dataclass

import numpy as np

from vocabfreq.frequencies.merging import check_same_tokenizer
from vocabfreq.frequencies.table import FrequencyTable


@dataclass(frozen=True)
class Overlap:
    """How the K most frequent ids of two tables A and B overlap.

    Attributes:
        size: K.
        shared: number of ids that are in both and were counted in both.
        a_covers_b: share of B's tokens that A's K ids cover.
        b_covers_b: the same by B's own K ids.
        b_covers_a: share of A's tokens that B's K ids cover.
        a_covers_a: the same by A's own K ids.
    """

    size: int
    shared: int
    a_covers_b: float
    b_covers_b: float
    b_covers_a: float
    a_covers_a: float


@dataclass(frozen=True)
class Difference:
    """An id whose share of the tokens differs between two tables.

    Attributes:
        id: the target id.
        share_a: its share of A's tokens.
        share_b: its share of B's tokens.
    """

    id: int
    share_a: float
    share_b: float


def overlap(a: FrequencyTable, b: FrequencyTable, size: int) -> Overlap:
    """Compares the `size` most frequent ids.

    Raises:
        MismatchError: the tokenizers differ.
        SelectionError: `size` is not between 0 and V.
    """
    check_same_tokenizer(a.meta, b.meta)
    a_covers_a = a.coverage(size)  # checks the size
    top_a, top_b = a.ranked_ids[:size], b.ranked_ids[:size]
    seen_a, seen_b = (top[t.shares()[top] > 0] for t, top in ((a, top_a), (b, top_b)))
    return Overlap(
        size,
        len(np.intersect1d(seen_a, seen_b)),
        a_covers_b=b.coverage_of(top_a),
        b_covers_b=b.coverage_of(top_b),
        b_covers_a=a.coverage_of(top_b),
        a_covers_a=a_covers_a,
    )


def differences(a: FrequencyTable, b: FrequencyTable, number: int) -> list[Difference]:
    """The ids whose shares differ most, largest difference first, ties to the lower id.

    Raises:
        MismatchError: the tokenizers differ.
    """
    check_same_tokenizer(a.meta, b.meta)
    shares_a, shares_b = a.shares(), b.shares()
    order = np.lexsort((np.arange(a.rows), -np.abs(shares_a - shares_b)))[:number]
    return [Difference(int(i), float(shares_a[i]), float(shares_b[i])) for i in order]
