"""Launchers of the kernels, with the signatures and results of `reference`.

They check nothing and never wait for the device. Where `out` and `scratch` are given they allocate
nothing. The first call with a shape times a few configurations (`tuning`), so it must come before
a CUDA graph is captured; later calls with that shape may be captured.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
import triton
from torch import Tensor

from vocabfreq.runtime import kernels, tuning
from vocabfreq.runtime.reference import Draw, Drawn

INTERPRETED = bool(kernels.INTERPRETED.value)
_FLOAT8_CAPABILITY = 8, 9


def scratch_size(batch: int, draft_rows: int) -> int:
    """Numbers of int64 that `scratch` must hold: a key for every batch row and tile."""
    smallest = tuning.INTERPRETED.block_k if INTERPRETED else tuning.SMALLEST
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
    parts = _scratch(hidden, weight.shape[0], scratch)
    result = _result(hidden, out)
    if len(hidden):
        tiles = _head(hidden, weight, (scale, bias), target_ids, bitmask, None, parts, None)
        _finish(parts, None, result, None, None, tiles, out is not None)
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
    parts = _scratch(logits, logits.shape[1], scratch)
    result = _result(logits, out)
    if len(logits):
        tiles = _logits(logits, target_ids, bitmask, None, parts, None)
        _finish(parts, None, result, None, None, tiles, out is not None)
    return result


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
    parts, stats, drawn = _sampling(hidden, weight.shape[0])
    if len(hidden):
        tiles = _head(hidden, weight, (scale, bias), target_ids, bitmask, draw, parts, stats)
        _finish(parts, stats, *drawn, tiles, False)
    return drawn


def sample_logits(
    logits: Tensor, target_ids: Tensor | None, draw: Draw, bitmask: Tensor | None = None
) -> Drawn:
    """The same over given logits, [B, K], before logit scale and soft cap."""
    parts, stats, drawn = _sampling(logits, logits.shape[1])
    if len(logits):
        tiles = _logits(logits, target_ids, bitmask, draw, parts, stats)
        _finish(parts, stats, *drawn, tiles, False)
    return drawn


def _scratch(like: Tensor, draft_rows: int, scratch: Tensor | None) -> Tensor:
    if scratch is not None:
        return scratch
    return like.new_empty(scratch_size(len(like), draft_rows), dtype=torch.int64)


def _result(like: Tensor, out: Tensor | None) -> Tensor:
    return like.new_empty(len(like), dtype=torch.int64) if out is None else out


def _sampling(like: Tensor, draft_rows: int) -> tuple[Tensor, Tensor, Drawn]:
    parts = _scratch(like, draft_rows, None)
    stats = like.new_empty(3 * len(parts), dtype=torch.float32)
    logits, logsumexp = like.new_empty((2, len(like)), dtype=torch.float32)
    return parts, stats, Drawn(_result(like, None), logits, logsumexp)


def _head(
    hidden: Tensor,
    weight: Tensor,
    affine: tuple[Tensor | None, Tensor | None],
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    draw: Draw | None,
    parts: Tensor,
    stats: Tensor | None,
) -> int:
    """Launches the head kernel and gives its number of tiles."""
    (batch, width), draft_rows = hidden.shape, weight.shape[0]
    block_b = tuning.bucket(batch)
    masks, heat, shape = _optional(bitmask, draw)
    tiles = 0

    def grid(meta: dict[str, Any]) -> tuple[int, int]:
        nonlocal tiles  # the launch that counts comes after those that were timed
        tiles = -(-draft_rows // meta["BLOCK_K"])
        return tiles, -(-batch // block_b)

    with _on(hidden):
        _kernel()[grid](
            hidden, _readable(weight), *affine, target_ids, bitmask, *heat, parts, stats,
            batch, draft_rows, width, *hidden.stride(), *masks, *shape,
            BLOCK_B=block_b, **_blocks(),
        )  # fmt: skip
    return tiles


def _logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    draw: Draw | None,
    parts: Tensor,
    stats: Tensor | None,
) -> int:
    """Launches the logits kernel and gives its number of tiles."""
    batch, draft_rows = logits.shape
    masks, heat, shape = _optional(bitmask, draw)
    tiles = -(-draft_rows // tuning.LOGITS_BLOCK)
    with _on(logits):
        kernels.logits_kernel[batch, tiles](
            logits, target_ids, bitmask, *heat, parts, stats,
            batch, draft_rows, *logits.stride(), *masks, *shape,
            BLOCK_K=tuning.LOGITS_BLOCK, num_warps=tuning.LOGITS_WARPS,
        )  # fmt: skip
    return tiles


def _finish(
    parts: Tensor,
    stats: Tensor | None,
    result: Tensor,
    logits: Tensor | None,
    logsumexp: Tensor | None,
    tiles: int,
    as_ids: bool,
) -> None:
    with _on(result):
        kernels.finish_kernel[(len(result),)](
            parts, stats, result, logits, logsumexp, len(result), tiles, result.stride(0),
            IDS=as_ids, BLOCK_T=tuning.FINISH_BLOCK, num_warps=tuning.FINISH_WARPS,
        )  # fmt: skip


def _on(tensor: Tensor) -> AbstractContextManager[None]:
    """Makes the tensor's device the current one, which is where Triton launches."""
    where: AbstractContextManager[None] = torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]
    return where


def _optional(
    bitmask: Tensor | None, draw: Draw | None
) -> tuple[tuple[int, ...], tuple[Tensor | None, ...], tuple[Any, ...]]:
    """Strides of the bitmask; temperature, seed, step; temperature's stride, scale and cap."""
    masks = (0, 0) if bitmask is None else bitmask.stride()
    if draw is None:
        return masks, (None, None, None), (0, 1.0, None)
    shape = draw.temperature.stride(0), float(draw.logit_scale), float(draw.soft_cap) or None
    return masks, (draw.temperature, draw.seed, draw.step), shape


def _readable(weight: Tensor) -> Tensor:
    """The weight, as bytes where it is float8 and the device cannot convert that."""
    if weight.dtype != torch.float8_e4m3fn or not weight.is_cuda:
        return weight
    capable = torch.cuda.get_device_capability(weight.device) >= _FLOAT8_CAPABILITY
    return weight if capable else weight.view(torch.uint8)


def _kernel() -> Any:
    return kernels.head_kernel if INTERPRETED else _tuned


def _blocks() -> dict[str, int]:
    if not INTERPRETED:
        return {}
    return _arguments(tuning.INTERPRETED)


def _arguments(config: tuning.Config) -> dict[str, int]:
    return {"BLOCK_K": config.block_k, "BLOCK_H": config.block_h}


def _fitting(every: list[Any], args: dict[str, Any], **kwargs: Any) -> list[Any]:
    sizes = args["hidden"].element_size(), args["weight"].element_size()
    chosen = tuning.configs(kwargs["BLOCK_B"], *sizes)
    return [
        each for each, config in zip(every, tuning.every_config(), strict=True) if config in chosen
    ]


_tuned = triton.autotune(
    [
        triton.Config(_arguments(c), num_warps=c.num_warps, num_stages=c.num_stages)
        for c in tuning.every_config()
    ],
    key=["K", "H", "BLOCK_B"],
    prune_configs_by={"early_config_prune": _fitting},
)(kernels.head_kernel)
