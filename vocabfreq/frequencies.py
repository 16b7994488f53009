"""FrequencyTable: how often each target id occurs, source by source, and what follows from it.

    >>> table = FrequencyTable.load("vocab_freq.safetensors")
    >>> table.coverage(32_768)
    0.981

A table counts and ranks. Which ids to keep is decided in `vocab`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import MismatchError, RefusedError, SelectionError
from vocabfreq.records import EncoderRecord, Metadata, SourceRecord, TokenizerRecord

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

    def coverage(self, size: int, source: str | None = None) -> float:
        """Share of tokens whose id is among the `size` most frequent ids.

        Counts held-out tokens when there are any, else all counted tokens.

        Args:
            size: K.
            source: name of one source, None for all of them (by weight where there are weights).

        Raises:
            SelectionError: `size` is not between 0 and V, or there is no such source.
        """
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= self.rows:
            raise SelectionError(
                f"size {size!r}", expected=f"a whole number from 0 to {self.rows}, the rows"
            )
        curve = self.coverage_curve(source)
        return float(curve[size - 1]) if size else 0.0

    def coverage_curve(self, source: str | None = None) -> npt.NDArray[np.float64]:
        """float64 [V], `coverage(k + 1)` at index k; all zero when nothing was counted."""
        tokens = self._evaluated(source)[self.ranked_ids]
        total = tokens.sum()
        running = np.cumsum(tokens, dtype=np.float64 if total else None)
        return running / total if total else np.zeros(self.rows)

    def coverage_of(self, ids: npt.NDArray[np.integer], source: str | None = None) -> float:
        """Share of tokens whose id is among the given unique ids; 0 when nothing was counted."""
        tokens = self._evaluated(source)
        total = tokens.sum()
        return float(tokens[ids].sum() / total) if total else 0.0

    def shares(self) -> npt.NDArray[np.float64]:
        """float64 [V], share of each id in all that was counted outside the held-out documents."""
        total = self.weighted_counts.sum()
        return self.weighted_counts / total if total else np.zeros(self.rows)

    def _evaluated(self, source: str | None) -> npt.NDArray[np.float64] | Counts:
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
            if not (np.isfinite(weight) and weight >= 0):
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
        check_same_tokenizer(self, other)
        sources = _side_by_side(self.sources, other.sources)
        meta = _with(
            self.meta,
            sources=sources,
            options=_merged_options(self.meta.options, other.meta.options),
            encoder=merged_encoders(self.meta.encoder, other.meta.encoder),
            special_ids=_union(self.meta.special_ids, other.meta.special_ids),
            stop_ids=_union(self.meta.stop_ids, other.meta.stop_ids),
            template_ids=_union(self.meta.template_ids, other.meta.template_ids),
        )
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
        from vocabfreq.freqfile import save_table

        save_table(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "FrequencyTable":
        """Reads and checks a frequency file.

        Raises:
            FileFormatError: it is not one, or breaks its own format; names what is wrong.
        """
        from vocabfreq.freqfile import load_table

        return load_table(Path(path))


def check_same_tokenizer(a: FrequencyTable, b: FrequencyTable) -> None:
    """Refuses tables of two tokenizers.

    Raises:
        MismatchError: with both fingerprints.
    """
    for what in ("sha256", "rows"):
        mine, theirs = getattr(a.tokenizer, what), getattr(b.tokenizer, what)
        if mine != theirs:
            raise MismatchError(
                f"the tokenizers differ in {what}: {a.tokenizer.name} has {mine}, "
                f"{b.tokenizer.name} has {theirs}",
                expected="tables of one tokenizer and one model",
                hint="count the corpus again with the tokenizer of the other table",
            )


def merged_encoders(a: EncoderRecord, b: EncoderRecord) -> EncoderRecord:
    """One record for what two engines did."""
    engines = dict.fromkeys([*_engines(a), *_engines(b)])
    known = [engine for engine in engines if engine[0] != "none"] or [("none", "")]
    return EncoderRecord(
        name="+".join(name for name, _ in sorted(known)),
        version="+".join(version for _, version in sorted(known)),
        cross_checked_documents=a.cross_checked_documents + b.cross_checked_documents,
        mismatched_documents=a.mismatched_documents + b.mismatched_documents,
        code_points=tuple(sorted({*a.code_points, *b.code_points})),
    )


def _engines(record: EncoderRecord) -> list[tuple[str, str]]:
    return list(zip(record.name.split("+"), record.version.split("+"), strict=False))


def _with(meta: Metadata, **changes: object) -> Metadata:
    import msgspec

    return msgspec.structs.replace(meta, **changes)


def _weighed(source: SourceRecord, weights: Mapping[str, float] | None) -> SourceRecord:
    import msgspec

    weight = None if weights is None else float(weights.get(source.name, 1.0))
    return msgspec.structs.replace(source, weight=weight)


def _side_by_side(
    mine: tuple[SourceRecord, ...], theirs: tuple[SourceRecord, ...]
) -> tuple[SourceRecord, ...]:
    sources = list(mine)
    for source in theirs:
        twin = next(
            (s for s in sources if (s.name, s.sha256) == (source.name, source.sha256)), None
        )
        if twin is not None:
            raise RefusedError(
                f"source {source.name!r} is in both tables, with the same content",
                hint="counting it twice would double its weight; leave one of the files out",
            )
        sources.append(_renamed(source, {s.name for s in sources}))
    return tuple(sources)


def _renamed(source: SourceRecord, taken: set[str]) -> SourceRecord:
    """Another content under a name that is taken gets a number, so that names stay unique."""
    import msgspec

    names = [source.name, *(f"{source.name}-{n}" for n in range(2, len(taken) + 3))]
    return msgspec.structs.replace(source, name=next(n for n in names if n not in taken))


def _merged_options(a: dict[str, object], b: dict[str, object]) -> dict[str, object]:
    """Options that agree stay; those that differ become lists of both."""
    merged: dict[str, object] = {}
    for key in sorted({*a, *b}):
        values = [o[key] for o in (a, b) if key in o]
        flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
        unique = [v for i, v in enumerate(flat) if v not in flat[:i]]
        merged[key] = unique[0] if len(unique) == 1 else unique
    return merged


def _union(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({*a, *b}))
