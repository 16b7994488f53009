"""Partial files of all shards of a plan → one table."""

from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from vocabfreq.corpus.bad_rows import Example
from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.shardcount import ShardCount
from vocabfreq.counting.totals import SourceTotal
from vocabfreq.errors import CountError
from vocabfreq.frequencies.merging import merged_encoders
from vocabfreq.frequencies.metadata import FORMAT, Metadata, TokenizerRecord
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.tokenizer.info import TokenizerInfo


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


class Sums:
    """Sums over consecutive shards of a plan; those of two neighbours add up to one.

    Attributes:
        counts: int64 [S, V]; likewise `heldout`.
        totals: one a source.
    """

    def __init__(self, sources: int, rows: int) -> None:
        self.counts, self.heldout = (np.zeros((sources, rows), np.int64) for _ in range(2))
        self.totals = [SourceTotal() for _ in range(sources)]

    def add(self, shard: Shard, part: ShardCount) -> None:
        """Adds the next shard, in plan order."""
        self.counts[shard.source] += part.counts
        self.heldout[shard.source] += part.heldout
        self.totals[shard.source].add(part, [piece.file.path for piece in shard.pieces])

    def extend(self, later: "Sums") -> None:
        """Adds the sums of the shards that come next."""
        self.counts += later.counts
        self.heldout += later.heldout
        for total, more in zip(self.totals, later.totals, strict=True):
            total.extend(more)


def merge_partials(plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard, each once.

    Raises:
        CountError: some are missing, or damaged; it names the first few.
    """
    sums, missing = Sums(len(plan.sources), plan.job.rows), []
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        part = load_partial(partial_path(work_dir, key))
        if part is None:
            missing.append(shard.name)
        elif not missing:
            sums.add(shard, part)
    if missing:
        raise missing_shards(missing, len(plan.shards))
    return report_of(plan, sums)


def missing_shards(names: list[str], shards: int) -> CountError:
    """The error that some shards have no partial file."""
    named = ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")
    return CountError(
        f"{len(names):,} of {shards:,} shards are not counted: {named}",
        hint="count them first: vocabfreq count --plan …, or the same build again; "
        "nothing is counted twice",
    )


def report_of(plan: Plan, sums: Sums) -> Report:
    """What a person should hear, of the sums over all shards."""
    named = zip(plan.sources, sums.totals, strict=True)
    table = FrequencyTable(sums.counts, sums.heldout, _metadata(plan, sums.totals))
    return Report(table, {s.name: t.examples for s, t in named}, shards=len(plan.shards))


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
