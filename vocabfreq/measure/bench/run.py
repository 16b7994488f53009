"""Checking, then measuring: from a setup to a result."""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor

from vocabfreq.measure.bench.baselines import contenders
from vocabfreq.measure.bench.checking import Truth, check, truth
from vocabfreq.measure.bench.heads import empty_head, fill_random, fill_whole, room, shapes
from vocabfreq.measure.bench.machine import machine
from vocabfreq.measure.bench.results import Cell, Result, timings
from vocabfreq.measure.bench.setup import Setup
from vocabfreq.measure.bench.timing import Runner, large_copy, modes, take_turns
from vocabfreq.runtime.head import PrunedHead

Note = Callable[[str], None]


@torch.no_grad()
def run(setup: Setup, note: Note = lambda _: None) -> Result:
    """Checks, then measures.

    Args:
        setup: what.
        note: is told how far it is.

    Raises:
        HeadError: it does not fit into memory.
        WrongResultError: an id is wrong.
    """
    random = torch.Generator(setup.device).manual_seed(0)
    with room(setup):
        full = empty_head(setup)
        note(f"checking ids on a head of whole numbers, {full.nbytes / 1e6:,.0f} MB")
        _check_whole(full, setup, random)
        note("making a head of random numbers")
        hidden = fill_random(full, setup, random)
        cells = _cells(full, hidden, setup, note)
    return Result(setup, machine(setup.device), cells)


def _check_whole(full: Tensor, setup: Setup, random: torch.Generator) -> None:
    """Compiled contenders wait for the random numbers, on which each shape is compiled once."""
    hidden = fill_whole(full, setup, random)
    known = truth(hidden, full, exact=True)
    for head, batch in shapes(setup, full):
        for one in contenders(full, head, batch):
            if not one.compiled:
                check(one, one.call(hidden[:batch]), head, known.first(batch))


def _cells(full: Tensor, hidden: Tensor, setup: Setup, note: Note) -> tuple[Cell, ...]:
    """Each K at each B; full is [V, H], hidden [largest B, H]."""
    known, cells = truth(hidden, full, exact=False), []
    for head, batch in shapes(setup, full):
        note(f"K = {len(head.weight):,}, B = {batch}: checking, then {setup.runs} turns")
        ready, left_out = _ready(full, head, hidden[:batch])
        _check_ready(ready, head, known.first(batch))
        cells.append(_cell(setup, head, batch, ready, left_out))
    return tuple(cells)


def _ready(full: Tensor, head: PrunedHead, hidden: Tensor) -> tuple[list[Runner], dict[str, str]]:
    """Every contender in every mode, warm, and those that cannot run here."""
    ready, left_out = [], {}
    if full.is_cuda:
        torch.compiler.reset()  # each shape is compiled anew, none counts as a recompilation
    for one in contenders(full, head, len(hidden)):
        try:
            ready += modes(one, hidden)
        except Exception as error:
            if not one.compiled:  # a compiler may be missing or broken; all else has to run
                raise
            left_out[one.name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return ready, left_out


def _check_ready(ready: list[Runner], head: PrunedHead, known: Truth) -> None:
    for one in ready:
        check(one.contender, one.call().clone(), head, known)


def _cell(
    setup: Setup, head: PrunedHead, batch: int, ready: list[Runner], left_out: dict[str, str]
) -> Cell:
    copy, moved = large_copy(setup.device)
    *taken, copies = take_turns([*(one.call for one in ready), copy], setup)
    speed = moved / statistics.median(copies)  # bytes a microsecond, so MB a second
    times = list(zip(ready, taken, strict=True))
    return Cell(
        size=len(head.weight),
        batch_size=batch,
        head_bytes=head.weight.nbytes,
        copy_gb_per_s=speed / 1e3,
        auto=ready[-1].contender.name,
        timings=timings(times, head.weight.nbytes / speed),
        left_out=left_out,
    )
