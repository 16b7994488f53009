"""DraftVocab: which target ids a drafter keeps, and the mappings between the two id spaces.

    >>> vocab = DraftVocab.from_ids([7, 2, 5], rows=8)
    >>> vocab.target_ids.tolist(), vocab.d2t.tolist()
    ([2, 5, 7], [2, 4, 5])

Draft ids are ascending in target ids, so that the lowest draft id of a tie is the lowest target id,
and code that holds only the mask `t2d` gets the rows in the right order. The encodings `d2t` and
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
from vocabfreq.frequencies.draft_vocab_file import (
    DraftVocabMetadata,
    read_draft_vocab,
    write_draft_vocab,
)
from vocabfreq.frequencies.metadata import FORMAT
from vocabfreq.frequencies.ranking import RankedCounts
from vocabfreq.frequencies.selection import ALL_SOURCES, SelectionOptions, pinned_ids, select_ids

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
    def from_ids(cls, ids: Iterable[int], *, rows: int, **statistics: Any) -> "DraftVocab":
        """A vocabulary from a list of target ids, in any order; a given order is kept as the rank.

        Args:
            ids: unique target ids.
            rows: V.
            **statistics: `tokenizer`, `coverage`, `filled`, where they are known.

        Raises:
            FileFormatError: an id is no integer, repeated, or outside the rows; names the position.
        """
        ranked = check_ids(ids, rows)
        return cls(np.sort(ranked), rows, ranked, **statistics)

    @classmethod
    def from_d2t(
        cls, d2t: npt.ArrayLike, *, rows: int, force: bool = False, **statistics: Any
    ) -> "DraftVocab":
        """A vocabulary from the EAGLE-3 encoding, offsets `target_ids - arange(K)`.

        Args:
            d2t: integers [K], offsets.
            rows: V.
            force: accept all zeros with K < V, which keep the first K ids.
            **statistics: as in `from_ids`.

        Raises:
            FileFormatError: an id is repeated or outside the rows, or all offsets are zero
                although K < V, as in a map that was never loaded.
        """
        offsets = _as_integers(d2t, "offset")
        if not force and len(offsets) < rows and not offsets.any():
            raise FileFormatError(
                f"all {len(offsets)} offsets are 0 although there are {rows} rows",
                expected="offsets of kept ids; zeros look like a map that was never loaded",
                hint="pass --force (force=True) to keep the first ids",
            )
        return cls.from_ids(offsets + np.arange(len(offsets)), rows=rows, **statistics)

    @classmethod
    def from_t2d(cls, t2d: npt.ArrayLike, **statistics: Any) -> "DraftVocab":
        """A vocabulary from a mask, bool [V].

        Raises:
            FileFormatError: the array is no mask, or keeps nothing.
        """
        mask = np.asarray(t2d)
        if mask.ndim != 1 or mask.dtype != np.bool_:
            raise FileFormatError(f"a mask of {mask.dtype} {list(mask.shape)}", expected="bool [V]")
        return cls.from_ids(np.flatnonzero(mask), rows=len(mask), **statistics)

    @classmethod
    def from_counts(cls, counts: RankedCounts, options: SelectionOptions) -> "DraftVocab":
        """Selects from counts; `FrequencyTable.select` is the usual way to call it.

        Raises:
            SelectionError: the options contradict each other or cannot be met; names both numbers.
        """
        if options.weights is not None:
            counts = counts.reweighted(options.weights)
        pinned = pinned_ids(counts.meta, counts.emittable, options.pins, options.extra_ids)
        kept_ids = select_ids(counts, options, pinned)
        is_kept = np.zeros(counts.rows, bool)
        is_kept[kept_ids] = True
        names = [None, *(source.name for source in counts.sources)]
        return cls(
            target_ids=np.flatnonzero(is_kept),
            rows=counts.rows,
            ranked=counts.ranked_ids[is_kept[counts.ranked_ids]],
            tokenizer=counts.tokenizer.sha256,
            coverage={name or ALL_SOURCES: counts.coverage_of(kept_ids, name) for name in names},
            filled=int((counts.total_counts[kept_ids[len(pinned) :]] == 0).sum()),
        )

    @classmethod
    def from_hub(cls, repo: str, **options: Any) -> "DraftVocab":
        """Selects from the frequency file of a repo on the Hub.

        Args:
            repo: `owner/name[@revision]`.
            **options: `size`, `coverage` …, as in `FrequencyTable.select`.

        Raises:
            FileFormatError: there is no such repo, or its file is damaged.
            SelectionError: the options contradict each other or cannot be met.
        """
        return cls.from_counts(RankedCounts.load(repo), SelectionOptions(**options))

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
        draft_ids = np.searchsorted(self.target_ids, ids)
        found = self.target_ids[np.minimum(draft_ids, len(self) - 1)] == ids
        return np.where(found, draft_ids, -1)

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
        """K, V, and the coverage and the number of unseen ids where they are known."""
        share = self.coverage.get(ALL_SOURCES)
        covers = f", covers {100 * share:.2f} %" if share is not None else ""
        filled = f", {self.filled} never seen" if self.filled else ""
        kept = len(self) / self.rows
        return f"DraftVocab(K={len(self):,} of V={self.rows:,}, {kept:.1%}{covers}{filled})"

    def save(self, path: str | Path) -> None:
        """Writes a draft-vocab file, whole or not at all; equal vocabularies give equal bytes."""
        meta = DraftVocabMetadata(
            format=FORMAT,
            rows=self.rows,
            tokenizer=self.tokenizer,
            coverage=dict(self.coverage),
            filled=self.filled,
            fingerprint=self.fingerprint,
        )
        write_draft_vocab(Path(path), meta, {"target_ids": self.target_ids, "ranked": self.ranked})

    @classmethod
    def load(cls, path: str | Path) -> "DraftVocab":
        """Reads and checks a draft-vocab file.

        Raises:
            FileFormatError: it is none, or breaks its own format.
        """
        meta, ids = read_draft_vocab(Path(path))
        vocab = cls.from_ids(
            ids["ranked"],
            rows=meta.rows,
            tokenizer=meta.tokenizer,
            coverage=meta.coverage,
            filled=meta.filled,
        )
        same = np.array_equal(vocab.target_ids, ids["target_ids"])
        if not same or vocab.fingerprint != meta.fingerprint:
            raise FileFormatError(
                f"{path}: target_ids, ranked and fingerprint do not agree",
                expected="ascending ids, the same by rank, and their fingerprint",
            )
        return vocab


def check_ids(ids: Iterable[int] | npt.ArrayLike, rows: int) -> Ids:
    """Target ids as int64, checked.

    Raises:
        FileFormatError: an id is no integer, repeated, or outside the rows; names the position.
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise FileFormatError(f"rows {rows!r}", expected="V, a whole number from 1")
    array = _as_integers(ids, "id")
    if not len(array):
        raise FileFormatError("an empty list of ids", expected="at least one")
    wrong = np.flatnonzero((array < 0) | (array >= rows))
    if len(wrong):
        raise FileFormatError(
            f"id {array[wrong[0]]} at position {wrong[0]} ({len(wrong)} such)",
            expected=f"ids from 0 to {rows - 1}, the rows of the target",
        )
    order = np.argsort(array, kind="stable")
    repeated = order[1:][np.diff(array[order]) == 0]
    if len(repeated):
        position = int(repeated.min())
        raise FileFormatError(
            f"id {array[position]} at position {position} is repeated ({len(repeated)} such)",
            expected="every id once",
        )
    return array


def _as_integers(values: Any, name: str) -> Ids:
    if isinstance(values, Mapping):
        raise FileFormatError(
            f"a {type(values).__name__} of {len(values)} keys", expected=f"a list of {name}s"
        )
    if not isinstance(values, np.ndarray):
        values = list(values) if not hasattr(values, "__array__") else np.asarray(values)
    if isinstance(values, list):
        wrong = [n for n, v in enumerate(values) if not _is_integer(v)]
        if wrong:
            value = repr(values[wrong[0]])[:80]
            raise FileFormatError(
                f"{name} {value} at position {wrong[0]}", expected="whole numbers below 2**63"
            )
        values = np.array(values, np.int64)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise FileFormatError(
            f"{name}s of {values.dtype} {list(values.shape)}", expected="integers in one dimension"
        )
    if values.dtype.kind == "u" and values.size and values.max() >= 2**63:
        raise FileFormatError(f"{name} {values.max()}", expected="whole numbers below 2**63")
    ids: Ids = values.astype(np.int64)
    return ids


def _is_integer(value: Any) -> bool:
    plain = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return plain and -(2**63) <= value < 2**63
