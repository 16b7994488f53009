"""What was measured, frozen, and how it is summed up."""

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from vocabfreq.measure.bench.baselines import Task
from vocabfreq.measure.bench.machine import Machine
from vocabfreq.measure.bench.setup import Setup
from vocabfreq.measure.bench.timing import Mode, Runner

Times = list[tuple[Runner, list[float]]]  # with microseconds a call, one number a turn


@dataclass(frozen=True)
class Timing:
    """One contender, run in one mode.

    Attributes:
        contender: its name.
        task: `greedy` or `sample`.
        mode: `eager`, or `graph` for a replayed CUDA graph.
        ours: whether it is ours.
        median_us: microseconds a call; likewise the lowest and the highest.
        ratios: its time to that of each of ours at the same task in the same mode, by name.
        share_of_copy: of ours, the bytes of the pruned head over the time, to the bandwidth of a
            copy; None for others'.
    """

    contender: str
    task: Task
    mode: Mode
    ours: bool
    median_us: float
    lowest_us: float
    highest_us: float
    ratios: dict[str, float]
    share_of_copy: float | None


@dataclass(frozen=True)
class Cell:
    """All contenders at one K and B.

    Attributes:
        size: K.
        batch_size: B.
        head_bytes: of the pruned head.
        copy_gb_per_s: of a large copy that took turns with them, bytes read plus bytes written.
        auto: the one of ours that a sampler takes by default.
        timings: one for each contender and mode.
        left_out: contenders that could not run here, and why.
    """

    size: int
    batch_size: int
    head_bytes: int
    copy_gb_per_s: float
    auto: str
    timings: tuple[Timing, ...]
    left_out: dict[str, str]


@dataclass(frozen=True)
class Result:
    """All that was measured; nothing is estimated."""

    setup: Setup
    machine: Machine
    cells: tuple[Cell, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def timings(times: Times, limit_us: float) -> tuple[Timing, ...]:
    """One for each contender and mode.

    Args:
        times: all of a cell.
        limit_us: what reading the pruned head takes at the speed of a copy.
    """
    return tuple(_timing(runner, us, times, limit_us) for runner, us in times)


def _timing(runner: Runner, us: list[float], times: Times, limit_us: float) -> Timing:
    one, median = runner.contender, statistics.median(us)
    ours = one.backend is not None
    share = limit_us / median if ours else None
    ratios = _ratios(runner, us, times)
    return Timing(one.name, one.task, runner.mode, ours, median, min(us), max(us), ratios, share)


def _ratios(runner: Runner, us: list[float], times: Times) -> dict[str, float]:
    return {
        other.contender.name: statistics.median(a / b for a, b in zip(us, theirs, strict=True))
        for other, theirs in times
        if other.contender.backend
        and (other.contender.task, other.mode) == (runner.contender.task, runner.mode)
    }
