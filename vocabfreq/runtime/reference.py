"""What the kernels compute, in plain torch: the definition, not the fast way.

Every function has the signature of a launcher in `launch`. Shapes: hidden [B, H], weight [K, H],
`target_ids` int64 [K] (None: draft ids are target ids), bias and scale [K], bitmask int32
[B, ceil(V / 32)]. Products and sums are float32. Results are packed keys (`keys`), int64 [B].

Counter-based Gumbel noise: a number for every (seed, step, batch row, target id), and no state.

The generator is Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011), which Triton has too. So a result can be repeated, shards of one head agree without talking,
and a captured CUDA graph draws anew when the step, a tensor on the device, has changed.

Packed grammar bitmasks over target ids, as xgrammar and llguidance make them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vocabfreq.runtime import packed_keys

_WORD = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
SMALL = 2.0**-6  # below it, a series is closer to -log(1 - v) than float32 logarithms are
LARGEST_UNIFORM = 1.0 - 2.0**-24  # the float32 before 1, where the exponential would be infinite


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
    uniform = (word.float() * 2.0**-32 + 2.0**-33).clamp_max(LARGEST_UNIFORM)
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


def allowed(bitmask: Tensor, ids: Tensor) -> Tensor:
    """Which ids a grammar allows, row by row.

    Args:
        bitmask: int32 [B, ceil(V / 32)]; bit `i % 32` of word `i // 32` allows the target id i.
        ids: int64 [K], target ids.

    Returns:
        bool [B, K].
    """
    words = bitmask[:, ids >> 5]
    return (words >> (ids & 31).int()) & 1 == 1


LARGEST = torch.finfo(torch.float32).max


class Draw(NamedTuple):
    """How `sample` draws.

    Attributes:
        temperature: float32 [B], 0 or more; 0 takes the maximum.
        seed: int64 [1], on the device of the head.
        step: int64 [1], likewise.
        logit_scale: multiplies the logits, positive.
        soft_cap: logits become `cap * tanh(logit / cap)`; 0 for none.
    """

    temperature: Tensor
    seed: Tensor
    step: Tensor
    logit_scale: float = 1.0
    soft_cap: float = 0.0


class Drawn(NamedTuple):
    """What `sample` gives, of one head or one shard of it.

    Attributes:
        keys: int64 [B], of the logits plus temperature times noise.
        logits: float32 [B], of the chosen ids, divided by the temperature, without noise.
        logsumexp: float32 [B], of all allowed logits divided by the temperature.
    """

    keys: Tensor
    logits: Tensor
    logsumexp: Tensor


def head_logits(
    hidden: Tensor, weight: Tensor, bias: Tensor | None = None, scale: Tensor | None = None
) -> Tensor:
    """Draft logits, float32 [B, K]: `hidden @ weight.T * scale + bias`."""
    logits = hidden.float() @ weight.float().T
    if scale is not None:
        logits = logits * scale.float()
    return logits if bias is None else logits + bias.float()


def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> Tensor:
    """Keys of the largest logits of a head."""
    return greedy_logits(head_logits(hidden, weight, bias, scale), target_ids, bitmask)


def greedy_logits(
    logits: Tensor, target_ids: Tensor | None, bitmask: Tensor | None = None
) -> Tensor:
    """Keys of the largest of given logits, [B, K] of any float dtype and any stride."""
    ids = ids_or_range(target_ids, logits)
    return packed_keys.pack(logits, ids, _mask(bitmask, ids)).amax(1)


def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    draw: Draw,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> Drawn:
    """An exact draw from softmax(logits / temperature), by the Gumbel-max trick."""
    return sample_logits(head_logits(hidden, weight, bias, scale), target_ids, draw, bitmask)


def sample_logits(
    logits: Tensor, target_ids: Tensor | None, draw: Draw, bitmask: Tensor | None = None
) -> Drawn:
    """The same over given logits, [B, K], before logit scale and soft cap."""
    ids = ids_or_range(target_ids, logits)
    values = shaped(logits, draw.logit_scale, draw.soft_cap)
    rows = torch.arange(len(values), device=values.device)[:, None]
    heat = draw.temperature[:, None]
    noisy = values + heat * gumbel(draw.seed, draw.step, rows, ids)
    mask = _mask(bitmask, ids)
    packed = packed_keys.pack(noisy, ids, mask)
    cooled = (values * inverse(heat)).clamp_max(LARGEST)
    if mask is not None:
        cooled = cooled.masked_fill(~mask, float("-inf"))
    best = packed.argmax(1, keepdim=True)
    return Drawn(packed.gather(1, best)[:, 0], cooled.gather(1, best)[:, 0], cooled.logsumexp(1))


def shaped(logits: Tensor, logit_scale: float, soft_cap: float) -> Tensor:
    """Logits as probabilities are made of, float32: scaled, capped, NaN as -inf, +inf finite."""
    values = logits.float() * logit_scale
    if soft_cap:
        values = soft_cap * (values / soft_cap).tanh()
    values = values.clamp_max(LARGEST)
    return torch.where(values.isnan(), float("-inf"), values)


def inverse(temperature: Tensor) -> Tensor:
    """1 / temperature, and 1 where it is 0."""
    return torch.where(temperature > 0, temperature, 1.0).reciprocal()


def ids_or_range(target_ids: Tensor | None, logits: Tensor) -> Tensor:
    """The map, or the identity where there is none; int64 [K]."""
    if target_ids is not None:
        return target_ids
    return torch.arange(logits.shape[1], device=logits.device)


def _mask(bitmask: Tensor | None, ids: Tensor) -> Tensor | None:
    return None if bitmask is None else allowed(bitmask, ids)
