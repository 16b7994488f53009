"""Timing: eager calls, replayed CUDA graphs, and the turns in which they are timed."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from vocabfreq.measure.bench.baselines import Contender
from vocabfreq.measure.bench.setup import Setup

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
