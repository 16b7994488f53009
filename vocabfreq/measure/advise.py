"""Which K is expected to give the most tokens per second, from what was measured elsewhere.

A step costs one forward of the target and N drafted tokens, each of which costs the drafter's body
and its head; it yields the acceptance length. Head times come from `vocabfreq bench --json`, the
rest from `vocabfreq eval --json` or from the user. Between sizes head times are linear in K, and
acceptance is linear in coverage; outside of the measured head times nothing is told.

What `advise` takes from the JSON of `bench` and of `eval`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import EvaluationError, FileFormatError, SelectionError

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


FULL = "full head, argmax"
LARGEST = 1 << 26


class Measured(NamedTuple):
    """Of one number of spec tokens and one batch size of an `eval`.

    Attributes:
        lengths: K → acceptance length; V for the full head.
        step: seconds of the unpruned drafter's step; likewise those of its drafting.
        target: seconds of one forward of the target.
        spec_tokens: N.
    """

    lengths: dict[int, float]
    step: float
    target: float
    spec_tokens: int

    def costs(self, full_head: float) -> Costs:
        """What a step costs beside the head.

        Raises:
            EvaluationError: the head alone is slower than all of the drafting was.
        """
        body = (self.step - self.target) / self.spec_tokens - full_head
        if body < 0:
            drafting = (self.step - self.target) / self.spec_tokens
            raise EvaluationError(
                f"bench says {full_head * 1e3:.3f} ms for the full head, eval "
                f"{drafting * 1e3:.3f} ms for drafting a whole token",
                expected="both from one machine, with one H, dtype and batch size",
            )
        return Costs(self.target, body, self.spec_tokens)


def read_head_times(path: Path, rows: int, batch_size: int) -> dict[int, float]:
    """K → seconds of our greedy sampler, and `rows` → seconds of the full head with argmax.

    Raises:
        FileFormatError: not the JSON of `vocabfreq bench`.
        EvaluationError: it is about another V or has no such batch size.
    """
    told = _read(path, "bench")
    try:
        width, cells = int(told["setup"]["vocab_size"]), list(told["cells"])
        found = [cell for cell in cells if cell["batch_size"] == batch_size]
        times = {rows: min(_seconds(cell, FULL) for cell in found)} if found else {}
        times |= {int(c["size"]): _seconds(c, c["auto"]) for c in found if c["size"] < rows}
    except (KeyError, TypeError, ValueError) as error:
        raise _not_of(path, "bench") from error
    if width != rows or not found:
        batches = sorted({cell["batch_size"] for cell in cells})
        raise EvaluationError(
            f"{str(path)!r} has V = {width:,} and B = {', '.join(map(str, batches))}",
            expected=f"V = {rows:,} of the frequency file, and B = {batch_size}",
        )
    return times


def read_acceptance(path: Path, rows: int, spec_tokens: int, batch_size: int) -> Measured:
    """What an `eval` measured with N spec tokens at one batch size.

    Raises:
        FileFormatError: not the JSON of `vocabfreq eval`.
        EvaluationError: it has no unpruned run of that kind, or one that does not tell its times.
    """
    told = _read(path, "eval")
    try:
        runs = [
            row
            for row in told["rows"]
            if (row["spec_tokens"], row["batch_size"]) == (spec_tokens, batch_size)
            and row["error"] is None
        ]
        lengths = {int(row["size"] or rows): float(row["acceptance_length"]) for row in runs}
        full = next((row for row in runs if row["size"] is None and row["forward_ratio"]), None)
        if full is None or not spec_tokens:
            raise EvaluationError(
                f"{str(path)!r} has no timed run of the full head with N = {spec_tokens}, "
                f"B = {batch_size}",
                expected="one: vocabfreq eval --sizes …,full --json",
            )
        step = lengths[rows] * batch_size / float(full["tokens_per_second"])
        target = step / (1 + float(full["forward_ratio"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise _not_of(path, "eval") from error
    return Measured(lengths, step, target, spec_tokens)


def _seconds(cell: dict[str, Any], contender: str) -> float:
    """Of a contender's greedy step; a replayed graph counts before an eager call."""
    modes = dict(_modes(cell, contender))
    return modes.get("graph") or modes["eager"]


def _modes(cell: dict[str, Any], contender: str) -> Iterator[tuple[str, float]]:
    for one in cell["timings"]:
        if (one["contender"], one["task"]) == (contender, "greedy"):
            yield one["mode"], float(one["median_us"]) / 1e6


def _read(path: Path, verb: str) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise _not_of(path, verb)
        told = json.loads(path.read_bytes())
    except ValueError as error:
        raise _not_of(path, verb) from error
    if not isinstance(told, dict):
        raise _not_of(path, verb)
    return told


def _not_of(path: Path, verb: str) -> FileFormatError:
    return FileFormatError(
        f"{str(path)!r} is not what `vocabfreq {verb} --json` prints",
        expected="its output in a file",
        hint=f"vocabfreq {verb} … --json > {verb}.json",
    )
