"""Partial files of all shards of a plan → one table.

Sums over the shards of one source, and what the file then says of it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from vocabfreq.corpus.bad_rows import EXAMPLES_PER_REASON, Example
from vocabfreq.corpus.sources import Shard, Source
from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.shard import ShardCount, mask_remark
from vocabfreq.errors import CountError
from vocabfreq.frequencies.merging import merge_encoders
from vocabfreq.frequencies.metadata import (
    FORMAT,
    EncoderRecord,
    Metadata,
    SourceRecord,
    TokenizerRecord,
)
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.tokenizer.info import TokenizerInfo


class SourceTotal:
    """Sums over the shards of one source."""

    def __init__(self) -> None:
        self.documents = self.heldout_documents = self.tokens = self.bytes = self.digest = 0
        self.skipped: Counter[str] = Counter()
        self.examples: list[Example] = []
        self.lines: Counter[str] = Counter()
        self.first_path: str | None = None
        self.mask = (0, 0)
        self.encoder = EncoderRecord(
            name="none", version="", cross_checked_documents=0, mismatched_documents=0
        )

    def add(self, part: ShardCount, paths: list[str]) -> None:
        """Adds a shard, in plan order."""
        for name in ("documents", "heldout_documents", "tokens", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.digest = (self.digest + part.digest) % 2**256
        self.skipped.update(part.tally.skipped)
        self.mask = (self.mask[0] + part.mask[0], self.mask[1] + part.mask[1])
        self.encoder = merge_encoders(self.encoder, _encoder_record(part))
        self._place(part, paths)

    def extend(self, later: "SourceTotal") -> None:
        """Adds the sums over the shards that come next in plan order."""
        for name in ("documents", "heldout_documents", "tokens", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.digest = (self.digest + later.digest) % 2**256
        self.skipped.update(later.skipped)
        self.mask = (self.mask[0] + later.mask[0], self.mask[1] + later.mask[1])
        self.encoder = merge_encoders(self.encoder, later.encoder)
        if later.first_path is not None:
            self._keep(_moved(later.examples, later.first_path, self.lines[later.first_path]))
            self.first_path = self.first_path or later.first_path
        self.lines.update(later.lines)

    def _keep(self, examples: Iterable[Example]) -> None:
        """The first few of each reason; a source of thousands of shards has too many."""
        for example in examples:
            if sum(e.reason == example.reason for e in self.examples) < EXAMPLES_PER_REASON:
                self.examples.append(example)

    def _place(self, part: ShardCount, paths: list[str]) -> None:
        """Turns line numbers within a shard into line numbers of the file."""
        self.first_path = self.first_path or paths[0]
        self._keep(_moved(part.tally.examples, paths[0], self.lines[paths[0]]))
        for path, lines in zip(paths, part.lines, strict=False):
            self.lines[path] += lines

    def record(self, source: Source, files: tuple[str, ...], weight: float | None) -> SourceRecord:
        """What the file says of the source."""
        remark = mask_remark(self.mask)
        skipped = self.skipped + Counter({remark: 1} if remark else {})
        return SourceRecord(
            name=source.name,
            files=files,
            sha256=f"{self.digest:064x}",
            weight=weight,
            documents=self.documents,
            heldout_documents=self.heldout_documents,
            tokens=self.tokens,
            bytes=self.bytes,
            skipped=dict(sorted(skipped.items())),
        )


def _moved(examples: Iterable[Example], path: str, lines: int) -> Iterator[Example]:
    """Examples of a file as lines of it, when so many came before what was read."""
    for example in examples:
        here = example.unit != "byte" and example.file == Path(path).name
        yield replace(example, number=example.number + lines * here)


def _encoder_record(part: ShardCount) -> EncoderRecord:
    return EncoderRecord(
        name=part.encoder[0],
        version=part.encoder[1],
        cross_checked_documents=part.checked,
        mismatched_documents=part.mismatched,
        code_points=tuple(part.code_points),
    )


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
        encoder = merge_encoders(encoder, total.encoder)
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
