"""What is refused before anything is computed, each in words."""

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from vocabfreq.errors import HeadError

if TYPE_CHECKING:
    from vocabfreq.runtime.head import PrunedHead

FLOATS = (torch.bfloat16, torch.float16, torch.float32)  # keys are made of float32
BY_ROW = (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2)


class Rows(NamedTuple):
    """Picked rows: weight [K, H], bias [K] or None, scale [K] or None."""

    weight: Tensor
    bias: Tensor | None
    scale: Tensor | None


def rows_of_head(weight: Tensor, bias: Tensor | None, scale: Tensor | None, count: int) -> None:
    """Checks the parts of a head.

    Raises:
        HeadError: naming what is wrong.
    """
    if weight.dim() != 2 or not weight.numel() or len(weight) != count:
        raise HeadError(
            f"a weight of {list(weight.shape)}",
            expected=f"[{count}, H], a row for each kept id, H at least 1",
        )
    weight_dtype(weight, scale)
    for name, part in (("bias", bias), ("scale", scale)):
        if part is not None and part.shape != weight.shape[:1]:
            raise HeadError(
                f"a {name} of {list(part.shape)}", expected=f"[{len(weight)}], one for each row"
            )
        if part is not None and part.device != weight.device:
            raise HeadError(
                f"a {name} on {part.device}", expected=f"{weight.device}, as the weight"
            )


def weight_dtype(weight: Tensor, scale: Tensor | None) -> None:
    """Floats as they are, 8 bits only with a scale by row.

    Raises:
        HeadError: packed weights, or 8 bits without scales.
    """
    if weight.dtype in FLOATS or (weight.dtype in BY_ROW and scale is not None):
        return
    without = " without a scale" if weight.dtype in BY_ROW else ""
    raise HeadError(
        f"a weight of {weight.dtype}{without}",
        expected="bfloat16, float16 or float32, or int8 or float8 with one scale for each row "
        "(scale=…)",
        hint="a head that is packed or quantised in blocks cannot be taken apart by rows: prune it "
        "before quantising, or dequantise it",
    )


def hidden_of(head: "PrunedHead", hidden: Tensor) -> None:
    """Checks hidden states against a head.

    Raises:
        HeadError: rank, size, dtype or device do not fit.
    """
    width = head.weight.shape[1]
    if hidden.dim() != 2 or hidden.shape[1] != width:
        raise HeadError(f"hidden of {list(hidden.shape)}", expected=f"[B, {width}]")
    if hidden.device != head.weight.device:
        raise HeadError(
            f"hidden on {hidden.device}, the head on {head.weight.device}",
            expected="one device",
            hint=f"head.to({str(hidden.device)!r})",
        )
    fits = hidden.dtype == head.weight.dtype
    if head.weight.dtype in BY_ROW:
        fits = hidden.dtype in FLOATS
    if not fits:
        raise HeadError(
            f"hidden of {hidden.dtype}, the head of {head.weight.dtype}",
            expected="one dtype",
            hint=f"head.to({hidden.dtype}), or hidden.to({head.weight.dtype})",
        )


def whole_or_group(head: "PrunedHead", group: object) -> None:
    """A shard knows only its own rows: alone it would answer wrongly.

    Raises:
        HeadError: a shard without a group.
    """
    if group is None and len(head.weight) != len(head.vocab):
        raise HeadError(
            f"a shard of {len(head.weight):,} of {len(head.vocab):,} rows, and no group",
            expected="group=, of the ranks that hold the others, or a whole head",
        )


def logits_of(head: "PrunedHead", logits: Tensor) -> None:
    """Checks draft logits against a head.

    Raises:
        HeadError: rank, size, dtype or device do not fit.
    """
    size = len(head.weight)
    if logits.dim() != 2 or logits.shape[1] != size or logits.dtype not in FLOATS:
        raise HeadError(
            f"logits {logits.dtype} {list(logits.shape)}", expected=f"floats [B, {size}]"
        )
    if logits.device != head.weight.device:
        raise HeadError(f"logits on {logits.device}", expected=f"{head.weight.device}, as the head")


def bitmask_of(head: "PrunedHead", bitmask: Tensor | None, batch: int) -> None:
    """Checks a grammar bitmask.

    Raises:
        HeadError: dtype, shape or device do not fit.
    """
    words = -(-head.rows // 32)
    if bitmask is None:
        return
    small = bitmask.dim() != 2 or len(bitmask) != batch or bitmask.shape[1] < words
    if bitmask.dtype != torch.int32 or small or bitmask.device != head.weight.device:
        raise HeadError(
            f"a bitmask {bitmask.dtype} {list(bitmask.shape)} on {bitmask.device}",
            expected=f"torch.int32 [{batch}, {words}] on {head.weight.device}: a bit for each "
            "target id",
        )


def output(out: Tensor, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> None:
    """Checks an output buffer.

    Raises:
        HeadError: shape, dtype, device or strides do not fit.
    """
    fits = tuple(out.shape) == shape and out.dtype == dtype and out.device == device
    if not fits or not out.is_contiguous():
        kind = "" if out.is_contiguous() else ", not contiguous"
        raise HeadError(
            f"out {out.dtype} {list(out.shape)} on {out.device}{kind}",
            expected=f"{dtype} {list(shape)} on {device}, contiguous",
        )


def same_kind(head: "PrunedHead", new: Rows) -> None:
    """Checks that new rows can replace those of a head in place.

    Raises:
        HeadError: naming the part that differs.
    """
    for name, part in new._asdict().items():
        old = getattr(head, name)
        if (old is None) != (part is None):
            has, lacks = ("the old", "the new") if part is None else ("the new", "the old")
            raise HeadError(f"{has} head has a {name}, {lacks} has none", expected="the same parts")
        if old is not None and (old.shape != part.shape or old.dtype != part.dtype):
            raise HeadError(
                f"a new {name} {part.dtype} {list(part.shape)}",
                expected=f"{old.dtype} {list(old.shape)}, as it was pruned",
                hint="prune the new head instead (prune_lm_head)",
            )
