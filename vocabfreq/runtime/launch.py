"""Launches the Triton kernels, with the signatures and results of `reference`.

Nothing is checked here and nothing waits for the device. Where `out` and `scratch` are given,
nothing is allocated. The first call of a shape on a GPU times a short list of block sizes
(`configs`), so it must come before a CUDA graph is captured; later calls of that shape may be
captured.

Blocks of 64 or 128 draft rows make 256 to 512 programs of a head of 32,768 rows: a full card at
B = 1. Triton's interpreter takes `INTERPRETER_CONFIG`, so small that a test of a few hundred rows
meets every tile edge.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from vocabfreq.runtime import kernels
from vocabfreq.runtime.reference import SampleOutput, SampleParams

INTERPRETED = bool(kernels.INTERPRETED.value)
BUCKETS = 16, 32, 64  # batch rows of one program; tl.dot takes 16 or more
LOGITS_BLOCK, LOGITS_WARPS = 1024, 4
FINISH_BLOCK, FINISH_WARPS = 512, 4
_FLOAT8_CAPABILITY = 89  # older cards cannot convert float8


class Config(NamedTuple):
    """Block sizes of the head kernel.

    Attributes:
        block_k: draft rows of a program.
        block_h: hidden numbers of a step, 16 or more, 32 for weights of 8 bits.
        num_warps: warps of a program.
        num_stages: steps whose loads are in flight.
    """

    block_k: int
    block_h: int
    num_warps: int
    num_stages: int


INTERPRETER_CONFIG = Config(32, 32, 1, 1)
# `make kernels-test` holds these lists to no spilled registers, with the oldest supported, the
# pinned and the newest Triton; it compiles each once for each kind of weight.
_SMALL_BATCH = Config(64, 128, 4, 4), Config(128, 64, 4, 4)
_LARGE_BATCH = Config(128, 64, 8, 4), Config(128, 128, 8, 3)
# From sm_100 on, other blocks for 64 batch rows spill with Triton 3.3 or 3.9, of 8 bits too.
_LARGE_BATCH_SM100 = Config(64, 128, 8, 4), Config(64, 128, 8, 3)
_8_BITS = Config(64, 128, 4, 4), Config(128, 128, 8, 4)
_FLOAT32 = Config(64, 32, 4, 4), Config(64, 64, 4, 3)
_FLOAT32_LARGE_BATCH = (Config(64, 32, 8, 4),)
_16_BITS = _SMALL_BATCH + _LARGE_BATCH + _LARGE_BATCH_SM100
ALL_CONFIGS = tuple(dict.fromkeys(_16_BITS + _8_BITS + _FLOAT32 + _FLOAT32_LARGE_BATCH))


def bucket(batch: int) -> int:
    """The smallest bucket that holds a batch, the largest where none does."""
    return next((b for b in BUCKETS if batch <= b), BUCKETS[-1])


def configs(
    bucket: int, hidden_bytes: int, weight_bytes: int, capability: int
) -> tuple[Config, ...]:
    """The configurations that are timed.

    Args:
        bucket: batch rows of one program.
        hidden_bytes: of one number of hidden.
        weight_bytes: of one number of the weight.
        capability: of the card, 90 for sm_90.
    """
    if hidden_bytes == 4:  # products of float32 take no tensor cores, but registers
        return _FLOAT32 if bucket == BUCKETS[0] else _FLOAT32_LARGE_BATCH
    if bucket == BUCKETS[-1] and capability >= 100:
        return _LARGE_BATCH_SM100
    if weight_bytes == 1:
        return _8_BITS
    return _SMALL_BATCH if bucket < BUCKETS[-1] else _LARGE_BATCH


def scratch_size(batch: int, draft_rows: int) -> int:
    """Numbers of int64 that `scratch` must hold: a key for every batch row and tile."""
    smallest = INTERPRETER_CONFIG.block_k if INTERPRETED else min(c.block_k for c in ALL_CONFIGS)
    return batch * -(-draft_rows // smallest)


def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    scratch: Tensor | None = None,
) -> Tensor:
    """Keys of the largest logits of a head.

    Args:
        hidden: [B, H], any strides.
        weight: [K, H], contiguous, of the dtype of hidden, int8 or float8_e4m3fn.
        target_ids: int64 [K], None where draft ids are target ids.
        bias: [K].
        scale: [K], multiplies the products.
        bitmask: int32 [B, ceil(V / 32)].
        out: int64 [B]; gets target ids, -1 where nothing was allowed.
        scratch: int64, at least `scratch_size(B, K)` numbers.

    Returns:
        int64 [B], keys, or `out` where it was given.
    """
    keys = _tile_keys(hidden, weight.shape[0], scratch)
    result = _result(hidden, out)
    if len(hidden):
        tiles = _launch_head(hidden, weight, (scale, bias), target_ids, bitmask, None, keys, None)
        _launch_finish(keys, None, result, None, None, tiles, out is not None)
    return result


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    scratch: Tensor | None = None,
) -> Tensor:
    """Keys of the largest of given logits, [B, K] of any float dtype and any strides."""
    keys = _tile_keys(logits, logits.shape[1], scratch)
    result = _result(logits, out)
    if len(logits):
        tiles = _launch_logits(logits, target_ids, bitmask, None, keys, None)
        _launch_finish(keys, None, result, None, None, tiles, out is not None)
    return result


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
    keys, stats, output = _sample_buffers(hidden, weight.shape[0])
    if len(hidden):
        tiles = _launch_head(
            hidden, weight, (scale, bias), target_ids, bitmask, params, keys, stats
        )
        _launch_finish(keys, stats, *output, tiles, False)
    return output


def sample_logits(
    logits: Tensor, target_ids: Tensor | None, params: SampleParams, bitmask: Tensor | None = None
) -> SampleOutput:
    """An exact draw by given logits, [B, K], before logit scale and soft cap."""
    keys, stats, output = _sample_buffers(logits, logits.shape[1])
    if len(logits):
        tiles = _launch_logits(logits, target_ids, bitmask, params, keys, stats)
        _launch_finish(keys, stats, *output, tiles, False)
    return output


def _tile_keys(batch: Tensor, draft_rows: int, scratch: Tensor | None) -> Tensor:
    if scratch is not None:
        return scratch
    return batch.new_empty(scratch_size(len(batch), draft_rows), dtype=torch.int64)


def _result(batch: Tensor, out: Tensor | None) -> Tensor:
    return batch.new_empty(len(batch), dtype=torch.int64) if out is None else out


def _sample_buffers(batch: Tensor, draft_rows: int) -> tuple[Tensor, Tensor, SampleOutput]:
    keys = _tile_keys(batch, draft_rows, None)
    stats = batch.new_empty(3 * len(keys), dtype=torch.float32)
    logits, logsumexp = batch.new_empty((2, len(batch)), dtype=torch.float32)
    return keys, stats, SampleOutput(_result(batch, None), logits, logsumexp)


def _launch_head(
    hidden: Tensor,
    weight: Tensor,
    scale_and_bias: tuple[Tensor | None, Tensor | None],
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    params: SampleParams | None,
    keys: Tensor,
    stats: Tensor | None,
) -> int:
    """Launches the head kernel; gives its number of tiles."""
    (batch, width), draft_rows = hidden.shape, weight.shape[0]
    block_b = bucket(batch)
    mask_strides, sampling, transform = _optional_arguments(bitmask, params)
    kernel, block_sizes = _head_kernel()
    tiles = 0

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        nonlocal tiles  # the launch that counts comes after those that were timed
        tiles = -(-draft_rows // meta["BLOCK_K"])
        return tiles, -(-batch // block_b)

    with _on_device_of(hidden):
        kernel[grid](
            hidden, _float8_as_bytes(weight), *scale_and_bias,
            target_ids, bitmask, *sampling, keys, stats,
            batch, draft_rows, width, *hidden.stride(), *mask_strides, *transform,
            BLOCK_B=block_b, **block_sizes,
        )  # fmt: skip
    return tiles


def _launch_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    params: SampleParams | None,
    keys: Tensor,
    stats: Tensor | None,
) -> int:
    """Launches the logits kernel; gives its number of tiles."""
    batch, draft_rows = logits.shape
    mask_strides, sampling, transform = _optional_arguments(bitmask, params)
    tiles = -(-draft_rows // LOGITS_BLOCK)
    with _on_device_of(logits):
        kernels.logits_kernel[batch, tiles](
            logits, target_ids, bitmask, *sampling, keys, stats,
            batch, draft_rows, *logits.stride(), *mask_strides, *transform,
            BLOCK_K=LOGITS_BLOCK, num_warps=LOGITS_WARPS,
        )  # fmt: skip
    return tiles


def _launch_finish(
    keys: Tensor,
    stats: Tensor | None,
    result: Tensor,
    logits: Tensor | None,
    logsumexp: Tensor | None,
    tiles: int,
    as_ids: bool,
) -> None:
    with _on_device_of(result):
        kernels.finish_kernel[(len(result),)](
            keys, stats, result, logits, logsumexp, len(result), tiles, result.stride(0),
            IDS=as_ids, BLOCK_T=FINISH_BLOCK, num_warps=FINISH_WARPS,
        )  # fmt: skip


def _on_device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Makes the tensor's device the current one, which is where Triton launches."""
    context: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return context


