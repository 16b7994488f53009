"""The tensors d2t and t2d of a drafter: the ids that they keep, and their problems.

`read_mapping` decodes them for pruning and refuses a pair that does not agree; `check_mapping`
reports every problem as a `Finding`. Offsets become ids in `DraftVocab` alone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.findings import Finding, make_finding
from vocabfreq.checkpoints.tensors import Tensor
from vocabfreq.errors import FileFormatError
from vocabfreq.formats.d2t import vocab_from_d2t
from vocabfreq.formats.read_options import ReadOptions
from vocabfreq.formats.safetensors_file import NUMPY_DTYPES
from vocabfreq.frequencies.draft_vocab import DraftVocab

MAPPING_NAMES = ("d2t", "t2d")
CHECK_HINT = "vocabfreq check lists the problems of the folder, and what engines do with it"
Array = npt.NDArray[Any]


def is_d2t(tensor: Tensor) -> bool:
    """Whether its dtype and shape are those of a d2t: integers [K], K > 0."""
    is_integer = tensor.dtype in NUMPY_DTYPES and tensor.dtype != "BOOL"
    return is_integer and len(tensor.shape) == 1 and tensor.shape[0] > 0


def _is_t2d(tensor: Tensor, rows: int) -> bool:
    return tensor.dtype == "BOOL" and tensor.shape == (rows,)


def read_mapping(d2t: Tensor, t2d: Tensor | None, rows: int) -> DraftVocab:
    """The vocabulary that a drafter keeps; `ranked` has the ids in the order of its rows.

    Args:
        d2t: offsets [K].
        t2d: the mask [V], which must agree, if there is one.
        rows: V.

    Raises:
        FileFormatError: naming what is wrong in them.
    """
    if not is_d2t(d2t):
        raise FileFormatError(f"{d2t}", expected="whole numbers [K]", hint=CHECK_HINT)
    if t2d is not None and not _is_t2d(t2d, rows):
        raise FileFormatError(f"{t2d}", expected=f"BOOL [{rows}], a truth value for every id of V")
    offsets = d2t.array()
    if len(offsets) < rows and not offsets.any():
        raise FileFormatError(
            f"all {len(offsets):,} offsets are 0 in {d2t} although V = {rows:,}",
            expected="offsets of kept ids; zeros look like a map that was never loaded",
            hint="take the drafter that it was made from",
        )
    try:
        mask = None if t2d is None else t2d.array()
        return vocab_from_d2t(offsets, mask, "the drafter", ReadOptions(), rows)
    except FileFormatError as error:
        raise FileFormatError(error.wrong, expected=error.expected, hint=CHECK_HINT) from None


def is_ambiguous(ids: Array) -> bool:
    """Whether the offsets of ascending ids are unique ascending ids too: no two are neighbours."""
    return len(ids) > 1 and bool((np.diff(ids) > 1).all())


def check_mapping(
    d2t: Tensor | None, t2d: Tensor | None, rows: int, size: int
) -> Iterator[Finding]:
    """Checks d2t and t2d by themselves and against each other.

    Args:
        d2t: the offsets [K], if there are some.
        t2d: the mask [V], if there is one; it also distinguishes offsets from ids.
        rows: V.
        size: K.
    """
    mask = t2d.array() if t2d is not None and _is_t2d(t2d, rows) else None
    if d2t is not None:
        yield from _check_d2t(d2t, mask, rows, size)
    elif size < rows:
        yield make_finding("d2t-missing", f"there is no d2t for K = {size:,} of V = {rows:,}")
    if t2d is not None:
        yield from _check_t2d(t2d, mask, d2t, rows, size)
    elif d2t is not None and size < rows:
        yield make_finding("t2d-missing", "there is a d2t but no t2d")


def _check_d2t(d2t: Tensor, mask: Array | None, rows: int, size: int) -> Iterator[Finding]:
    if size == rows:
        yield make_finding("map-of-all", f"there is a d2t although K = V = {rows:,}")
    if not is_d2t(d2t):
        yield make_finding("d2t-shape", f"{d2t}, not whole numbers [K]")
        return
    offsets = d2t.array().astype(np.int64)
    if len(offsets) != size:
        yield make_finding("d2t-shape", f"{d2t} has {len(offsets):,} entries for K = {size:,} rows")
    ids = DraftVocab.decode_d2t(offsets)
    if len(offsets) < rows and not offsets.any():
        yield make_finding("d2t-zero", f"all {len(offsets):,} offsets of d2t are 0 although K < V")
    elif _holds_ids(offsets, mask, rows):
        yield make_finding("d2t-absolute", _describe_absolute(offsets, ids, rows))
    elif not _is_ascending(ids, rows):
        yield from _check_ids(ids, rows)
    elif mask is None and is_ambiguous(ids):
        yield make_finding(
            "d2t-unclear",
            f"d2t could hold offsets or target ids: {offsets[0]} … {offsets[-1]} are unique and "
            "ascending either way, and there is no t2d to decide",
        )


def _check_t2d(
    t2d: Tensor, mask: Array | None, d2t: Tensor | None, rows: int, size: int
) -> Iterator[Finding]:
    if mask is None:
        yield make_finding("t2d-disagrees", f"{t2d}, not BOOL [{rows}]")
    elif d2t is not None and is_d2t(d2t):
        offsets = d2t.array().astype(np.int64)
        ids = offsets if _holds_ids(offsets, mask, rows) else DraftVocab.decode_d2t(offsets)
        differing = np.flatnonzero(_mask_of(ids, rows) != mask)
        if len(differing):
            yield make_finding(
                "t2d-disagrees",
                f"t2d and d2t disagree on {len(differing):,} ids, the first is {differing[0]}",
            )
    elif mask.sum() != size:
        yield make_finding("t2d-disagrees", f"t2d keeps {mask.sum():,} ids for K = {size:,} rows")


def _holds_ids(offsets: Array, mask: Array | None, rows: int) -> bool:
    """Whether d2t holds target ids where offsets belong, by t2d or else by range and order."""
    ids = DraftVocab.decode_d2t(offsets)
    if mask is not None:
        if _keeps(ids, mask):
            return False
        if _keeps(offsets, mask):
            return True
    return not _is_ascending(ids, rows) and _is_ascending(offsets, rows)


def _keeps(ids: Array, mask: Array) -> bool:
    """Whether ids are unique and those of a mask."""
    own_mask = _mask_of(ids, len(mask))
    return np.count_nonzero(own_mask) == len(ids) and np.array_equal(own_mask, mask)


def _mask_of(ids: Array, rows: int) -> Array:
    """Bool [V] of the ids in range."""
    mask = np.zeros(rows, bool)
    mask[ids[(ids >= 0) & (ids < rows)]] = True
    return mask


def _is_ascending(ids: Array, rows: int) -> bool:
    """Whether these are unique ascending target ids."""
    return bool(len(ids) and ids[0] >= 0 and ids[-1] < rows and (np.diff(ids) > 0).all())


def _describe_absolute(offsets: Array, ids: Array, rows: int) -> str:
    outside = np.flatnonzero((ids < 0) | (ids >= rows))
    as_offsets = (
        f"as offsets they give id {ids[outside[0]]} at row {outside[0]}, beyond V = {rows:,}"
        if len(outside)
        else "as offsets they give other ids than t2d keeps"
    )
    return (
        f"d2t holds target ids, not offsets: {offsets[0]} … {offsets[-1]} are unique ids below V; "
        f"{as_offsets}"
    )


def _check_ids(ids: Array, rows: int) -> Iterator[Finding]:
    outside = np.flatnonzero((ids < 0) | (ids >= rows))
    if len(outside):
        row = outside[0]
        yield make_finding(
            "d2t-range",
            f"d2t gives id {ids[row]} at row {row} ({len(outside):,} such), outside 0 … "
            f"{rows - 1:,}",
        )
    order = np.argsort(ids, kind="stable")
    repeated = order[1:][np.diff(ids[order]) == 0]
    if len(repeated):
        row = repeated.min()
        yield make_finding(
            "d2t-repeated",
            f"d2t gives id {ids[row]} again at row {row} ({len(repeated):,} repeated)",
        )
    if not len(outside) and not len(repeated):
        row = np.flatnonzero(np.diff(ids) < 0)[0] + 1
        yield make_finding("d2t-unsorted", f"the ids of d2t are not ascending, first at row {row}")
