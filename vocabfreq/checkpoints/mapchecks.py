"""Checks of the maps in a drafter: d2t and t2d."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.tensors import NUMPY, Tensor

Array = npt.NDArray[Any]


def check_d2t(d2t: Tensor, rows: int, size: int) -> Iterator[Finding]:
    """What is wrong with offsets.

    Args:
        d2t: the tensor.
        rows: V.
        size: K.
    """
    if len(d2t.shape) != 1 or d2t.dtype not in NUMPY or d2t.dtype == "BOOL":
        yield finding("d2t-shape", f"{d2t}, not whole numbers [K]")
        return
    offsets = d2t.array().astype(np.int64)
    if len(offsets) != size:
        yield finding("d2t-shape", f"{d2t} has {len(offsets):,} entries for K = {size:,} rows")
    ids = offsets + np.arange(len(offsets))
    if len(offsets) < rows and not offsets.any():
        yield finding("d2t-zero", f"all {len(offsets):,} offsets of d2t are 0 although K < V")
    elif _ascending(ids, rows):
        return
    elif _ascending(offsets, rows):
        yield finding("d2t-absolute", _absolute(offsets, ids, rows))
    else:
        yield from _wrong_ids(ids, rows)


def _ascending(ids: Array, rows: int) -> bool:
    """Whether these are unique ascending target ids."""
    return bool(len(ids) and ids[0] >= 0 and ids[-1] < rows and (np.diff(ids) > 0).all())


def _absolute(offsets: Array, ids: Array, rows: int) -> str:
    wrong = np.flatnonzero((ids < 0) | (ids >= rows))
    as_offsets = (
        f"as offsets they give id {ids[wrong[0]]} at row {wrong[0]}, beyond V = {rows:,}"
        if len(wrong)
        else "as offsets they are not"
    )
    return (
        f"d2t holds target ids, not offsets: {offsets[0]} … {offsets[-1]} are unique and "
        f"ascending; {as_offsets}"
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
    if t2d.dtype != "BOOL" or t2d.shape != (rows,):
        yield finding("t2d-disagrees", f"{t2d}, not BOOL [{rows}]")
        return
    mask = t2d.array()
    if d2t is None or len(d2t.shape) != 1 or d2t.dtype not in NUMPY:
        if mask.sum() != size:
            yield finding("t2d-disagrees", f"t2d keeps {mask.sum():,} ids for K = {size:,} rows")
        return
    offsets = d2t.array().astype(np.int64)
    ids = offsets + np.arange(len(offsets))
    ids = offsets if not _ascending(ids, rows) and _ascending(offsets, rows) else ids
    kept = np.zeros(rows, bool)
    kept[ids[(ids >= 0) & (ids < rows)]] = True
    differing = np.flatnonzero(kept != mask)
    if len(differing):
        yield finding(
            "t2d-disagrees",
            f"t2d and d2t disagree on {len(differing):,} ids, the first is {differing[0]}",
        )
