"""The definition of every kernel in plain torch; slow, and the oracle of the tests.

`greedy`, `greedy_logits`, `sample` and `sample_logits` are what `launch` (Triton) and
`torch_backend` compute faster. Products and sums are float32. Results are packed keys
(`packed_keys`), so of equal logits the lowest target id wins.

Shapes, here and in `launch` and `torch_backend`: hidden [B, H]; weight [K, H]; target_ids int64
[K], or None where draft ids are target ids; bias and scale [K]; bitmask int32 [B, ceil(V / 32)],
packed as xgrammar and llguidance pack it.

Noise comes from Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
2011), which Triton has too. It is a function of (seed, step, batch row, target id) and keeps no
state: a draw can be repeated, the shards of a head agree without communication, and a captured CUDA
graph draws anew when the step, a tensor on the device, has changed.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from vocabfreq.runtime import packed_keys

LARGEST_FLOAT = torch.finfo(torch.float32).max

_UINT32 = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_WEYL = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10
_SMALL_UNIFORM = 2.0**-6  # below it a series is closer to -log(1 - v) than float32 logarithms are
_LARGEST_UNIFORM = 1.0 - 2.0**-24  # the float32 before 1, where the exponential would be infinite


class SampleParams(NamedTuple):
    """Parameters of a draw.

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


class SampleOutput(NamedTuple):
    """A draw from one head or from one shard of it.

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
    """Keys of the largest logits of a head, int64 [B]."""
    return greedy_logits(head_logits(hidden, weight, bias, scale), target_ids, bitmask)


def greedy_logits(
    logits: Tensor, target_ids: Tensor | None, bitmask: Tensor | None = None
) -> Tensor:
    """Keys of the largest of given logits, [B, K] of any float dtype and any strides."""
    ids = target_ids_or_range(target_ids, logits)
    return packed_keys.pack(logits, ids, unpack_bitmask(bitmask, ids)).amax(1)


def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    params: SampleParams,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> SampleOutput:
    """An exact draw from softmax(logits / temperature), by the Gumbel-max trick."""
    return sample_logits(head_logits(hidden, weight, bias, scale), target_ids, params, bitmask)


def sample_logits(
    logits: Tensor, target_ids: Tensor | None, params: SampleParams, bitmask: Tensor | None = None
) -> SampleOutput:
    """An exact draw by given logits, [B, K], before logit scale and soft cap."""
    ids = target_ids_or_range(target_ids, logits)
    values = scale_and_cap(logits, params.logit_scale, params.soft_cap)
    rows = torch.arange(len(values), device=values.device)[:, None]
    temperature = params.temperature[:, None]
    noisy = values + temperature * gumbel(params.seed, params.step, rows, ids)
    allowed = unpack_bitmask(bitmask, ids)
    keys = packed_keys.pack(noisy, ids, allowed)
    tempered = divide_by_temperature(values, temperature)
    if allowed is not None:
        tempered = tempered.masked_fill(~allowed, float("-inf"))
    best = keys.argmax(1, keepdim=True)
    logsumexp = tempered.logsumexp(1)
    return SampleOutput(keys.gather(1, best)[:, 0], tempered.gather(1, best)[:, 0], logsumexp)


def scale_and_cap(logits: Tensor, logit_scale: float, soft_cap: float) -> Tensor:
    """Logits as the model means them, float32: scaled, capped, NaN as -inf, +inf finite."""
    values = logits.float() * logit_scale
    if soft_cap:
        values = soft_cap * (values / soft_cap).tanh()
    values = values.clamp_max(LARGEST_FLOAT)
    return torch.where(values.isnan(), float("-inf"), values)


def divide_by_temperature(values: Tensor, temperature: Tensor) -> Tensor:
    """Values / temperature, below infinity; unchanged where the temperature is 0."""
    inverse = torch.where(temperature > 0, temperature, 1.0).reciprocal()
    return (values * inverse).clamp_max(LARGEST_FLOAT)


def target_ids_or_range(target_ids: Tensor | None, logits: Tensor) -> Tensor:
    """The target id of each draft id; int64 [K]."""
    if target_ids is not None:
        return target_ids
    return torch.arange(logits.shape[1], device=logits.device)


def unpack_bitmask(bitmask: Tensor | None, ids: Tensor) -> Tensor | None:
    """The ids that a grammar allows, row by row; None without a grammar.

    Args:
        bitmask: int32 [B, ceil(V / 32)]; bit `i % 32` of column `i // 32` allows the target id i.
        ids: int64 [K], target ids.

    Returns:
        bool [B, K].
    """
    return None if bitmask is None else (bitmask[:, ids >> 5] >> (ids & 31).int()) & 1 == 1


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
    word = philox(seed, ids[None, :], rows, step & _UINT32, (step >> 32) & _UINT32)
    v = (word.float() * 2.0**-32 + 2.0**-33).clamp_max(_LARGEST_UNIFORM)
    # -log(1 - v), exact to float32 where it is small: there the largest noise comes from.
    series = v * (1.0 + v * (1 / 2 + v * (1 / 3 + v * (1 / 4))))
    return -torch.where(v < _SMALL_UNIFORM, series, -(1.0 - v).log()).log()


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
    k0, k1 = seed & _UINT32, (seed >> 32) & _UINT32
    for _ in range(_ROUNDS):
        first, third = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = ((third >> 32) & _UINT32) ^ c1 ^ k0, ((first >> 32) & _UINT32) ^ c3 ^ k1
        c1, c3 = third & _UINT32, first & _UINT32
        k0, k1 = (k0 + _WEYL[0]) & _UINT32, (k1 + _WEYL[1]) & _UINT32
    return c0
