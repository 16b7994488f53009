"""Packed grammar bitmasks over target ids, as xgrammar and llguidance make them."""

from torch import Tensor


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
