"""The K with the most expected tokens per second, computed from other measurements.

A step costs one forward of the target and N drafted tokens, each of which costs the drafter's body
and its head; it yields the acceptance length. Head times come from `vocabfreq bench --json`, the
rest from `vocabfreq eval --json` or from the user. Between measured sizes, head times are linear in
K and acceptance is linear in coverage; sizes outside the measured head times are not considered.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import EvaluationError, FileFormatError, SelectionError

SIZE_STEP, GRID_POINTS = 64, 48
NEAR_BEST = 0.01
FULL_HEAD = "full head, argmax"  # the implementation of `bench`
MAX_BYTES = 1 << 26  # of a JSON file
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Cost of a step apart from the head.

    Attributes:
        target_seconds: one forward of the target that verifies.
        body_seconds: one drafted token without the head.
        spec_tokens: N, tokens drafted per step.
    """

    target_seconds: float
    body_seconds: float
    spec_tokens: int


@dataclass(frozen=True)
class Point:
    """Expected speed at one size; `size` is K, V for the full head."""

    size: int
    coverage: float
    head_seconds: float
    acceptance_length: float
    tokens_per_second: float


@dataclass(frozen=True)
class Advice:
    """The best size, and how much others lose.

    Attributes:
        best: the point with the most tokens per second.
        full_head: the point of the full head.
        near_best: smallest and largest K within 1 % of the best.
        curve: all points by rising K, the full head last.
        costs: that the curve was computed with.
    """

    best: Point
    full_head: Point
    near_best: tuple[int, int]
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
    by_coverage = sorted((float(coverage[k]), length) for k, length in lengths.items())

    def point(size: int) -> Point:
        head = _interpolate(size, sorted(heads.items()))
        length = lengths.get(size) or _interpolate(float(coverage[size]), by_coverage)
        seconds = costs.target_seconds + costs.spec_tokens * (costs.body_seconds + head)
        return Point(size, float(coverage[size]), head, length, length / seconds)

    curve = tuple(point(size) for size in _sizes(heads, lengths, rows))
    best = max(curve, key=lambda point: point.tokens_per_second)
    limit = (1 - NEAR_BEST) * best.tokens_per_second
    near = [point.size for point in curve if point.tokens_per_second >= limit]
    return Advice(best, curve[-1], (min(near), max(near)), curve, costs)


def _sizes(heads: Mapping[int, float], lengths: Mapping[int, float], rows: int) -> list[int]:
    """From the smallest measured head to the largest pruned one, in multiples of 64, and V."""
    least, most = min(heads), max(size for size in heads if size < rows)
    grid = np.round(np.geomspace(least, most, GRID_POINTS) / SIZE_STEP) * SIZE_STEP
    measured = {size for size in lengths if len(lengths) < GRID_POINTS}
    sizes = set(map(int, grid)) | set(heads) | measured
    return [*sorted(size for size in sizes if least <= size <= most), rows]


def _interpolate(x: float, known: list[tuple[Any, float]]) -> float:
    xs, ys = zip(*known, strict=True)
    return float(np.interp(x, xs, ys))


def lengths_by_coverage(coverage: Numbers, rate: float, spec_tokens: int) -> dict[int, float]:
    """K → acceptance length, if a drafted token is accepted with `rate` times the coverage.

    Raises:
        SelectionError: `rate` is not between 0 and 1.
    """
    if not 0 <= rate <= 1:
        raise SelectionError(f"acceptance {rate}", expected="a share from 0 to 1")
    accepted = (rate * coverage)[:, None] ** np.arange(spec_tokens + 1)
    return dict(enumerate(accepted.sum(axis=1).tolist()))


def read_head_times(path: Path, rows: int, batch_size: int) -> dict[int, float]:
    """K → seconds of our greedy sampler, and `rows` → seconds of the full head with argmax.

    Raises:
        FileFormatError: the file is not the JSON of `vocabfreq bench`.
        EvaluationError: it was measured with another V, or not at this batch size.
    """
    result = _read(path, "bench")
    try:
        vocab_size, cells = int(result["setup"]["vocab_size"]), list(result["cells"])
        found = [cell for cell in cells if cell["batch_size"] == batch_size]
        times = {rows: min(_seconds(cell, FULL_HEAD) for cell in found)} if found else {}
        times |= {int(c["size"]): _seconds(c, c["default"]) for c in found if c["size"] < rows}
    except (KeyError, TypeError, ValueError) as error:
        raise _not_output_of("bench", path) from error
    if vocab_size != rows or not found:
        batches = sorted({cell["batch_size"] for cell in cells})
        raise EvaluationError(
            f"{str(path)!r} has V = {vocab_size:,} and B = {', '.join(map(str, batches))}",
            expected=f"V = {rows:,} of the frequency file, and B = {batch_size}",
        )
    return times


def _seconds(cell: dict[str, Any], implementation: str) -> float:
    """Seconds of a greedy step; a replayed graph takes precedence over an eager call."""
    modes = {
        timing["mode"]: float(timing["median_us"]) / 1e6
        for timing in cell["timings"]
        if (timing["implementation"], timing["task"]) == (implementation, "greedy")
    }
    return modes.get("graph") or modes["eager"]


class Acceptance(NamedTuple):
    """The runs of an `eval` at one number of spec tokens and one batch size.

    Attributes:
        lengths: K → acceptance length; V for the full head.
        step_seconds: one step of the unpruned drafter, target and drafting.
        target_seconds: one forward of the target.
        spec_tokens: N.
    """

    lengths: dict[int, float]
    step_seconds: float
    target_seconds: float
    spec_tokens: int

    def costs(self, full_head_seconds: float) -> Costs:
        """Cost of a step apart from the head, given the time of the full head.

        Raises:
            EvaluationError: the head alone takes longer than drafting a whole token did.
        """
        token_seconds = (self.step_seconds - self.target_seconds) / self.spec_tokens
        if token_seconds < full_head_seconds:
            raise EvaluationError(
                f"bench measured {full_head_seconds * 1e3:.3f} ms for the full head, eval "
                f"{token_seconds * 1e3:.3f} ms for drafting a whole token",
                expected="both from one machine, with one H, dtype and batch size",
            )
        return Costs(self.target_seconds, token_seconds - full_head_seconds, self.spec_tokens)


def read_acceptance(path: Path, rows: int, spec_tokens: int, batch_size: int) -> Acceptance:
    """Reads the runs with N spec tokens at one batch size from the JSON of an `eval`.

    Raises:
        FileFormatError: the file is not the JSON of `vocabfreq eval`.
        EvaluationError: it has no unpruned run of that kind, or one without times.
    """
    result = _read(path, "eval")
    try:
        runs = [
            row
            for row in result["rows"]
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
        step_seconds = lengths[rows] * batch_size / float(full["tokens_per_second"])
        target_seconds = step_seconds / (1 + float(full["forward_ratio"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise _not_output_of("eval", path) from error
    return Acceptance(lengths, step_seconds, target_seconds, spec_tokens)


def _read(path: Path, verb: str) -> dict[str, Any]:
    try:
        result = json.loads(path.read_bytes()) if path.stat().st_size <= MAX_BYTES else None
    except ValueError as error:
        raise _not_output_of(verb, path) from error
    if not isinstance(result, dict):
        raise _not_output_of(verb, path)
    return result


def _not_output_of(verb: str, path: Path) -> FileFormatError:
    return FileFormatError(
        f"{str(path)!r} is not the output of `vocabfreq {verb} --json`",
        expected="that output in a file",
        hint=f"vocabfreq {verb} … --json > {verb}.json",
    )
