"""Counter-based Gumbel noise: a number for every (seed, step, batch row, target id), and no state.

The generator is Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011), which Triton has too. So a result can be repeated, shards of one head agree without talking,
and a captured CUDA graph draws anew when the step, a tensor on the device, has changed.
"""

import torch
from torch import Tensor

_WORD = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
SMALL = 2.0**-6  # below it, a series is closer to -log(1 - v) than float32 logarithms are
LARGEST = 1.0 - 2.0**-24  # the float32 before 1, where the exponential would be infinite


def gumbel(seed: Tensor, step: Tensor, rows: Tensor, ids: Tensor) -> Tensor:
    """Standard Gumbel noise.

    Args:
        seed: int64, one element.
        step: int64, one element.
        rows: int64 [B, 1], batch rows.
        ids: int64 [K], target ids.

    Returns:
        float32 [B, K], finite.
    """
    word = philox(seed, ids[None, :], rows, step & _WORD, (step >> 32) & _WORD)
    uniform = (word.float() * 2.0**-32 + 2.0**-33).clamp_max(LARGEST)
    return -_exponential(uniform).log()


def _exponential(v: Tensor) -> Tensor:
    """-log(1 - v), exact to float32 where it is small: there the largest noise comes from."""
    series = v * (1.0 + v * (1 / 2 + v * (1 / 3 + v * (1 / 4))))
    return torch.where(v < SMALL, series, -(1.0 - v).log())


def philox(seed: Tensor, c0: Tensor, c1: Tensor, c2: Tensor, c3: Tensor) -> Tensor:
    """First word of Philox-4x32-10.

    Args:
        seed: int64; its halves are the key.
        c0: counter, uint32 held in int64, like the next three; their shapes broadcast.
        c1: counter.
        c2: counter.
        c3: counter.

    Returns:
        uint32 held in int64.
    """
    k0, k1 = seed & _WORD, (seed >> 32) & _WORD
    for _ in range(ROUNDS):
        first, third = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = ((third >> 32) & _WORD) ^ c1 ^ k0, ((first >> 32) & _WORD) ^ c3 ^ k1
        c1, c3 = third & _WORD, first & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return c0
