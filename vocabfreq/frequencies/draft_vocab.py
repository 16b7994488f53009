"""DraftVocab: which target ids a drafter keeps, and the mappings between the two id spaces.

    >>> vocab = DraftVocab.from_ids([7, 2, 5], rows=8)
    >>> vocab.target_ids.tolist(), vocab.d2t.tolist()
    ([2, 5, 7], [2, 4, 5])

Draft ids are ascending in target ids, so that the lowest draft id of a tie is the lowest target id,
and whoever holds only the mask `t2d` gets the rows in the right order. The encodings `d2t` and
`t2d` are made and read here alone.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, SelectionError

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class DraftVocab:
    """The kept target ids.

    Attributes:
        target_ids: int64 [K], ascending and unique: draft id → target id.
        rows: V, rows of the target's lm_head.
        ranked: int64 [K], the same ids, most frequent first as far as that is known.
        tokenizer: sha256 of the tokenizer.json that counted, None when it is not known.
        coverage: share of tokens kept, per source and for `all sources`; empty when not known.
        filled: ids kept that were neither seen nor pinned.
    """

    target_ids: Ids
    rows: int
    ranked: Ids
    tokenizer: str | None = None
    coverage: Mapping[str, float] = field(default_factory=dict)
    filled: int = 0

    @classmethod
    def from_ids(cls, ids: Iterable[int], *, rows: int, **known: Any) -> "DraftVocab":
        """A vocabulary from a list of target ids, in any order; a given order is kept as the rank.

        Args:
            ids: unique target ids.
            rows: V.
            **known: `tokenizer`, `coverage`, `filled`, where they are known.

        Raises:
            FileFormatError: an id is no integer, repeated, or outside the rows; names the position.
        """
        ranked = checked_ids(ids, rows)
        return cls(np.sort(ranked), rows, ranked, **known)

    @classmethod
    def from_d2t(
        cls, d2t: npt.ArrayLike, *, rows: int, force: bool = False, **known: Any
    ) -> "DraftVocab":
        """A vocabulary from the EAGLE-3 encoding, offsets `target_ids - arange(K)`.

        Args:
            d2t: integers [K], offsets.
            rows: V.
            force: take all zeros with K < V for the first K ids.
            **known: as in `from_ids`.

        Raises:
            FileFormatError: an id is repeated or outside the rows, or all offsets are zero
                although K < V, which is what a map looks like that was never loaded.
        """
        offsets = _integers(d2t, "offset")
        if not force and len(offsets) < rows and not offsets.any():
            raise FileFormatError(
                f"all {len(offsets)} offsets are 0 although there are {rows} rows",
                expected="offsets of kept ids; zeros look like a map that was never loaded",
                hint="pass --force (force=True) if the first ids are really meant",
            )
        return cls.from_ids(offsets + np.arange(len(offsets)), rows=rows, **known)

    @classmethod
    def from_t2d(cls, t2d: npt.ArrayLike, **known: Any) -> "DraftVocab":
        """A vocabulary from a mask, bool [V].

        Raises:
            FileFormatError: it is no mask, or keeps nothing.
        """
        mask = np.asarray(t2d)
        if mask.ndim != 1 or mask.dtype != np.bool_:
            raise FileFormatError(f"a mask of {mask.dtype} {list(mask.shape)}", expected="bool [V]")
        return cls.from_ids(np.flatnonzero(mask), rows=len(mask), **known)

    def __len__(self) -> int:
        """K."""
        return len(self.target_ids)

    @cached_property
    def d2t(self) -> Ids:
        """int64 [K], the EAGLE-3 encoding: `target_ids - arange(K)`."""
        return self.target_ids - np.arange(len(self))

    @cached_property
    def t2d(self) -> npt.NDArray[np.bool_]:
        """Bool [V], which target ids are kept."""
        mask = np.zeros(self.rows, bool)
        mask[self.target_ids] = True
        return mask

    @staticmethod
    def decode_d2t(offsets: Ids) -> Ids:
        """Target ids of offsets, int64 [K], not checked; `from_d2t` checks them."""
        return offsets + np.arange(len(offsets))

    @property
    def is_identity(self) -> bool:
        """Whether every id is kept, so that draft and target ids are the same."""
        return len(self) == self.rows

    def to_draft(self, target_ids: npt.ArrayLike) -> Ids:
        """Draft ids of target ids; -1 where an id is not kept.

        Args:
            target_ids: integers of any shape, 0 … V-1.

        Returns:
            int64 of the same shape.

        Raises:
            SelectionError: an id is outside the rows.
        """
        ids = np.asarray(target_ids)
        if ids.size and ids.dtype.kind not in "iu":
            raise SelectionError(f"target ids of {ids.dtype}", expected="integers")
        if ids.size and not (ids.min() >= 0 and ids.max() < self.rows):
            raise SelectionError(
                f"target ids from {ids.min()} to {ids.max()}", expected=f"0 to {self.rows - 1}"
            )
        ids = ids.astype(np.int64)
        places = np.searchsorted(self.target_ids, ids)
        found = self.target_ids[np.minimum(places, len(self) - 1)] == ids
        return np.where(found, places, -1)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of V and the kept ids, in hex; equal vocabularies have equal ones."""
        digest = hashlib.sha256(np.array([self.rows], "<i8").data)
        digest.update(self.target_ids.astype("<i8").data)
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        """The same ids of as many rows, and no known difference of tokenizer."""
        if not isinstance(other, DraftVocab):
            return NotImplemented
        tokenizers = {self.tokenizer, other.tokenizer} - {None}
        return self.fingerprint == other.fingerprint and len(tokenizers) < 2

    def __hash__(self) -> int:
        """By the kept ids."""
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        """K, V, and what is known of the coverage."""
        covered = self.coverage.get("all sources")
        known = f", covers {100 * covered:.2f} %" if covered is not None else ""
        filled = f", {self.filled} never seen" if self.filled else ""
        share = len(self) / self.rows
        return f"DraftVocab(K={len(self):,} of V={self.rows:,}, {share:.1%}{known}{filled})"

    @classmethod
    def from_hub(cls, repo: str, **wish: Any) -> "DraftVocab":
        """Selects from the frequency file of a repo on the Hub.

        Args:
            repo: `owner/name[@revision]`.
            **wish: `size`, `coverage` …, as in `FrequencyTable.select`.

        Raises:
            FileFormatError: there is no such repo, or it does not hold what it says.
            SelectionError: the wish cannot be met.
        """
        from vocabfreq.frequencies.table import FrequencyTable

        return FrequencyTable.load(repo).select(**wish)

    def save(self, path: str | Path) -> None:
        """Writes a draft-vocab file, whole or not at all."""
        from vocabfreq.frequencies.draft_vocab_file import save_draft_vocab

        save_draft_vocab(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "DraftVocab":
        """Reads and checks a draft-vocab file.

        Raises:
            FileFormatError: it is not one, or breaks its own format.
        """
        from vocabfreq.frequencies.draft_vocab_file import load_draft_vocab

        return load_draft_vocab(Path(path))


def checked_ids(ids: Iterable[int] | npt.ArrayLike, rows: int) -> Ids:
    """Target ids as int64, checked.

    Raises:
        FileFormatError: an id is no integer, repeated, or outside the rows; names the position.
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise FileFormatError(f"rows {rows!r}", expected="V, a whole number from 1")
    array = _integers(ids, "id")
    if not len(array):
        raise FileFormatError("an empty list of ids", expected="at least one")
    wrong = np.flatnonzero((array < 0) | (array >= rows))
    if len(wrong):
        raise FileFormatError(
            f"id {array[wrong[0]]} at position {wrong[0]} ({len(wrong)} such)",
            expected=f"ids from 0 to {rows - 1}, the rows of the target",
        )
    order = np.argsort(array, kind="stable")
    again = order[1:][np.diff(array[order]) == 0]
    if len(again):
        place = int(again.min())
        raise FileFormatError(
            f"id {array[place]} at position {place} was there before ({len(again)} repeated)",
            expected="every id once",
        )
    return array


def _integers(values: Any, what: str) -> Ids:
    if isinstance(values, Mapping):
        raise FileFormatError(
            f"a {type(values).__name__} of {len(values)} keys", expected=f"a list of {what}s"
        )
    if not isinstance(values, np.ndarray):
        values = list(values) if not hasattr(values, "__array__") else np.asarray(values)
    if isinstance(values, list):
        wrong = [n for n, v in enumerate(values) if not _is_integer(v)]
        if wrong:
            value = repr(values[wrong[0]])[:80]
            raise FileFormatError(
                f"{what} {value} at position {wrong[0]}", expected="whole numbers below 2**63"
            )
        values = np.array(values, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise FileFormatError(
            f"{what}s of {values.dtype} {list(values.shape)}", expected="integers in one dimension"
        )
    if values.dtype.kind == "u" and values.size and values.max() >= 2**63:
        raise FileFormatError(f"{what} {values.max()}", expected="whole numbers below 2**63")
    ids: Ids = values.astype(np.int64)
    return ids


def _is_integer(value: Any) -> bool:
    plain = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return plain and -(2**63) <= value < 2**63
