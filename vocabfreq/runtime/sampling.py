"""Drafting beyond the most likely id: `sample`, `topk`, `distribution` and `expand_logits`.

The draft distribution is that of the kept ids alone: every other id has probability 0. Logit scale
and soft cap of the head are applied, since they change probabilities.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import dispatch, packed_keys, tensor_parallel
from vocabfreq.runtime.checks import check_bitmask, check_group, check_hidden, check_logits
from vocabfreq.runtime.dispatch import Backend, uses_triton
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.reference import (
    SampleParams,
    divide_by_temperature,
    target_ids_or_range,
    unpack_bitmask,
)

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


INFINITY = float("inf")
MIN_TEMPERATURE = 1e-20  # below it a temperature is 0: its reciprocal leaves float32


class Chosen(NamedTuple):
    """Drafted ids and their probabilities.

    Attributes:
        ids: target ids, int64, -1 where the grammar allows no (more) kept id.
        logprobs: float32 of the same shape, natural logarithms; -inf beside -1.
    """

    ids: Tensor
    logprobs: Tensor


@torch.no_grad()
def sample(
    head: PrunedHead,
    hidden: Tensor,
    *,
    seed: int | Tensor,
    step: int | Tensor = 0,
    temperature: float | Tensor = 1.0,
    bitmask: Tensor | None = None,
    group: "ProcessGroup | None" = None,
    backend: Backend = "auto",
) -> Chosen:
    """Draws an id for each row from softmax(logits / temperature), exactly.

    The Gumbel-max trick, fused into the head product on a GPU as in FlashSampling
    (arXiv 2603.15854). The noise depends on (seed, step, batch row, target id) alone: the same four
    give the same draw, on one rank or on several.

    Args:
        head: the pruned head, or this rank's shard of it.
        hidden: [B, H], dtype and device of the head.
        seed: a number, or int64 [1] on the device, which a CUDA graph reads at every replay.
        step: likewise; another step draws anew.
        temperature: 0 or more, a number or float32 [B]; 0 takes the most likely id, with
            log-probability 0.
        bitmask: int32 [B, ceil(V / 32)], a bit for each target id that may be chosen.
        group: of the ranks that hold the other shards.
        backend: `triton`, `torch`, or `auto` for what fits the device.

    Returns:
        Target ids [B] and their log-probabilities under the draft distribution [B].

    Raises:
        HeadError: a tensor does not fit, or a number is negative as a temperature. Temperatures in
            a tensor are not looked at, which would wait for the device; below 0 they count as 0.
    """
    check_group(len(head.weight), len(head.vocab), group)
    check_hidden(hidden, head.weight)
    check_bitmask(bitmask, hidden, head.rows)
    temperatures = _temperature_tensor(temperature, hidden)
    params = SampleParams(
        temperatures,
        _int64_tensor(seed, hidden.device),
        _int64_tensor(step, hidden.device),
        head.shape.logit_scale,
        head.shape.soft_cap,
    )
    triton = uses_triton(backend, head.weight.device)
    output = dispatch.sample(hidden, head.tensors, params, bitmask, triton)
    if group is not None:
        output = tensor_parallel.reduce_samples(output, group)
    logprobs = torch.where(temperatures > 0, output.logits - output.logsumexp, 0.0)
    impossible = (output.keys == packed_keys.NOTHING) | (output.logits == -INFINITY)
    logprobs = torch.where(impossible, -INFINITY, logprobs)
    return Chosen(packed_keys.unpack_ids(output.keys), logprobs)


@torch.no_grad()
def topk(
    head: PrunedHead,
    hidden: Tensor,
    k: int,
    *,
    bitmask: Tensor | None = None,
    group: "ProcessGroup | None" = None,
) -> Chosen:
    """The k most likely ids of each row, most likely first, ties by the lower target id.

    Args:
        head: the pruned head, or this rank's shard of it.
        hidden: [B, H], dtype and device of the head.
        k: 1 … K, K being that of the whole head.
        bitmask: int32 [B, ceil(V / 32)], a bit for each target id that may be chosen.
        group: of the ranks that hold the other shards.

    Returns:
        Target ids [B, k] and their log-probabilities [B, k].

    Raises:
        HeadError: a tensor does not fit, or k is out of range.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= len(head.vocab):
        raise HeadError(f"k {k!r}", expected=f"a whole number from 1 to {len(head.vocab)}, K")
    check_group(len(head.weight), len(head.vocab), group)
    logits = head(hidden)
    check_bitmask(bitmask, hidden, head.rows)
    ids = target_ids_or_range(head.target_ids, logits)
    allowed = unpack_bitmask(bitmask, ids)
    keys = packed_keys.pack(logits, ids, allowed)
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -INFINITY)
    logsumexp = logits.logsumexp(1)
    best = keys.topk(min(k, keys.shape[1]), dim=1).values
    if group is not None:
        best, logsumexp = tensor_parallel.merge_topk(best, logsumexp, k, group)
    logprobs = packed_keys.unpack_values(best) - logsumexp[:, None]
    logprobs = torch.where(logprobs.isnan(), -INFINITY, logprobs)
    return Chosen(packed_keys.unpack_ids(best), logprobs)


