"""Checks of the maps in a drafter: d2t and t2d."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.tensors import Tensor, is_map

Array = npt.NDArray[Any]


def check_d2t(d2t: Tensor, t2d: Tensor | None, rows: int, size: int) -> Iterator[Finding]:
    """What is wrong with offsets.

    Args:
        d2t: the tensor.
        t2d: the mask, if there is one; it can tell offsets from ids.
        rows: V.
        size: K.
    """
    if not is_map(d2t):
        yield finding("d2t-shape", f"{d2t}, not whole numbers [K]")
        return
    offsets = d2t.array().astype(np.int64)
    if len(offsets) != size:
        yield finding("d2t-shape", f"{d2t} has {len(offsets):,} entries for K = {size:,} rows")
    ids = offsets + np.arange(len(offsets))
    if len(offsets) < rows and not offsets.any():
        yield finding("d2t-zero", f"all {len(offsets):,} offsets of d2t are 0 although K < V")
    elif _holds_ids(offsets, mask_of(t2d, rows), rows):
        yield finding("d2t-absolute", _absolute(offsets, ids, rows))
    elif not _ascending(ids, rows):
        yield from _wrong_ids(ids, rows)
    elif mask_of(t2d, rows) is None and len(ids) > 1 and _ascending(offsets, rows):
        yield finding(
            "d2t-unclear",
            f"d2t could hold offsets or target ids: {offsets[0]} … {offsets[-1]} are unique and "
            "ascending either way, and no t2d tells",
        )


def mask_of(t2d: Tensor | None, rows: int) -> Array | None:
    """The mask as truth values [V]; None where there is none that can be one."""
    fits = t2d is not None and t2d.dtype == "BOOL" and t2d.shape == (rows,)
    return t2d.array() if fits and t2d is not None else None


def _holds_ids(offsets: Array, mask: Array | None, rows: int) -> bool:
    """Whether these are target ids where offsets belong, as far as that can be told."""
    ids = offsets + np.arange(len(offsets))
    if mask is not None:
        as_offsets, as_ids = (
            _kept(one, rows)[1] == len(one) and np.array_equal(_kept(one, rows)[0], mask)
            for one in (ids, offsets)
        )
        if as_offsets or as_ids:
            return not as_offsets
    return not _ascending(ids, rows) and _ascending(offsets, rows)


def _kept(ids: Array, rows: int) -> tuple[Array, int]:
    """The mask of ids, and how many different ones it has."""
    kept = np.zeros(rows, bool)
    kept[ids[(ids >= 0) & (ids < rows)]] = True
    return kept, int(kept.sum())


def _ascending(ids: Array, rows: int) -> bool:
    """Whether these are unique ascending target ids."""
    return bool(len(ids) and ids[0] >= 0 and ids[-1] < rows and (np.diff(ids) > 0).all())


def _absolute(offsets: Array, ids: Array, rows: int) -> str:
    wrong = np.flatnonzero((ids < 0) | (ids >= rows))
    as_offsets = (
        f"as offsets they give id {ids[wrong[0]]} at row {wrong[0]}, beyond V = {rows:,}"
        if len(wrong)
        else "as offsets they give other ids than t2d keeps"
    )
    return (
        f"d2t holds target ids, not offsets: {offsets[0]} … {offsets[-1]} are unique ids below V; "
        f"{as_offsets}"
    )


def _wrong_ids(ids: Array, rows: int) -> Iterator[Finding]:
    wrong = np.flatnonzero((ids < 0) | (ids >= rows))
    if len(wrong):
        place = wrong[0]
        yield finding(
            "d2t-range",
            f"d2t gives id {ids[place]} at row {place} ({len(wrong):,} such), outside 0 … "
            f"{rows - 1:,}",
        )
    order = np.argsort(ids, kind="stable")
    again = order[1:][np.diff(ids[order]) == 0]
    if len(again):
        place = again.min()
        yield finding(
            "d2t-repeated",
            f"d2t gives id {ids[place]} again at row {place} ({len(again):,} repeated)",
        )
    if not len(wrong) and not len(again):
        place = np.flatnonzero(np.diff(ids) < 0)[0] + 1
        yield finding("d2t-unsorted", f"the ids of d2t are not ascending, first at row {place}")


def check_t2d(t2d: Tensor | None, d2t: Tensor | None, rows: int, size: int) -> Iterator[Finding]:
    """Whether the mask keeps what d2t keeps.

    Args:
        t2d: the mask, if there is one.
        d2t: the offsets, if there are some.
        rows: V.
        size: K.
    """
    if t2d is None:
        if d2t is not None and size < rows:
            yield finding("t2d-missing", "there is a d2t but no t2d")
        return
    mask = mask_of(t2d, rows)
    if mask is None:
        yield finding("t2d-disagrees", f"{t2d}, not BOOL [{rows}]")
        return
    if d2t is None or not is_map(d2t):
        if mask.sum() != size:
            yield finding("t2d-disagrees", f"t2d keeps {mask.sum():,} ids for K = {size:,} rows")
        return
    offsets = d2t.array().astype(np.int64)
    ids = offsets if _holds_ids(offsets, mask, rows) else offsets + np.arange(len(offsets))
    differing = np.flatnonzero(_kept(ids, rows)[0] != mask)
    if len(differing):
        yield finding(
            "t2d-disagrees",
            f"t2d and d2t disagree on {len(differing):,} ids, the first is {differing[0]}",
        )
