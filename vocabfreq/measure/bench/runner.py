"""Checking, then measuring: from a setup to a result.

Whether the ids of a contender are right, by logits in float64.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vocabfreq.errors import WrongResultError
from vocabfreq.measure.bench.baselines import SEED, Contender, contenders, ids_of
from vocabfreq.measure.bench.setup import (
    Setup,
    empty_head,
    fill_random,
    fill_whole,
    machine,
    room,
    shapes,
)
from vocabfreq.measure.bench.timing import (
    Cell,
    Result,
    Runner,
    large_copy,
    modes,
    take_turns,
    timings,
)
from vocabfreq.runtime import packed_keys, reference
from vocabfreq.runtime.head import PrunedHead

BLOCK = 8192  # rows of the full head that are widened to float64 at a time
NOISE_ERROR = 1e-3  # of noise and logits in float32, far above what was met


@dataclass(frozen=True)
class Truth:
    """What the logits of the full head are.

    Attributes:
        logits: float64 [B, V].
        slack: float64 [B], by how much the logit of a right choice can be below the largest; 0
            where every product and sum is exact.
        exact: whether they are.
    """

    logits: Tensor
    slack: Tensor
    exact: bool

    def first(self, batch: int) -> "Truth":
        """That of the first rows of the batch."""
        return Truth(self.logits[:batch], self.slack[:batch], self.exact)


def truth(hidden: Tensor, full: Tensor, *, exact: bool) -> Truth:
    """Logits in float64, and the rounding bound of a choice among them.

    Two logits of float32 sums are off by `H * 2**-24 * |h| * |w|` each at most, and by half a unit
    of the dtype when they are rounded to it; twice that is allowed, since matrix libraries may add
    parts that are rounded already.

    Args:
        hidden: [B, H].
        full: [V, H].
        exact: whether every product and sum is, in the dtype of both.
    """
    wide = hidden.double()
    logits, longest = wide.new_empty((len(hidden), len(full))), wide.new_zeros(())
    for start in range(0, len(full), BLOCK):
        part = full[start : start + BLOCK].double()
        torch.mm(wide, part.T, out=logits[:, start : start + BLOCK])
        longest = torch.maximum(longest, part.norm(dim=1).max())
    summing = hidden.shape[1] * 2.0**-23 * wide.norm(dim=1) * longest
    rounding = 2 * torch.finfo(full.dtype).eps * logits.abs().amax(1)
    return Truth(logits, (summing + rounding) * (not exact), exact)


def check(contender: Contender, chosen: Tensor, head: PrunedHead, known: Truth) -> None:
    """Checks the ids of a contender.

    Of exact logits ours has to give the ids of `reference`, others one of the largest; of rounded
    ones the logit has to be within the bound. A draw of ours is compared with the largest sum of
    logit and noise, one of others only has to be a kept id.

    Args:
        contender: whose they are.
        chosen: target ids, int64 [B].
        head: K rows.
        known: of the same B rows.

    Raises:
        WrongResultError: an id is wrong.
    """
    scores = _scores(contender, head, known)
    got = scores.gather(1, chosen.clamp(0, head.rows - 1)[:, None])[:, 0]
    outside = (chosen < 0) | (chosen >= head.rows)
    low = got < scores.amax(1) - _slack(contender, known)
    wrong = outside | ~(got > -math.inf) | low
    if known.exact and contender.task == "greedy" and contender.backend:
        wrong |= chosen != _lowest(head, known)
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise WrongResultError(
            f"{contender.name} ({contender.task}) gave the id {int(chosen[row])} for row {row} of "
            f"{len(chosen)}, K = {len(head.weight):,}, with the score {float(got[row]):g}",
            expected=f"the id {int(scores[row].argmax())} with {float(scores[row].amax()):g}, or "
            "one as good: no speed is told of wrong answers",
        )


def _scores(contender: Contender, head: PrunedHead, known: Truth) -> Tensor:
    """By what a contender has to choose, float64 [B, V], -inf where an id is not kept."""
    if contender.whole:
        return known.logits
    ids = ids_of(head)
    kept = known.logits[:, ids]
    if contender.task == "sample" and contender.backend:
        seed, step = torch.tensor([[SEED], [0]], device=ids.device)
        rows = torch.arange(len(kept), device=ids.device)[:, None]
        kept = kept + reference.gumbel(seed, step, rows, ids)
    return torch.full_like(known.logits, -math.inf).index_copy_(1, ids, kept)


def _slack(contender: Contender, known: Truth) -> Tensor | float:
    """By how much the score of a right id can be below the largest, float64 [B] or one number."""
    if contender.task == "greedy":
        return known.slack
    return known.slack + NOISE_ERROR if contender.backend else math.inf


def _lowest(head: PrunedHead, known: Truth) -> Tensor:
    """The ids of `reference`, of a tie the lowest, int64 [B]."""
    ids = ids_of(head)
    return packed_keys.unpack_ids(reference.greedy_logits(known.logits[:, ids].float(), ids))


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
