"""Timing: eager calls, replayed CUDA graphs, and the turns in which they are timed.

What was measured, frozen, and how it is summed up.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from vocabfreq.measure.bench.implementations import Contender, Task
from vocabfreq.measure.bench.setup import Machine, Setup

Mode = Literal["eager", "graph"]
Ready = Callable[[], Tensor]
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}  # far more than a cache holds
TURN_US, MOST_CALLS = 2000.0, 50  # short calls are repeated within a turn


@dataclass(frozen=True)
class Runner:
    """A contender that is ready to run in a mode; `call` gives target ids, int64 [B]."""

    contender: Contender
    mode: Mode
    call: Ready


def modes(contender: Contender, hidden: Tensor) -> list[Runner]:
    """A contender in every mode that it can run in here, warm; hidden is [B, H]."""
    call = partial(contender.call, hidden)
    call()
    eager = Runner(contender, "eager", call)
    if not (hidden.is_cuda and contender.graph):
        return [eager]
    return [eager, Runner(contender, "graph", _captured(call))]


def _captured(call: Ready) -> Ready:
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch does not annotate it
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ids = call()

    def replay() -> Tensor:
        graph.replay()
        return ids

    return replay


def large_copy(device: str) -> tuple[Ready, int]:
    """A copy far larger than a cache, and its bytes, read plus written."""
    old = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    new = torch.empty_like(old)
    return lambda: new.copy_(old), 2 * old.nbytes


def take_turns(calls: list[Ready], setup: Setup) -> list[list[float]]:
    """Microseconds of each call in each turn; who begins changes from turn to turn."""
    clock = _clock_gpu if setup.device == "cuda" else _clock_cpu
    for _ in range(setup.warmups):
        once = [clock(call, 1) for call in calls]
    repeats = [min(max(round(TURN_US / us), 1), MOST_CALLS) for us in once]
    taken: list[list[float]] = [[] for _ in calls]
    for turn in range(setup.runs):
        for step in range(len(calls)):
            place = (turn + step) % len(calls)
            taken[place].append(clock(calls[place], repeats[place]))
    return taken


def _clock_cpu(call: Ready, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) * 1e6 / repeats


def _clock_gpu(call: Ready, repeats: int) -> float:
    event = partial(torch.cuda.Event, enable_timing=True)
    start, end = event(), event()
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / repeats


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
