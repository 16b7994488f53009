"""Runs a benchmark: checks the ids of every implementation, then times all of them in turns."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Literal

import torch
from torch import Tensor

from vocabfreq.measure.bench.correctness import FullLogits, check_ids, full_logits
from vocabfreq.measure.bench.implementations import Implementation, Task, implementations
from vocabfreq.measure.bench.setup import (
    Machine,
    Setup,
    empty_weight,
    explain_memory_errors,
    fill_random,
    fill_whole,
    machine,
    shapes,
)
from vocabfreq.runtime.head import PrunedHead

Mode = Literal["eager", "graph"]
Call = Callable[[], Tensor]
Progress = Callable[[str], None]
COPY_BYTES = {"cpu": 1 << 28, "cuda": 1 << 30}  # far more than a cache holds
TURN_US, MAX_REPEATS = 2000.0, 50  # short calls are repeated within a turn


@dataclass(frozen=True)
class Timing:
    """One implementation, run in one mode.

    Attributes:
        implementation: its name.
        task: `greedy` or `sample`.
        mode: `eager`, or `graph` for a replayed CUDA graph.
        ours: whether it is an implementation of vocabfreq.
        median_us: microseconds per call; likewise the smallest and the largest.
        ratios: name of one of ours → this time over its time, same task and mode.
        copy_bandwidth_share: of ours, the speed of reading the pruned head as a share of the speed
            of a copy; None for others.
    """

    implementation: str
    task: Task
    mode: Mode
    ours: bool
    median_us: float
    min_us: float
    max_us: float
    ratios: dict[str, float]
    copy_bandwidth_share: float | None


@dataclass(frozen=True)
class Cell:
    """All implementations at one K and B.

    Attributes:
        size: K.
        batch_size: B.
        head_bytes: of the pruned head.
        copy_gb_per_s: of a large copy timed in the same turns, bytes read plus bytes written.
        default: the one of ours that a sampler uses by default.
        timings: one for each implementation and mode.
        skipped: name of an implementation that could not run here → reason.
    """

    size: int
    batch_size: int
    head_bytes: int
    copy_gb_per_s: float
    default: str
    timings: tuple[Timing, ...]
    skipped: dict[str, str]


@dataclass(frozen=True)
class Result:
    """All measurements of a benchmark; nothing is estimated."""

    setup: Setup
    machine: Machine
    cells: tuple[Cell, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Runner:
    """An implementation that is ready to run in a mode; `call` gives target ids, int64 [B]."""

    implementation: Implementation
    mode: Mode
    call: Call


@torch.no_grad()
def run(setup: Setup, progress: Progress = lambda _: None) -> Result:
    """Checks ids, then measures.

    Args:
        setup: shapes, dtype and device.
        progress: called with a line of text before each part.

    Raises:
        HeadError: the tensors do not fit into memory.
        WrongResultError: an implementation gives a wrong id.
    """
    random, cells = torch.Generator(setup.device).manual_seed(0), []
    with explain_memory_errors(setup):
        weight = empty_weight(setup)
        progress(f"checking ids on a head of whole numbers, {weight.nbytes / 1e6:,.0f} MB")
        _check_exactly(weight, setup, random)
        progress("making a head of random numbers")
        hidden = fill_random(weight, setup, random)
        logits = full_logits(hidden, weight, exact=False)
        for head, batch in shapes(setup, weight):
            progress(f"K = {len(head.weight):,}, B = {batch}: checking, then {setup.runs} turns")
            cells.append(_cell(setup, weight, head, hidden[:batch], logits.first(batch)))
    return Result(setup, machine(setup.device), tuple(cells))


def _check_exactly(weight: Tensor, setup: Setup, random: torch.Generator) -> None:
    """Compiled ones are checked on the random numbers only: each shape is compiled once."""
    hidden = fill_whole(weight, setup, random)
    logits = full_logits(hidden, weight, exact=True)
    for head, batch in shapes(setup, weight):
        for one in implementations(weight, head, batch):
            if not one.compiled:
                check_ids(one, one.draft(hidden[:batch]), head, logits.first(batch))


def _cell(
    setup: Setup, weight: Tensor, head: PrunedHead, hidden: Tensor, logits: FullLogits
) -> Cell:
    """Checks and times one K at one B; hidden is [B, H]."""
    runners, skipped = _runners(weight, head, hidden)
    for runner in runners:
        check_ids(runner.implementation, runner.call().clone(), head, logits)
    copy, copied_bytes = _large_copy(setup.device)
    *times, copy_times = take_turns([*(runner.call for runner in runners), copy], setup)
    bytes_per_us, head_bytes = copied_bytes / median(copy_times), head.weight.nbytes
    return Cell(
        size=len(head.weight),
        batch_size=len(hidden),
        head_bytes=head_bytes,
        copy_gb_per_s=bytes_per_us / 1e3,
        default=runners[-1].implementation.name,
        timings=_timings(runners, times, head_bytes / bytes_per_us),
        skipped=skipped,
    )


def _runners(
    weight: Tensor, head: PrunedHead, hidden: Tensor
) -> tuple[list[Runner], dict[str, str]]:
    """Every implementation in every mode, warm, and the reasons of those that cannot run here."""
    runners, skipped = [], {}
    if weight.is_cuda:
        torch.compiler.reset()  # each shape is compiled anew, none counts as a recompilation
    for one in implementations(weight, head, len(hidden)):
        call = partial(one.draft, hidden)
        try:
            call()
            runners.append(Runner(one, "eager", call))
            if hidden.is_cuda and one.graph:
                runners.append(Runner(one, "graph", _captured(call)))
        except Exception as error:
            if not one.compiled:  # a compiler may be missing or broken; all else has to run
                raise
            skipped[one.name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return runners, skipped


def _captured(call: Call) -> Call:
    """The same call as a CUDA graph."""
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


def _large_copy(device: str) -> tuple[Call, int]:
    """A copy far larger than a cache, and its bytes, read plus written."""
    old = torch.ones(COPY_BYTES[device], dtype=torch.uint8, device=device)
    new = torch.empty_like(old)
    return lambda: new.copy_(old), 2 * old.nbytes


def take_turns(calls: list[Call], setup: Setup) -> list[list[float]]:
    """Microseconds of each call in each turn; each turn begins with another call."""
    clock = _clock_gpu if setup.device == "cuda" else _clock_cpu
    for _ in range(setup.warmups):
        once = [clock(call, 1) for call in calls]
    repeats = [min(max(round(TURN_US / us), 1), MAX_REPEATS) for us in once]
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(setup.runs):
        for step in range(len(calls)):
            index = (turn + step) % len(calls)
            times[index].append(clock(calls[index], repeats[index]))
    return times


def _clock_cpu(call: Call, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) * 1e6 / repeats


def _clock_gpu(call: Call, repeats: int) -> float:
    event = partial(torch.cuda.Event, enable_timing=True)
    start, end = event(), event()
    torch.cuda.synchronize()
    start.record()
    for _ in range(repeats):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e3 / repeats


def _timings(runners: list[Runner], times: list[list[float]], copy_us: float) -> tuple[Timing, ...]:
    """One for each runner; reading the pruned head at the speed of a copy takes `copy_us`."""
    timings = []
    for runner, us in zip(runners, times, strict=True):
        one, group = runner.implementation, (runner.implementation.task, runner.mode)
        ratios = {
            other.implementation.name: median(a / b for a, b in zip(us, other_us, strict=True))
            for other, other_us in zip(runners, times, strict=True)
            if other.implementation.ours and (other.implementation.task, other.mode) == group
        }
        share = copy_us / median(us) if one.ours else None
        spread = median(us), min(us), max(us)
        timings.append(Timing(one.name, *group, one.ours, *spread, ratios, share))
    return tuple(timings)