@torch.no_grad()
def distribution(head: PrunedHead, hidden: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
    """The whole draft distribution, for rejection sampling; of a whole head, not of a shard.

    On a GPU its logits may be rounded as the matrix library rounds them, those of `sample` are not.

    Args:
        head: the pruned head.
        hidden: [B, H], dtype and device of the head.
        temperature: 0 or more, a number or float32 [B]; 0 gives 1 to the most likely id.

    Returns:
        Probabilities by draft id, float32 [B, K]; every other target id has probability 0.

    Raises:
        HeadError: a tensor does not fit, or a temperature is negative.
    """
    check_group(len(head.weight), len(head.vocab), None)
    logits, temperatures = head(hidden), _temperature_tensor(temperature, hidden)[:, None]
    one_hot = torch.zeros_like(logits).scatter_(1, logits.argmax(1, keepdim=True), 1.0)
    softmax = divide_by_temperature(logits, temperatures).softmax(1)
    all_impossible = (logits == -INFINITY).all(1, keepdim=True)
    return torch.where((temperatures > 0) & ~all_impossible, softmax, one_hot)


@torch.no_grad()
def expand_logits(head: PrunedHead, logits: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Puts draft logits where their target ids are, -inf everywhere else.

    Args:
        head: the pruned head.
        logits: [B, K].
        out: [B, V] or wider (rows that are padding get -inf too), of the dtype of the logits.

    Returns:
        [B, V], or `out`.

    Raises:
        HeadError: a tensor does not fit.
    """
    check_logits(logits, head.weight)
    if out is None:
        out = logits.new_empty((len(logits), head.rows))
    narrow = out.dim() != 2 or len(out) != len(logits) or out.shape[1] < head.rows
    if narrow or out.dtype != logits.dtype or out.device != logits.device:
        raise HeadError(
            f"out {out.dtype} {list(out.shape)} on {out.device}",
            expected=f"{logits.dtype} [{len(logits)}, {head.rows}] or wider on {logits.device}",
        )
    out.fill_(float("-inf"))
    if head.target_ids is None:
        out[:, : head.rows].copy_(logits)
        return out
    return out.index_copy_(1, head.target_ids, logits)


def _temperature_tensor(temperature: float | Tensor, hidden: Tensor) -> Tensor:
    """Temperatures as float32 [B]; those on the device are not looked at, which would wait."""
    batch = hidden.shape[0]
    if isinstance(temperature, Tensor):
        fits = temperature.shape in ((), (1,), (batch,)) and temperature.is_floating_point()
        if not fits or temperature.device != hidden.device:
            raise HeadError(
                f"a temperature {temperature.dtype} {list(temperature.shape)} on "
                f"{temperature.device}",
                expected=f"a number, or floats [{batch}] on {hidden.device}",
            )
        temperatures = temperature.float().expand(batch)
        return torch.where(temperatures < MIN_TEMPERATURE, 0.0, temperatures)
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if not is_number or not 0 <= temperature < INFINITY:
        raise HeadError(f"temperature {temperature!r}", expected="a number from 0")
    value = 0.0 if temperature < MIN_TEMPERATURE else float(temperature)
    return torch.full((batch,), value, dtype=torch.float32, device=hidden.device)


def _int64_tensor(value: int | Tensor, device: torch.device) -> Tensor:
    """A seed or step as int64 [1]."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and -(2**63) <= int(value) < 2**63:
        return torch.full((1,), int(value), dtype=torch.int64, device=device)
    fits = isinstance(value, Tensor) and value.dtype == torch.int64 and value.numel() == 1
    if not isinstance(value, Tensor) or not fits or value.device != device:
        raise HeadError(
            f"a seed or step {value!r}",
            expected=f"a whole number of 64 bits, or int64 [1] on {device}",
        )
    return value.reshape(1)
