"""Packed keys: a value and an id in one int64, so that one maximum finds both and settles ties.

The high half holds the bits of a float32 in an order that whole numbers keep, the low half the
complement of the target id: of equal values the lowest target id has the largest key. A maximum of
keys is the same in any order and on any device, which makes it the reduction across tiles, programs
and ranks. Where nothing is allowed the key is `NOTHING`, which unpacks to the id -1.
"""

import torch
from torch import Tensor

NOTHING = -(2**63)
_SIGN, _LOW = 0x7FFFFFFF, 0xFFFFFFFF


def pack(values: Tensor, ids: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Keys of values and their target ids.

    Args:
        values: floats of any shape; NaN counts as -inf, -0.0 as +0.0.
        ids: int64 target ids, 0 … 2**31 - 1, of a shape that broadcasts with the values.
        allowed: bool, where an id may be chosen at all.

    Returns:
        int64 of the shape of the values.
    """
    numbers = torch.where(values.isnan(), float("-inf"), values.float()) + 0.0
    bits = numbers.view(torch.int32)
    ordered = (bits ^ ((bits >> 31) & _SIGN)).long()
    keys = (ordered << 32) | (_LOW - ids)
    return keys if allowed is None else torch.where(allowed, keys, NOTHING)


def ids_of(keys: Tensor) -> Tensor:
    """The target ids of keys, -1 where nothing was allowed; int64 of the same shape."""
    return (_LOW - (keys & _LOW)).to(torch.int32).long()


def values_of(keys: Tensor) -> Tensor:
    """The values of keys, -inf where nothing was allowed; float32 of the same shape."""
    ordered = (keys >> 32).to(torch.int32)
    bits = ordered ^ ((ordered >> 31) & _SIGN)
    return torch.where(keys == NOTHING, float("-inf"), bits.view(torch.float32))
