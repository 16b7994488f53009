"""Checks drafted ids against the logits of the full head, computed in float64."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from vocabfreq.errors import WrongResultError
from vocabfreq.measure.bench.implementations import SEED, Implementation, target_ids_of
from vocabfreq.runtime import packed_keys, reference
from vocabfreq.runtime.head import PrunedHead

BLOCK_ROWS = 8192  # rows of the full head that are widened to float64 at a time
NOISE_TOLERANCE = 1e-3  # error of noise and logits in float32, far above what was met


@dataclass(frozen=True)
class FullLogits:
    """The logits of the full head.

    Attributes:
        values: float64 [B, V].
        tolerance: float64 [B]: how far below the largest logit a correct choice can be; 0 where
            every product and sum is exact.
        exact: whether every product and sum is exact.
    """

    values: Tensor
    tolerance: Tensor
    exact: bool

    def first(self, batch: int) -> "FullLogits":
        """The logits of the first rows of the batch."""
        return FullLogits(self.values[:batch], self.tolerance[:batch], self.exact)


def full_logits(hidden: Tensor, weight: Tensor, *, exact: bool) -> FullLogits:
    """Logits in float64, and the rounding bound of a choice among them.

    Two logits of float32 sums are off by `H * 2**-24 * |h| * |w|` each at most, and by half a unit
    of the dtype when they are rounded to it; twice that is allowed, since matrix libraries may add
    parts that are rounded already.

    Args:
        hidden: [B, H].
        weight: of the full head, [V, H].
        exact: whether every product and sum is exact in the dtype of both.
    """
    wide = hidden.double()
    values, longest = wide.new_empty((len(hidden), len(weight))), wide.new_zeros(())
    for start in range(0, len(weight), BLOCK_ROWS):
        block = weight[start : start + BLOCK_ROWS].double()
        torch.mm(wide, block.T, out=values[:, start : start + BLOCK_ROWS])
        longest = torch.maximum(longest, block.norm(dim=1).max())
    summing = hidden.shape[1] * 2.0**-23 * wide.norm(dim=1) * longest
    rounding = 2 * torch.finfo(weight.dtype).eps * values.abs().amax(1)
    return FullLogits(values, (summing + rounding) * (not exact), exact)


def check_ids(
    implementation: Implementation, ids: Tensor, head: PrunedHead, logits: FullLogits
) -> None:
    """Checks the ids of an implementation.

    With exact logits, ours must give the ids of `reference`, a baseline any id with the largest
    logit; with rounded ones, the logit must be within the rounding bound. A draw of ours is
    compared with the largest sum of logit and noise; a draw of a baseline must be a kept id.

    Args:
        implementation: that gave the ids.
        ids: target ids, int64 [B].
        head: K rows.
        logits: of the same B rows.

    Raises:
        WrongResultError: an id is wrong.
    """
    scores = _scores(implementation, head, logits)
    chosen = scores.gather(1, ids.clamp(0, head.rows - 1)[:, None])[:, 0]
    tolerance: Tensor | float = logits.tolerance
    if implementation.task == "sample":
        tolerance = tolerance + NOISE_TOLERANCE if implementation.ours else math.inf
    outside = (ids < 0) | (ids >= head.rows)
    wrong = outside | ~(chosen > -math.inf) | (chosen < scores.amax(1) - tolerance)
    if logits.exact and implementation.task == "greedy" and implementation.ours:
        kept = target_ids_of(head)
        keys = reference.greedy_logits(logits.values[:, kept].float(), kept)
        wrong |= ids != packed_keys.unpack_ids(keys)
    if wrong.any():
        row = int(wrong.nonzero()[0, 0])
        raise WrongResultError(
            f"{implementation.name} ({implementation.task}) gave the id {int(ids[row])} for row "
            f"{row} of {len(ids)}, K = {len(head.weight):,}, with the score {float(chosen[row]):g}",
            expected=f"the id {int(scores[row].argmax())} with the score "
            f"{float(scores[row].amax()):g}, or an equally good one",
            hint="a wrong result ends the benchmark; no speed is reported",
        )


def _scores(implementation: Implementation, head: PrunedHead, logits: FullLogits) -> Tensor:
    """What an implementation must maximise, float64 [B, V], -inf where an id is not kept."""
    if implementation.full_head:
        return logits.values
    ids = target_ids_of(head)
    scores = logits.values[:, ids]
    if implementation.task == "sample" and implementation.ours:
        seed, step = torch.tensor([[SEED], [0]], device=ids.device)
        rows = torch.arange(len(scores), device=ids.device)[:, None]
        scores = scores + reference.gumbel(seed, step, rows, ids)
    return torch.full_like(logits.values, -math.inf).index_copy_(1, ids, scores)
