"""Launchers of the kernels, with the signatures and results of `reference`.

They check nothing and never wait for the device. Where `out` and `scratch` are given they allocate
nothing. The first call with a shape times a few configurations (`tuning`), so it must come before
a CUDA graph is captured; later calls with that shape may be captured.

Block sizes of the kernels: a short list for each batch bucket and weight width.

Nothing here needs Triton or a GPU. On a card `launch` times the list once for every shape; the
interpreter takes `INTERPRETER_CONFIG`, so small that a test of a few hundred rows meets every tile
edge.
Blocks of 64 or 128 rows make 256 to 512 programs of a head of 32,768 rows: a full card at B = 1.
"""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from vocabfreq.runtime import kernels
from vocabfreq.runtime.reference import Draw, Drawn

BUCKETS = 16, 32, 64  # rows of a batch that one program takes; tl.dot takes 16 or more


class Config(NamedTuple):
    """One way to cut the head.

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
LOGITS_BLOCK, LOGITS_WARPS = 1024, 4
FINISH_BLOCK, FINISH_WARPS = 512, 4

# Chosen so that no kernel spills on any target (tests/helpers/kernelcases.py).
_WIDE = Config(64, 128, 4, 4), Config(128, 64, 4, 4)
_TALL = Config(128, 64, 8, 4), Config(128, 128, 8, 3)
_BYTES = Config(64, 128, 4, 4), Config(128, 128, 8, 4)
_FLOAT = Config(64, 32, 4, 4), Config(64, 64, 4, 3)
_FLOAT_TALL = (Config(64, 32, 8, 4),)
SMALLEST = min(c.block_k for c in (*_WIDE, *_TALL, *_BYTES, *_FLOAT, *_FLOAT_TALL))


def bucket(batch: int) -> int:
    """The smallest bucket that holds a batch, the largest where none does."""
    return next((b for b in BUCKETS if batch <= b), BUCKETS[-1])


def configs(bucket: int, hidden_bytes: int, weight_bytes: int) -> tuple[Config, ...]:
    """The list for a bucket and for the bytes of a number of hidden and of weight."""
    if hidden_bytes == 4:  # products of float32 take no tensor cores, but registers
        return _FLOAT if bucket == BUCKETS[0] else _FLOAT_TALL
    if weight_bytes == 1:
        return _BYTES
    return _WIDE if bucket < BUCKETS[-1] else _TALL


def every_config() -> tuple[Config, ...]:
    """All that occur, each once."""
    lists = (configs(b, h, w) for b in BUCKETS for h in (2, 4) for w in (1, 2, 4))
    return tuple(dict.fromkeys(config for each in lists for config in each))


INTERPRETED = bool(kernels.INTERPRETED.value)
_FLOAT8_CAPABILITY = 8, 9


def scratch_size(batch: int, draft_rows: int) -> int:
    """Numbers of int64 that `scratch` must hold: a key for every batch row and tile."""
    smallest = INTERPRETER_CONFIG.block_k if INTERPRETED else SMALLEST
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
    block_b = bucket(batch)
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
    tiles = -(-draft_rows // LOGITS_BLOCK)
    with _on(logits):
        kernels.logits_kernel[batch, tiles](
            logits, target_ids, bitmask, *heat, parts, stats,
            batch, draft_rows, *logits.stride(), *masks, *shape,
            BLOCK_K=LOGITS_BLOCK, num_warps=LOGITS_WARPS,
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
            IDS=as_ids, BLOCK_T=FINISH_BLOCK, num_warps=FINISH_WARPS,
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
    return _arguments(INTERPRETER_CONFIG)


def _arguments(config: Config) -> dict[str, int]:
    return {"BLOCK_K": config.block_k, "BLOCK_H": config.block_h}


def _fitting(every: list[Any], args: dict[str, Any], **kwargs: Any) -> list[Any]:
    sizes = args["hidden"].element_size(), args["weight"].element_size()
    chosen = configs(kwargs["BLOCK_B"], *sizes)
    return [each for each, config in zip(every, every_config(), strict=True) if config in chosen]


_tuned = triton.autotune(
    [
        triton.Config(_arguments(c), num_warps=c.num_warps, num_stages=c.num_stages)
        for c in every_config()
    ],
    key=["K", "H", "BLOCK_B"],
    prune_configs_by={"early_config_prune": _fitting},
)(kernels.head_kernel)
