"""Packed keys, and with them the tie rule: of equal logits the lowest target id wins.

A packed key holds a float32 value and a target id in one int64. The high half is the value's bits
in an order that integers keep; the low half is the complement of the target id. So the largest key
belongs to the largest value and, among equal values, to the lowest target id. -0.0 equals +0.0, and
NaN counts as -inf.

A maximum of integers does not depend on the order of its operands. Tiles, programs and ranks are
therefore reduced by a plain maximum of keys, and the result repeats bit for bit. Where a grammar
allows no id the key is `NOTHING`, which unpacks to the id -1.

`kernels.pack` is the same function in Triton.
"""

import torch
from torch import Tensor

NOTHING = -(2**63)
_SIGN, _LOW = 0x7FFFFFFF, 0xFFFFFFFF


def pack(values: Tensor, ids: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Packs values and their target ids.

    Args:
        values: floats of any shape.
        ids: int64 target ids, 0 … 2**31 - 1, of a shape that broadcasts with the values.
        allowed: bool, False where an id may not be chosen.

    Returns:
        int64 of the shape of the values.
    """
    numbers = torch.where(values.isnan(), float("-inf"), values.float()) + 0.0
    bits = numbers.view(torch.int32)
    ordered = (bits ^ ((bits >> 31) & _SIGN)).long()
    keys = (ordered << 32) | (_LOW - ids)
    return keys if allowed is None else torch.where(allowed, keys, NOTHING)


def unpack_ids(keys: Tensor) -> Tensor:
    """The target ids of keys, -1 for `NOTHING`; int64 of the same shape."""
    return (_LOW - (keys & _LOW)).to(torch.int32).long()


def unpack_values(keys: Tensor) -> Tensor:
    """The values of keys, -inf for `NOTHING`; float32 of the same shape."""
    ordered = (keys >> 32).to(torch.int32)
    bits = ordered ^ ((ordered >> 31) & _SIGN)
    return torch.where(keys == NOTHING, float("-inf"), bits.view(torch.float32))
