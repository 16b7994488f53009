"""Which K is expected to give the most tokens per second, from what was measured elsewhere.

A step costs one forward of the target and N drafted tokens, each of which costs the drafter's body
and its head; it yields the acceptance length. Head times come from `vocabfreq bench --json`, the
rest from `vocabfreq eval --json` or from the user. Between sizes head times are linear in K, and
acceptance is linear in coverage; outside of the measured head times nothing is told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import EvaluationError, SelectionError

STEP, POINTS = 64, 48
FLAT = 0.01
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """What a step costs apart from the head, in seconds, and how many tokens it drafts.

    Attributes:
        target: one forward of the target that verifies.
        body: one drafted token without the head.
        spec_tokens: N.
    """

    target: float
    body: float
    spec_tokens: int


@dataclass(frozen=True)
class Point:
    """One size. Times in seconds; `size` is K, V for the full head."""

    size: int
    coverage: float
    head: float
    acceptance_length: float
    tokens_per_second: float


@dataclass(frozen=True)
class Advice:
    """The curve, its best point, and how flat it is.

    Attributes:
        best: of all points.
        full: the full head.
        flat: least and largest K within 1 % of the best.
        curve: all points by rising K, the full head last.
        costs: that the curve was made with.
    """

    best: Point
    full: Point
    flat: tuple[int, int]
    curve: tuple[Point, ...]
    costs: Costs


def advise(
    coverage: Numbers, heads: Mapping[int, float], lengths: Mapping[int, float], costs: Costs
) -> Advice:
    """Expected tokens per second of one request over K.

    Args:
        coverage: float64 [V + 1], share of tokens covered by the K most frequent ids.
        heads: K → seconds of head product and argmax; V for the full head.
        lengths: K → acceptance length, V among them. Others are interpolated by coverage.
        costs: of the rest of a step.

    Raises:
        EvaluationError: the full head or every pruned one is missing from `heads`, or the full
            head from `lengths`.
    """
    rows = len(coverage) - 1
    if rows not in heads or len(heads) < 2:
        raise EvaluationError(
            f"head times for K = {', '.join(f'{k:,}' for k in sorted(heads)) or 'none'}",
            expected=f"some below V = {rows:,}, and the full head's",
            hint=f"vocabfreq bench --vocab-size {rows} --sizes … --json",
        )
    if rows not in lengths:
        raise EvaluationError("no acceptance length of the full head", expected="one")
    curve = tuple(
        _point(size, coverage, heads, lengths, costs) for size in _sizes(heads, lengths, rows)
    )
    best = max(curve, key=lambda point: point.tokens_per_second)
    near = [p.size for p in curve if p.tokens_per_second >= (1 - FLAT) * best.tokens_per_second]
    return Advice(best, curve[-1], (min(near), max(near)), curve, costs)


def lengths_by_coverage(coverage: Numbers, share: float, spec_tokens: int) -> dict[int, float]:
    """K → acceptance length when a drafted token is accepted with `share` times coverage.

    Raises:
        SelectionError: `share` is not between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise SelectionError(f"acceptance {share}", expected="a share from 0 to 1")
    accepted = (share * coverage)[:, None] ** np.arange(spec_tokens + 1)
    return dict(enumerate(accepted.sum(axis=1).tolist()))


def _sizes(heads: Mapping[int, float], lengths: Mapping[int, float], rows: int) -> list[int]:
    """From the least measured head to the largest pruned one, in multiples of 64, and V."""
    least, most = min(heads), max(size for size in heads if size < rows)
    steps = np.geomspace(least, most, POINTS) / STEP
    grid = {int(size) for size in np.round(steps) * STEP}
    named = {size for size in lengths if len(lengths) < POINTS}
    return [*sorted(k for k in grid | set(heads) | named if least <= k <= most), rows]


def _point(
    size: int,
    coverage: Numbers,
    heads: Mapping[int, float],
    lengths: Mapping[int, float],
    costs: Costs,
) -> Point:
    head = _between(size, sorted(heads.items()))
    by_coverage = sorted((float(coverage[k]), length) for k, length in lengths.items())
    length = lengths.get(size) or _between(float(coverage[size]), by_coverage)
    seconds = costs.target + costs.spec_tokens * (costs.body + head)
    return Point(size, float(coverage[size]), head, length, length / seconds)


def _between(place: float, known: list[tuple[Any, float]]) -> float:
    xs, ys = zip(*known, strict=True)
    return float(np.interp(place, xs, ys))
