"""`Counts`: how often target ids occur, from another tool's file, without tokenizer or sources.

    >>> Counts.from_mapping({7: 2, 3: 1}).select(2, rows=8).target_ids.tolist()
    [3, 7]

Two formats hold them: vocab-freq, a vector [V] of counts or probabilities (vLLM), and token-freq, a
dict id → count (speculators).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import FileFormatError, RefusedError, SelectionError, short_repr
from vocabfreq.formats.containers import to_vector
from vocabfreq.formats.read_options import ReadOptions, prefix_errors
from vocabfreq.formats.torch_file import save_plain, save_tensors
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

Values = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Counts or other frequencies of the ids that occur.

    Attributes:
        ids: int64 [N], ascending and unique.
        values: int64 [N] counts or float64 [N] probabilities or the like, all above 0.
        rows: V, None where the file does not say it.
        fill: int64 [M], ids that never occur and may fill a vocabulary, to be written with count 0.
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
        """Counts by id; the order of insertion does not matter.

        Raises:
            FileFormatError: an id or a count is no whole number, or out of range.
        """
        top = MAX_ROWS if rows is None else rows
        for i, count in mapping.items():
            if not _is_count(i, top - 1):
                raise FileFormatError(
                    f"id {short_repr(i)}", expected=f"whole numbers from 0 to {top - 1}"
                )
            if not _is_count(count, 2**62):
                raise FileFormatError(
                    f"count {short_repr(count)} of id {i}", expected="whole numbers from 0 to 2**62"
                )
        ids = np.array(sorted(i for i, count in mapping.items() if count), np.int64)
        return cls(ids, np.array([mapping[i] for i in ids.tolist()], np.int64), rows)

    @property
    def exact(self) -> bool:
        """Whether these are integers, and so counts."""
        return self.values.dtype.kind == "i"

    @property
    def normalized(self) -> bool:
        """Whether these are probabilities: floats that sum to about 1."""
        return not self.exact and bool(abs(self.values.sum() - 1) < 1e-3)

    @property
    def description(self) -> str:
        """`counts`, `probabilities` or `frequencies in floats`."""
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
        values: Values = vector
        return values

    def select(
        self, size: int | str | None = None, *, rows: int | None = None, **selection: Any
    ) -> DraftVocab:
        """The most frequent ids, as `FrequencyTable.select` does; no pins are known here.

        Args:
            size: K, or a share of V such as "25%".
            rows: V, where it is not known yet.
            **selection: as in `FrequencyTable.select`.

        Raises:
            SelectionError: no such selection is possible; `min_count` needs counts.
        """
        if selection.get("min_count") is not None and not self.exact:
            raise SelectionError(
                f"min_count {selection['min_count']} of {self.description}",
                expected="a size or a coverage",
            )
        table = _anonymous_table(self.vector(rows))
        return replace(table.select(size, pins="none", **selection), tokenizer=None)

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
        """Kind of values, number of ids, V."""
        rows = "V unknown" if self.rows is None else f"V={self.rows:,}"
        return f"Counts({self.description} of {len(self):,} ids, {rows})"


def _is_count(value: object, top: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= top


def _anonymous_table(vector: Values) -> FrequencyTable:
    """A table to select from, of one source `counts` [V] and an unknown tokenizer; never saved."""
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
    rows = len(vector)
    meta = Metadata(
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
    counts: Any = vector[None]
    return FrequencyTable(counts, np.zeros_like(counts), meta)


def counts_from_table(table: FrequencyTable) -> Counts:
    """The counts that rank, of ids that can be emitted: other tools select from them as we do.

    Raises:
        RefusedError: the table ranks by weights, which counts cannot express.
    """
    if any(source.weight is not None for source in table.sources):
        raise RefusedError(
            f"{table!r} ranks by weights, which counts cannot express",
            expected="a table that ranks by raw counts",
            hint="export ids with a size instead, or take table.reweighted(None)",
        )
    total = table.counts.sum(axis=0)
    counts = Counts.from_vector(total * table.emittable)
    if all(stop == table.rows for _, stop in table.tokenizer.absent):
        return counts
    # With holes among the ids, a tool that fills up by counting 0, 1, 2 … would take absent ones.
    return replace(counts, fill=np.flatnonzero(table.emittable & (total == 0)))


def counts_from_vector(value: Any, name: str, options: ReadOptions) -> Counts:
    """Reads vocab-freq: counts or probabilities [V]."""
    with prefix_errors(name):
        counts = Counts.from_vector(to_vector(value, name))
    options.resolve_rows(name, counts.rows)
    return counts


def save_vector(counts: Counts, path: Path) -> None:
    """Writes vocab-freq, a tensor [V] of torch."""
    save_tensors(counts.vector(), path)


def check_probabilities(value: Any, name: str) -> None:
    """Refuses a float vector whose kind the caller does not state, unless its sum is 1.

    Raises:
        FileFormatError: the sum is another, or the values are no frequencies at all.
    """
    with prefix_errors(name):
        counts = Counts.from_vector(to_vector(value, name))
    if not counts.normalized:
        raise FileFormatError(
            f"{name} is a bare vector of {len(value)} floats that sum to "
            f"{counts.values.sum():.6g}: it may hold ids or frequencies",
            expected="probabilities, which sum to 1",
            hint="if they are frequencies, say --kind vocab-freq (kind='vocab-freq')",
        )


def counts_from_dict(value: Any, name: str, options: ReadOptions) -> Counts:
    """Reads token-freq: a dict id → count."""
    if not isinstance(value, Mapping):
        raise FileFormatError(f"{name} is a {type(value).__name__}", expected="a dict id → count")
    with prefix_errors(name):
        return Counts.from_mapping(value, options.rows)


def save_dict(counts: Counts, path: Path) -> None:
    """Writes token-freq, the most frequent first, ties to the lower id.

    Tools that break ties by the order of insertion then break them as we do.
    """
    order = np.lexsort((counts.ids, -counts.values))
    ids, values = counts.ids[order].tolist(), counts.values[order].tolist()
    by_id = dict(zip(ids, values, strict=True))
    save_plain(by_id | dict.fromkeys(counts.fill.tolist(), 0), path)
