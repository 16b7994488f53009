"""Checks of the tensors of a head and of a sampler call; every failure raises `HeadError`.

Each message names the value, what was expected and, where there is one, the way out. Only shapes,
dtypes and devices are looked at, so no check waits for a device.
"""

import torch
from torch import Tensor

from vocabfreq.errors import HeadError

FLOATS = (torch.bfloat16, torch.float16, torch.float32)  # packed keys are made of float32
SCALED = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)  # need a scale for each row


def check_head(weight: Tensor, bias: Tensor | None, scale: Tensor | None, rows: int) -> None:
    """Checks the tensors of a head of some rows.

    Raises:
        HeadError: their shapes, dtypes or devices do not fit together.
    """
    if weight.dim() != 2 or not weight.numel() or len(weight) != rows:
        raise HeadError(
            f"a weight of {list(weight.shape)}",
            expected=f"[{rows}, H], a row for each kept id, H at least 1",
        )
    check_weight_dtype(weight, scale)
    for name, tensor in (("bias", bias), ("scale", scale)):
        if tensor is None:
            continue
        if tensor.shape != weight.shape[:1]:
            raise HeadError(
                f"a {name} of {list(tensor.shape)}", expected=f"[{len(weight)}], one for each row"
            )
        if tensor.device != weight.device:
            raise HeadError(
                f"a {name} on {tensor.device}", expected=f"{weight.device}, as the weight"
            )


def check_weight_dtype(weight: Tensor, scale: Tensor | None) -> None:
    """Accepts floats, and 8 bits with a scale for each row.

    Raises:
        HeadError: packed weights, or 8 bits without scales.
    """
    if weight.dtype in FLOATS or (weight.dtype in SCALED and scale is not None):
        return
    without = " without a scale" if weight.dtype in SCALED else ""
    raise HeadError(
        f"a weight of {weight.dtype}{without}",
        expected="bfloat16, float16 or float32, or int8 or float8 with one scale for each row "
        "(scale=…)",
        hint="a head that is packed or quantised in blocks cannot be taken apart by rows: prune it "
        "before quantising, or dequantise it",
    )


def check_hidden(hidden: Tensor, weight: Tensor) -> None:
    """Checks hidden states against the weight of a head.

    Raises:
        HeadError: rank, size, dtype or device do not fit.
    """
    width = weight.shape[1]
    if hidden.dim() != 2 or hidden.shape[1] != width:
        raise HeadError(f"hidden of {list(hidden.shape)}", expected=f"[B, {width}]")
    if hidden.device != weight.device:
        raise HeadError(
            f"hidden on {hidden.device}, the head on {weight.device}",
            expected="one device",
            hint=f"head.to({str(hidden.device)!r})",
        )
    accepted = FLOATS if weight.dtype in SCALED else (weight.dtype,)
    if hidden.dtype not in accepted:
        raise HeadError(
            f"hidden of {hidden.dtype}, the head of {weight.dtype}",
            expected="one dtype",
            hint=f"head.to({hidden.dtype}), or hidden.to({weight.dtype})",
        )


def check_group(shard_rows: int, head_rows: int, group: object) -> None:
    """Refuses a shard without the group of the other ranks: alone its answer would be wrong.

    Raises:
        HeadError: a shard, and no group.
    """
    if group is None and shard_rows != head_rows:
        raise HeadError(
            f"a shard of {shard_rows:,} of {head_rows:,} rows, and no group",
            expected="group=, of the ranks that hold the others, or a whole head",
        )


def check_logits(logits: Tensor, weight: Tensor) -> None:
    """Checks draft logits against the weight of a head.

    Raises:
        HeadError: rank, size, dtype or device do not fit.
    """
    rows = len(weight)
    if logits.dim() != 2 or logits.shape[1] != rows or logits.dtype not in FLOATS:
        raise HeadError(
            f"logits {logits.dtype} {list(logits.shape)}", expected=f"floats [B, {rows}]"
        )
    if logits.device != weight.device:
        raise HeadError(f"logits on {logits.device}", expected=f"{weight.device}, as the head")


def check_bitmask(bitmask: Tensor | None, batch: Tensor, target_rows: int) -> None:
    """Checks a grammar bitmask against a batch, [B, …], and V.

    Raises:
        HeadError: dtype, shape or device do not fit.
    """
    if bitmask is None:
        return
    rows, columns = batch.shape[0], -(-target_rows // 32)
    fits = bitmask.dim() == 2 and len(bitmask) == rows and bitmask.shape[1] >= columns
    if bitmask.dtype != torch.int32 or not fits or bitmask.device != batch.device:
        raise HeadError(
            f"a bitmask {bitmask.dtype} {list(bitmask.shape)} on {bitmask.device}",
            expected=f"torch.int32 [{rows}, {columns}] on {batch.device}: a bit for each target id",
        )


def check_output(
    out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """Checks an output buffer.

    Raises:
        HeadError: shape, dtype, device or strides do not fit.
    """
    fits = tuple(out.shape) == shape and out.dtype == dtype and out.device == device
    if not fits or not out.is_contiguous():
        strided = "" if out.is_contiguous() else ", not contiguous"
        raise HeadError(
            f"out {out.dtype} {list(out.shape)} on {out.device}{strided}",
            expected=f"{dtype} {list(shape)} on {device}, contiguous",
        )
