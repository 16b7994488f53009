"""What `advise` takes from the JSON of `bench` and of `eval`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from vocabfreq.errors import EvaluationError, FileFormatError
from vocabfreq.measure.advise import Costs

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


def head_times(path: Path, rows: int, batch_size: int) -> dict[int, float]:
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


def acceptance(path: Path, rows: int, spec_tokens: int, batch_size: int) -> Measured:
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
