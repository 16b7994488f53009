"""Frequency tables with given counts."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from vocabfreq import FrequencyTable
from vocabfreq.frequencies.metadata import EncoderRecord, Metadata, SourceRecord, TokenizerRecord


def table(
    counts: list[list[int]],
    heldout: list[list[int]] | None = None,
    weights: list[float | None] | None = None,
    sha256: str = "ab" * 32,
) -> FrequencyTable:
    """A table with the given rows."""
    outside = np.array(counts, np.int64)
    inside = np.zeros_like(outside) if heldout is None else np.array(heldout, np.int64)
    sources = tuple(
        SourceRecord(
            name=f"s{n}",
            files=(f"s{n}.jsonl",),
            sha256=f"{n:064x}",
            weight=None if weights is None else weights[n],
            documents=3,
            heldout_documents=1,
            tokens=int(outside[n].sum() + inside[n].sum()),
            bytes=10,
        )
        for n in range(len(counts))
    )
    rows = outside.shape[1]
    meta = Metadata(
        format=1,
        vocabfreq="0",
        tokenizer=TokenizerRecord(name="t", revision=None, sha256=sha256, size=rows, rows=rows),
        special_ids=(),
        stop_ids=(0,),
        byte_ids=(),
        sources=sources,
        options={"holdout": 50},
        encoder=EncoderRecord(
            name="tokenizers", version="1", cross_checked_documents=0, mismatched_documents=0
        ),
    )
    return FrequencyTable(outside, inside, meta)


def unpinned_table(
    counts: list[list[int]],
    heldout: list[list[int]] | None = None,
    *,
    absent: tuple[tuple[int, int], ...] = (),
    **ids: tuple[int, ...],
) -> FrequencyTable:
    """A table without pins, unless `stop_ids`, `template_ids`, … are given."""
    plain = table(counts, heldout)
    missing = sum(stop - start for start, stop in absent)
    tokenizer = msgspec.structs.replace(plain.tokenizer, absent=absent, size=plain.rows - missing)
    known: Mapping[str, Any] = {"stop_ids": (), "template_ids": (), "byte_ids": (), **ids}
    meta = msgspec.structs.replace(plain.meta, tokenizer=tokenizer, **known)
    return FrequencyTable(plain.counts, plain.heldout, meta)
