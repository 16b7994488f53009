"""Partial files of all shards of a plan → one table."""

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from vocabfreq.errors import CountError
from vocabfreq.frequencies import FrequencyTable
from vocabfreq.merging import merged_encoders
from vocabfreq.partials import load_partial, partial_path
from vocabfreq.planning import Plan
from vocabfreq.records import FORMAT, Metadata, TokenizerRecord
from vocabfreq.sources.tally import Example
from vocabfreq.tokenizer import TokenizerInfo
from vocabfreq.totals import SourceTotal


@dataclass
class Report:
    """What a person should hear about a finished count, beside the table.

    Attributes:
        table: the counts.
        examples: the first places of each reason, per source name.
        changes: why earlier partial files were not used.
        resumed: shards that an earlier run had counted.
        shards: all shards.
    """

    table: FrequencyTable
    examples: dict[str, list[Example]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    resumed: int = 0
    shards: int = 0


def merge_partials(plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard.

    Raises:
        CountError: one is missing.
    """
    rows = (len(plan.sources), plan.job.rows)
    counts, heldout = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    totals = [SourceTotal() for _ in plan.sources]
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        part = load_partial(partial_path(work_dir, key))
        if part is None:
            raise CountError(f"no partial file of {shard.name}", hint="run the same command again")
        counts[shard.source] += part.counts
        heldout[shard.source] += part.heldout
        totals[shard.source].add(part, [piece.file.path for piece in shard.pieces])
    meta = _metadata(plan, totals)
    examples = {s.name: t.examples for s, t in zip(plan.sources, totals, strict=True)}
    return Report(FrequencyTable(counts, heldout, meta), examples, shards=len(plan.shards))


def _metadata(plan: Plan, totals: list[SourceTotal]) -> Metadata:
    weights = plan.options.weights
    encoder = totals[0].encoder
    for total in totals[1:]:
        encoder = merged_encoders(encoder, total.encoder)
    return Metadata(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=tokenizer_record(plan.tokenizer),
        special_ids=plan.tokenizer.special_ids,
        stop_ids=plan.tokenizer.stop_ids,
        template_ids=plan.tokenizer.template_ids,
        byte_ids=plan.tokenizer.byte_ids,
        sources=tuple(
            total.record(
                source, plan.files(n), None if weights is None else weights.get(source.name, 1.0)
            )
            for n, (source, total) in enumerate(zip(plan.sources, totals, strict=True))
        ),
        options=_options(plan),
        encoder=encoder,
    )


def tokenizer_record(info: TokenizerInfo) -> TokenizerRecord:
    """The part of a TokenizerInfo that goes into files."""
    return TokenizerRecord(
        name=info.name,
        revision=info.revision,
        sha256=info.sha256,
        size=info.size,
        rows=info.rows,
        absent=info.absent,
    )


def _options(plan: Plan) -> dict[str, object]:
    """What was asked for; one value where all sources agree, else a list in source order."""
    shown: dict[str, object] = {"holdout": plan.options.holdout, "encoder": plan.options.encoder}
    for name in ("roles", "separator", "max_documents"):
        values = [getattr(source, name) for source in plan.sources]
        shown[name] = values[0] if all(v == values[0] for v in values) else values
    columns = {s.source: s.layout.column for s in reversed(plan.shards)}
    shown["columns"] = {plan.sources[n].name: column for n, column in sorted(columns.items())}
    return shown
