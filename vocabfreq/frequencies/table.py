"""FrequencyTable: how often each target id occurs, source by source, and what follows from it.

    >>> table = FrequencyTable.load("vocab_freq.safetensors")
    >>> table.coverage(32_768)
    0.981

A table counts and ranks. Which ids to keep is decided in `vocab`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.errors import SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.merging import merged_metadata
from vocabfreq.frequencies.metadata import Metadata, SourceRecord, TokenizerRecord
from vocabfreq.frequencies.selection import Pins, Wish, is_whole, pinned_ids, select

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FrequencyTable:
    """Counts of one tokenizer over one or more sources.

    Attributes:
        counts: int64 [S, V], occurrences per source, held-out documents left out.
        heldout: int64 [S, V], occurrences in the held-out documents.
        meta: everything else that the file says.
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
    def weighted_counts(self) -> npt.NDArray[np.float64] | Counts:
        """[V], what ranks the ids: int64 raw counts, or float64 weighted shares of the sources."""
        return self._mixed(self.counts)

    def _mixed(self, rows: Counts) -> npt.NDArray[np.float64] | Counts:
        """Sums rows over sources: raw, or each by its shares times its weight."""
        weights = [source.weight for source in self.sources]
        if all(weight is None for weight in weights):
            raw: Counts = rows.sum(axis=0)
            return raw
        total = np.zeros(self.rows, np.float64)
        for row, weight in zip(rows, weights, strict=True):
            if row.any():
                total += row * ((1.0 if weight is None else weight) / row.sum())
        return total

    @cached_property
    def emittable(self) -> npt.NDArray[np.bool_]:
        """Which ids the tokenizer can emit, bool [V]; padding rows and holes are never selected."""
        mask = np.ones(self.rows, bool)
        for start, stop in self.tokenizer.absent:
            mask[start:stop] = False
        return mask

    def coverage(self, size: int, source: str | None = None) -> float:
        """Share of tokens whose id is among the `size` most frequent ids.

        Counts held-out tokens when there are any, else all counted tokens.

        Args:
            size: K.
            source: name of one source, None for all of them (by weight where there are weights).

        Raises:
            SelectionError: `size` is not between 0 and V, or there is no such source.
        """
        if not is_whole(size, 0) or size > self.rows:
            raise SelectionError(
                f"size {size!r}", expected=f"a whole number from 0 to {self.rows}, the rows"
            )
        curve = self.coverage_curve(source)
        return float(curve[size - 1]) if size else 0.0

    def coverage_curve(self, source: str | None = None) -> npt.NDArray[np.float64]:
        """float64 [V], `coverage(k + 1)` at index k; all zero when nothing was counted."""
        tokens = self.evaluated(source)[self.ranked_ids]
        total = tokens.sum()
        running = np.cumsum(tokens, dtype=np.float64 if total else None)
        return running / total if total else np.zeros(self.rows)

    def coverage_of(self, ids: npt.NDArray[np.integer], source: str | None = None) -> float:
        """Share of tokens whose id is among the given unique ids; 0 when nothing was counted."""
        tokens = self.evaluated(source)
        total = tokens.sum()
        return float(tokens[ids].sum() / total) if total else 0.0

    def shares(self) -> npt.NDArray[np.float64]:
        """float64 [V], share of each id in all that was counted outside the held-out documents."""
        total = self.weighted_counts.sum()
        return self.weighted_counts / total if total else np.zeros(self.rows)

    def evaluated(self, source: str | None = None) -> npt.NDArray[np.float64] | Counts:
        """The tokens, [V] per id, on which coverage is measured: held-out ones if there are any."""
        if source is None:
            return self._mixed(self.heldout if self.heldout.any() else self.counts)
        index = self.source_index(source)
        inside: Counts = self.heldout[index]
        outside: Counts = self.counts[index]
        return inside if inside.any() else outside

    def source_index(self, name: str) -> int:
        """Row of a source by its name.

        Raises:
            SelectionError: there is none.
        """
        names = [source.name for source in self.sources]
        if name not in names:
            raise SelectionError(f"no source {name!r}", expected=f"one of {', '.join(names)}")
        return names.index(name)

    def select(
        self,
        size: int | str | None = None,
        *,
        pins: Pins = "default",
        extra_ids: Iterable[int] = (),
        weights: Mapping[str, float] | None = None,
        **wish: Any,
    ) -> DraftVocab:
        """Selects the ids that a drafter keeps: pins, then the most frequent ones.

        Args:
            size: K, pins included, or a share of V such as "25%".
            pins: `default` (stop ids, tokens of the chat template, BOS, EOS, byte tokens),
                `special` (stop ids and all special tokens), or `none`.
            extra_ids: more ids to keep.
            weights: rank by these, as in `reweighted`; None for the table's own ranking.
            **wish: instead of a size `coverage` or `min_count`; also `floors` (source → coverage
                that K must grow to reach) and `multiple_of` (K is rounded up). See
                `vocabfreq.frequencies.selection.Wish`.

        Raises:
            SelectionError: the wish contradicts itself or cannot be met; names both numbers.
        """
        table = self if weights is None else self.reweighted(weights)
        pinned = pinned_ids(table.meta, table.emittable, pins, extra_ids)
        return select(table, Wish(size=size, **wish), pinned)

    def only(self, source: str) -> "FrequencyTable":
        """The table of one source alone, ranked by its own counts.

        Raises:
            SelectionError: there is no such source.
        """
        index = self.source_index(source)
        part = slice(index, index + 1)
        meta = _with(self.meta, sources=(_weighed(self.sources[index], None),))
        return FrequencyTable(self.counts[part], self.heldout[part], meta)

    def reweighted(self, weights: Mapping[str, float] | None) -> "FrequencyTable":
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
        sources = tuple(_weighed(source, weights) for source in self.sources)
        if weights and not any(source.weight for source in sources):
            raise SelectionError("every source weighs 0", expected="at least one weight above 0")
        return replace(self, meta=_with(self.meta, sources=sources))

    def __add__(self, other: "FrequencyTable") -> "FrequencyTable":
        """Both tables' sources side by side.

        Raises:
            MismatchError: the tokenizers differ.
            RefusedError: a source is in both, by name and content.
        """
        meta = merged_metadata(self.meta, other.meta)
        counts = np.concatenate([self.counts, other.counts])
        return FrequencyTable(counts, np.concatenate([self.heldout, other.heldout]), meta)

    def __eq__(self, other: object) -> bool:
        """Equal counts and equal metadata."""
        if not isinstance(other, FrequencyTable):
            return NotImplemented
        same = np.array_equal(self.counts, other.counts)
        return same and np.array_equal(self.heldout, other.heldout) and self.meta == other.meta

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tokenizer, rows, and what was counted."""
        tokens = sum(source.tokens for source in self.sources)
        names = ", ".join(source.name for source in self.sources)
        return (
            f"FrequencyTable({self.tokenizer.name}, V={self.rows:,}, {tokens:,} tokens of {names})"
        )

    def save(self, path: str | Path) -> None:
        """Writes `vocab_freq.safetensors`, whole or not at all; equal tables give equal bytes."""
        from vocabfreq.frequencies.file import save_table

        save_table(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FrequencyTable":
        """Reads and checks a frequency file.

        Args:
            path: a file, or a repo on the Hub, `owner/name[@revision]`, whose file is fetched and
                compared with its manifest. A `Path` is always local.

        Raises:
            FileFormatError: it is not one, or breaks its own format; names what is wrong.
        """
        from vocabfreq.frequencies.file import load_table, published

        remote = published(path) if isinstance(path, str) else None
        return load_table(remote or Path(path))


def _with(meta: Metadata, **changes: object) -> Metadata:
    return msgspec.structs.replace(meta, **changes)


def _weighed(source: SourceRecord, weights: Mapping[str, float] | None) -> SourceRecord:
    weight = None if weights is None else float(weights.get(source.name, 1.0))
    return msgspec.structs.replace(source, weight=weight)