def _optional_arguments(
    bitmask: Tensor | None, params: SampleParams | None
) -> tuple[tuple[int, ...], tuple[Tensor | None, ...], tuple[Any, ...]]:
    """Strides of the bitmask; temperature, seed, step; temperature's stride, scale and cap."""
    strides = (0, 0) if bitmask is None else bitmask.stride()
    if params is None:
        return strides, (None, None, None), (0, 1.0, None)
    scale, cap = float(params.logit_scale), float(params.soft_cap) or None
    sampling = params.temperature, params.seed, params.step
    return strides, sampling, (params.temperature.stride(0), scale, cap)


def _float8_as_bytes(weight: Tensor) -> Tensor:
    """The weight, as bytes where it is float8 and the card cannot convert that."""
    if weight.dtype != torch.float8_e4m3fn or not weight.is_cuda:
        return weight
    return weight if _capability(weight) >= _FLOAT8_CAPABILITY else weight.view(torch.uint8)


def _capability(tensor: Tensor) -> int:
    major, minor = torch.cuda.get_device_capability(tensor.device)
    return 10 * major + minor


def _head_kernel() -> tuple[Any, dict[str, int]]:
    """The head kernel, and the block sizes that the autotuner does not set."""
    if INTERPRETED:
        return kernels.head_kernel, _block_sizes(INTERPRETER_CONFIG)
    return _autotuned(), {}


def _block_sizes(config: Config) -> dict[str, int]:
    return {"BLOCK_K": config.block_k, "BLOCK_H": config.block_h}


@cache
def _autotuned() -> Any:
    """The head kernel with its autotuner, which Triton 3.2 and 3.3 can only make beside a GPU."""
    tuned = triton.autotune(
        [
            triton.Config(_block_sizes(c), num_warps=c.num_warps, num_stages=c.num_stages)
            for c in ALL_CONFIGS
        ],
        key=["K", "H", "BLOCK_B"],
        prune_configs_by={"early_config_prune": _fitting},
    )
    return tuned(kernels.head_kernel)


def _fitting(every: list[Any], tensors: dict[str, Any], **meta: Any) -> list[Any]:
    """Of one item for each of `ALL_CONFIGS`, those that are timed for these tensors."""
    hidden, weight = tensors["hidden"], tensors["weight"]
    sizes = hidden.element_size(), weight.element_size()
    chosen = configs(meta["BLOCK_B"], *sizes, _capability(hidden))
    return [one for one, config in zip(every, ALL_CONFIGS, strict=True) if config in chosen]
