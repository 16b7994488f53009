"""Counts: how often target ids occur, as other tools write it, without where it comes from.

>>> Counts.from_mapping({7: 2, 3: 1}).select(2, rows=8).target_ids.tolist()
[3, 7]

A table of counts of which nobody knows where they come from: to select from, never to save.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, SelectionError, short_repr
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import (
    MAX_ROWS,
    EncoderRecord,
    Metadata,
    SourceRecord,
    TokenizerRecord,
    check_rows,
)
from vocabfreq.frequencies.table import FrequencyTable


def table_of(vector: Any) -> FrequencyTable:
    """A table of one source named `counts`, whose tokenizer is not known.

    Args:
        vector: counts or probabilities [V].
    """
    return FrequencyTable(vector[None], np.zeros_like(vector[None]), _meta(len(vector)))


def _meta(rows: int) -> Metadata:
    source = SourceRecord(
        name="counts",
        files=(),
        sha256="",
        weight=None,
        documents=0,
        heldout_documents=0,
        tokens=0,
        bytes=0,
    )
    return Metadata(
        format=1,
        vocabfreq="",
        tokenizer=TokenizerRecord(name="unknown", revision=None, sha256="", size=rows, rows=rows),
        special_ids=(),
        stop_ids=(),
        byte_ids=(),
        sources=(source,),
        options={},
        encoder=EncoderRecord(
            name="unknown", version="", cross_checked_documents=0, mismatched_documents=0
        ),
    )


Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Counts or other frequencies of the ids that occur.

    Attributes:
        ids: int64 [N], ascending and unique.
        values: int64 [N] counts or float64 [N] probabilities or the like, all above 0.
        rows: V, None where the file does not say it.
        fill: int64 [M], ids that never occur and may fill a vocabulary, where that needs saying.
    """

    ids: npt.NDArray[np.int64]
    values: Values
    rows: int | None = None
    fill: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    @classmethod
    def from_vector(cls, vector: npt.NDArray[Any]) -> "Counts":
        """Counts [V] (integers) or probabilities [V] (floats).

        Raises:
            FileFormatError: another shape or dtype, or a value that is negative or not finite.
        """
        if vector.ndim != 1 or vector.dtype.kind not in "iuf" or not 1 <= len(vector) <= MAX_ROWS:
            raise FileFormatError(
                f"frequencies of {vector.dtype} {list(vector.shape)}",
                expected="integers or floats [V]",
            )
        if vector.dtype.kind == "f":
            vector = vector.astype(np.float64)
        wrong = np.flatnonzero(~np.isfinite(vector) | (vector < 0) | (vector > 2**62))
        if len(wrong):
            raise FileFormatError(
                f"frequency {vector[wrong[0]]} of id {wrong[0]} ({len(wrong)} such)",
                expected="numbers from 0",
            )
        ids = np.flatnonzero(vector)
        values: Any = vector[ids]
        return cls(ids, values if values.dtype.kind == "f" else values.astype("i8"), len(vector))

    @classmethod
    def from_mapping(cls, mapping: Mapping[Any, Any], rows: int | None = None) -> "Counts":
        """Counts by id; equal ones are equal whatever the order of insertion.

        Raises:
            FileFormatError: an id or a count is no whole number, or out of range.
        """
        top = MAX_ROWS if rows is None else rows
        for i, count in mapping.items():
            if not _whole(i, top - 1):
                raise FileFormatError(
                    f"id {short_repr(i)}", expected=f"whole numbers from 0 to {top - 1}"
                )
            if not _whole(count, 2**62):
                raise FileFormatError(
                    f"count {short_repr(count)} of id {i}", expected="whole numbers from 0 to 2**62"
                )
        ids = np.array(sorted(i for i, count in mapping.items() if count), np.int64)
        return cls(ids, np.array([mapping[i] for i in ids.tolist()], np.int64), rows)

    @property
    def exact(self) -> bool:
        """Whether these are counts, not floats."""
        return self.values.dtype.kind == "i"

    @property
    def normalized(self) -> bool:
        """Whether these are probabilities: floats that sum to about 1."""
        return not self.exact and bool(abs(self.values.sum() - 1) < 1e-3)

    @property
    def called(self) -> str:
        """What these are, in words."""
        if self.exact:
            return "counts"
        return "probabilities" if self.normalized else "frequencies in floats"

    def vector(self, rows: int | None = None) -> Values:
        """One value per target id, [V].

        Args:
            rows: V, where it is not known yet.

        Raises:
            FileFormatError: V is not known, or an id lies outside.
        """
        rows = self.rows if rows is None else rows
        if rows is None:
            raise FileFormatError(
                "counts by id do not say how many rows the target has",
                expected="V, the vocab_size in the target's config.json",
                hint="give it with --rows V (rows=V)",
            )
        check_rows(rows, "the call")
        if self.rows not in (None, rows) or (len(self.ids) and self.ids[-1] >= rows):
            raise FileFormatError(
                f"{rows} rows for counts of ids up to {self.ids.max(initial=0)}",
                expected=f"{self.rows or 'more'} rows",
            )
        vector: Any = np.zeros(rows, self.values.dtype)
        vector[self.ids] = self.values
        whole: Values = vector
        return whole

    def select(
        self, size: int | str | None = None, *, rows: int | None = None, **wish: Any
    ) -> DraftVocab:
        """The most frequent ids, as `FrequencyTable.select` does; no pins are known here.

        Args:
            size: K, or a share of V such as "25%".
            rows: V, where it is not known yet.
            **wish: as in `FrequencyTable.select`.

        Raises:
            SelectionError: the wish cannot be met, or asks probabilities for counts.
        """
        if wish.get("min_count") is not None and not self.exact:
            raise SelectionError(
                f"min_count {wish['min_count']} of {self.called}", expected="a size or a coverage"
            )

        selected = table_of(self.vector(rows)).select(size, pins="none", **wish)
        return replace(selected, tokenizer=None)

    def __len__(self) -> int:
        """How many ids occur."""
        return len(self.ids)

    def __eq__(self, other: object) -> bool:
        """The same values of the same ids, and no known difference of rows."""
        if not isinstance(other, Counts):
            return NotImplemented
        same = self.exact == other.exact and np.array_equal(self.values, other.values)
        known = {self.rows, other.rows} - {None}
        return same and np.array_equal(self.ids, other.ids) and len(known) < 2

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """What is known."""
        rows = "V unknown" if self.rows is None else f"V={self.rows:,}"
        return f"Counts({self.called} of {len(self):,} ids, {rows})"


def _whole(value: object, top: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= top
