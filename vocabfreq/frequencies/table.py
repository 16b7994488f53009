"""FrequencyTable: how often each target id occurs, source by source.

    >>> table = FrequencyTable.load("vocab_freq.safetensors")
    >>> table.coverage(32_768)
    0.981
    >>> table.select(32_768, multiple_of=64)
    DraftVocab(K=32,768 of V=128,256, 25.5%, covers 98.10 %)

Ranking and coverage are in `ranking`, the rules of `select` in `selection`, the file format in
`file`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.merging import merge_metadata
from vocabfreq.frequencies.ranking import RankedCounts
from vocabfreq.frequencies.selection import Pins, SelectionOptions


class FrequencyTable(RankedCounts):
    """Counts of one tokenizer over one or more sources: selected from, merged, saved and loaded."""

    def select(
        self,
        size: int | str | None = None,
        *,
        pins: Pins = "default",
        extra_ids: Iterable[int] = (),
        weights: Mapping[str, float] | None = None,
        **options: Any,
    ) -> DraftVocab:
        """Selects the ids that a drafter keeps: pins, then the most frequent ones.

        Args:
            size: K, pins included, or a share of V such as "25%".
            pins: `default` (stop ids, tokens of the chat template, BOS, EOS, byte tokens),
                `special` (stop ids and all special tokens), or `none`.
            extra_ids: more ids to keep.
            weights: rank by these, as in `reweighted`; None for the table's own ranking.
            **options: instead of a size `coverage` or `min_count`; also `floors` (source → coverage
                that K must grow to reach) and `multiple_of` (K is rounded up). See
                `vocabfreq.frequencies.selection.SelectionOptions`.

        Raises:
            SelectionError: the options contradict each other or cannot be met; names both numbers.
        """
        return DraftVocab.from_counts(
            self,
            SelectionOptions(size=size, pins=pins, extra_ids=extra_ids, weights=weights, **options),
        )

    def only(self, source: str) -> "FrequencyTable":
        """The table of one source alone, ranked by its own counts.

        Raises:
            SelectionError: no source has this name.
        """
        index = self.source_index(source)
        record = msgspec.structs.replace(self.sources[index], weight=None)
        meta = msgspec.structs.replace(self.meta, sources=(record,))
        part = slice(index, index + 1)
        return FrequencyTable(self.counts[part], self.heldout[part], meta)

    def __add__(self, other: "FrequencyTable") -> "FrequencyTable":
        """Both tables' sources side by side.

        Raises:
            MismatchError: the tokenizers differ.
            RefusedError: a source is in both, by name and content.
        """
        meta = merge_metadata(self.meta, other.meta)
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
        """Tokenizer, V, and the tokens and names of the sources."""
        tokens = sum(source.tokens for source in self.sources)
        names = ", ".join(source.name for source in self.sources)
        return (
            f"FrequencyTable({self.tokenizer.name}, V={self.rows:,}, {tokens:,} tokens of {names})"
        )
