"""Counts per source: how they rank the target ids, and how much of a text some ids cover."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.errors import SelectionError
from vocabfreq.frequencies import frequency_file
from vocabfreq.frequencies.metadata import Metadata, SourceRecord, TokenizerRecord

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RankedCounts:
    """Counts of one tokenizer over one or more sources.

    Attributes:
        counts: int64 [S, V], occurrences per source, held-out documents left out.
        heldout: int64 [S, V], occurrences in the held-out documents.
        meta: the metadata of the frequency file.
    """

    counts: Counts
    heldout: Counts
    meta: Metadata

    @property
    def tokenizer(self) -> TokenizerRecord:
        """The tokenizer that counted."""
        return self.meta.tokenizer

    @property
    def sources(self) -> tuple[SourceRecord, ...]:
        """The sources, in the order of the rows of `counts`."""
        return self.meta.sources

    @property
    def rows(self) -> int:
        """V, rows of the target's lm_head."""
        return self.tokenizer.rows

    @cached_property
    def ranked_ids(self) -> Counts:
        """int64 [V], every target id once, by falling weighted count, ties to the lower id."""
        return np.lexsort((np.arange(self.rows), -self.weighted_counts))

    @cached_property
    def weighted_counts(self) -> Shares | Counts:
        """[V], the value that ranks each id: int64 raw counts, or float64 weighted shares."""
        return self._sum_over_sources(self.counts)

    @cached_property
    def total_counts(self) -> Counts:
        """int64 [V], raw counts summed over the sources, held-out documents left out."""
        return np.asarray(self.counts.sum(axis=0))

    @cached_property
    def emittable(self) -> npt.NDArray[np.bool_]:
        """Bool [V], which ids the tokenizer can emit; padding rows and holes it cannot."""
        mask = np.ones(self.rows, bool)
        for start, stop in self.tokenizer.absent:
            mask[start:stop] = False
        return mask

    def _sum_over_sources(self, counts: Counts) -> Shares | Counts:
        """[V] of [S, V]: raw sums, or where sources have weights, weighted sums of their shares."""
        weights = [source.weight for source in self.sources]
        if all(weight is None for weight in weights):
            return np.asarray(counts.sum(axis=0))
        total = np.zeros(self.rows, np.float64)
        for row, weight in zip(counts, weights, strict=True):
            if row.any():
                total += row * ((1.0 if weight is None else weight) / row.sum())
        return total

    def source_index(self, name: str) -> int:
        """Row of a source in `counts`.

        Raises:
            SelectionError: no source has this name.
        """
        names = [source.name for source in self.sources]
        if name not in names:
            raise SelectionError(f"no source {name!r}", expected=f"one of {', '.join(names)}")
        return names.index(name)

    def evaluation_counts(self, source: str | None = None) -> Shares | Counts:
        """[V], the counts on which coverage is measured: held-out ones if there are any.

        Args:
            source: name of one source, None for all of them (by weight where there are weights).

        Raises:
            SelectionError: no source has this name.
        """
        if source is None:
            return self._sum_over_sources(self.heldout if self.heldout.any() else self.counts)
        index = self.source_index(source)
        row: Counts = self.heldout[index] if self.heldout[index].any() else self.counts[index]
        return row

    def coverage(self, size: int, source: str | None = None) -> float:
        """Share of tokens whose id is among the `size` most frequent ids.

        Measured on held-out tokens when there are any, else on all counted tokens.

        Args:
            size: K.
            source: name of one source, None for all of them (by weight where there are weights).

        Raises:
            SelectionError: `size` is not between 0 and V, or no source has this name.
        """
        if not is_integer(size, 0) or size > self.rows:
            raise SelectionError(
                f"size {size!r}", expected=f"a whole number from 0 to {self.rows}, the rows"
            )
        curve = self.coverage_curve(source)
        return float(curve[size - 1]) if size else 0.0

    def coverage_curve(self, source: str | None = None) -> Shares:
        """float64 [V], `coverage(k + 1)` at index k; all zero when nothing was counted."""
        tokens = self.evaluation_counts(source)[self.ranked_ids]
        total = tokens.sum()
        return np.cumsum(tokens, dtype=np.float64) / total if total else np.zeros(self.rows)

    def coverage_of(self, ids: npt.NDArray[np.integer], source: str | None = None) -> float:
        """Share of tokens whose id is among the given unique ids; 0 when nothing was counted."""
        tokens = self.evaluation_counts(source)
        total = tokens.sum()
        return float(tokens[ids].sum() / total) if total else 0.0

    def shares(self) -> Shares:
        """float64 [V], share of each id in all tokens outside the held-out documents."""
        total = self.weighted_counts.sum()
        return self.weighted_counts / total if total else np.zeros(self.rows)

    def reweighted(self, weights: Mapping[str, float] | None) -> Self:
        """The same counts, ranked by other weights.

        Args:
            weights: source name → weight ≥ 0; sources that are not named weigh 1. None ranks by
                raw counts.

        Raises:
            SelectionError: a name is unknown, or a weight is negative, or all are zero.
        """
        for name, weight in (weights or {}).items():
            self.source_index(name)
            if not isinstance(weight, int | float) or not 0 <= weight < float("inf"):
                raise SelectionError(f"weight {weight!r} of {name!r}", expected="a number ≥ 0")
        sources = tuple(
            msgspec.structs.replace(
                source, weight=None if weights is None else float(weights.get(source.name, 1.0))
            )
            for source in self.sources
        )
        if weights and not any(source.weight for source in sources):
            raise SelectionError("every source weighs 0", expected="at least one weight above 0")
        return replace(self, meta=msgspec.structs.replace(self.meta, sources=sources))

    def save(self, path: str | Path) -> None:
        """Writes `vocab_freq.safetensors`, whole or not at all; equal tables give equal bytes."""
        arrays = frequency_file.FrequencyArrays(
            self.counts, self.heldout, self.ranked_ids, self.meta
        )
        frequency_file.write_frequency_file(arrays, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads and checks a frequency file.

        Args:
            path: a file, or `owner/name[@revision]` on the Hub, whose frequency file is downloaded
                and compared with its manifest. A `Path` is always local.

        Raises:
            FileFormatError: it is no frequency file, or breaks the format; names what is wrong.
        """
        local = frequency_file.locate_frequency_file(path)
        arrays = frequency_file.read_frequency_file(local)
        counts = cls(arrays.counts, arrays.heldout, arrays.meta)
        frequency_file.check_ranking(local, arrays.ranked_ids, counts.ranked_ids)
        return counts


def is_integer(value: Any, minimum: int) -> bool:
    """Whether a value is an integer (Python's or NumPy's, no boolean) from `minimum`."""
    integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return integer and value >= minimum
