"""Which documents are held out: decided by their token ids alone.

So the split is the same whatever the order, the shards, the workers, the compression or the
container of the text, and ids that were stored split like the text that they were made from.
"""

import numpy as np
import numpy.typing as npt

FIRST_IDS = 8
_PRIME = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio (Knuth, TAOCP 3, 6.4)


def held_out(
    ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64], one_in: int
) -> npt.NDArray[np.intp]:
    """Indices of the documents that are held out.

    Args:
        ids: [N], the ids of all documents in a row.
        offsets: int64 [D+1], where each document starts.
        one_in: about one document in this many is held out; 0 for none.

    Returns:
        intp [≤ D], ascending. A document without ids is never held out.
    """
    if one_in == 0 or not len(ids):
        return np.zeros(0, np.intp)
    hashes = _hashes(ids, offsets)
    chosen = (hashes >> np.uint64(33)) % np.uint64(one_in) == 0
    return np.flatnonzero(chosen & (np.diff(offsets) > 0))


def _hashes(ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash of each document's length and first ids, over all documents at once."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mixed(lengths.astype(np.uint64))
    for place in range(FIRST_IDS):
        there = np.minimum(starts + place, len(ids) - 1)
        value = np.where(place < lengths, ids[there].astype(np.int64) + 1, 0)
        hashes = _mixed(hashes ^ value.astype(np.uint64))
    return hashes


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values * _PRIME
    return values ^ (values >> np.uint64(29))
