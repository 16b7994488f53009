"""Merges the partial files of all shards of a plan into one table."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


@dataclass
class Report:
    """A finished count.

    Attributes:
        table: the counts.
        examples: source name → the first examples of bad rows of each reason.
        changes: why the partial files of an earlier build were not used.
        resumed: shards that an earlier run had counted.
        shards: all shards.
        layouts: source name → what of its rows counts; empty for a plan from a file.
    """

    table: FrequencyTable
    examples: dict[str, list[Example]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    resumed: int = 0
    shards: int = 0
    layouts: dict[str, str] = field(default_factory=dict)


@dataclass
class SourceTotals:
    """Sums over consecutive shards of one source; the fields are those of `ShardCount`.

    Attributes:
        examples: the first bad rows of each reason.
        lines: path → lines read of that file.
        first_path: path of the first file, None without shards.
    """

    documents: int = 0
    heldout_documents: int = 0
    tokens: int = 0
    bytes: int = 0
    digest: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    examples: list[Example] = field(default_factory=list)
    lines: Counter[str] = field(default_factory=Counter)
    first_path: str | None = None
    mask: tuple[int, int] = (0, 0)
    encoder: EncoderRecord = field(
        default_factory=lambda: EncoderRecord(
            name="none", version="", cross_checked_documents=0, mismatched_documents=0
        )
    )

    def extend(self, later: "SourceTotals") -> None:
        """Adds the sums over the shards that come next in plan order."""
        for name in ("documents", "heldout_documents", "tokens", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.digest = (self.digest + later.digest) % 2**256
        self.skipped.update(later.skipped)
        self.mask = (self.mask[0] + later.mask[0], self.mask[1] + later.mask[1])
        self.encoder = merge_encoders(self.encoder, later.encoder)
        if later.first_path is not None:
            before = self.lines[later.first_path]
            for example in _renumbered(later.examples, later.first_path, before):
                # A source of thousands of shards has too many.
                if sum(e.reason == example.reason for e in self.examples) < EXAMPLES_PER_REASON:
                    self.examples.append(example)
            self.first_path = self.first_path or later.first_path
        self.lines.update(later.lines)

    def record(self, source: Source, files: tuple[str, ...], weight: float | None) -> SourceRecord:
        """The metadata of the source."""
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


def _renumbered(examples: Iterable[Example], path: str, before: int) -> Iterator[Example]:
    """Examples numbered within a file of which so many lines came before."""
    for example in examples:
        is_line = example.unit != "byte" and example.file == Path(path).name
        yield replace(example, number=example.number + before * is_line)


def _shard_totals(shard: Shard, part: ShardCount) -> SourceTotals:
    lines: Counter[str] = Counter()
    for piece, number in zip(shard.pieces, part.lines, strict=False):
        lines[piece.file.path] += number
    return SourceTotals(
        documents=part.documents,
        heldout_documents=part.heldout_documents,
        tokens=part.tokens,
        bytes=part.bytes,
        digest=part.digest,
        skipped=Counter(part.bad_rows.skipped),
        examples=part.bad_rows.examples,
        lines=lines,
        first_path=shard.pieces[0].file.path,
        mask=part.mask,
        encoder=EncoderRecord(
            name=part.encoder[0],
            version=part.encoder[1],
            cross_checked_documents=part.checked,
            mismatched_documents=part.mismatched,
            code_points=tuple(part.code_points),
        ),
    )


class Totals:
    """Sums over consecutive shards of a plan.

    Attributes:
        counts: int64 [S, V], occurrences outside the held-out documents, per source.
        heldout: int64 [S, V], the same inside them.
        sources: the other sums, per source.
    """

    def __init__(self, sources: int, rows: int) -> None:
        self.counts, self.heldout = (np.zeros((sources, rows), np.int64) for _ in range(2))
        self.sources = [SourceTotals() for _ in range(sources)]

    def add(self, shard: Shard, part: ShardCount) -> None:
        """Adds the next shard, in plan order."""
        self.counts[shard.source] += part.counts
        self.heldout[shard.source] += part.heldout
        self.sources[shard.source].extend(_shard_totals(shard, part))

    def extend(self, later: "Totals") -> None:
        """Adds the sums over the shards that come next in plan order."""
        self.counts += later.counts
        self.heldout += later.heldout
        for source, more in zip(self.sources, later.sources, strict=True):
            source.extend(more)


def merge_partials(plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard, each once.

    Raises:
        CountError: some are missing, or damaged; it names the first few.
    """
    parts = shards_with_paths(plan, work_dir)
    return make_report(plan, add_partials(parts, len(plan.sources), plan.tokenizer.rows))


def shards_with_paths(plan: Plan, work_dir: Path) -> list[tuple[Shard, Path]]:
    """All shards in plan order, each with the path of its partial file."""
    paths = [partial_path(work_dir, key) for key in plan.keys]
    return list(zip(plan.shards, paths, strict=True))


def add_partials(
    parts: Sequence[tuple[Shard, Path]], sources: int, rows: int
) -> Totals | list[str]:
    """The sums over consecutive shards, or the names of those without a partial file that loads.

    Args:
        parts: the shards and the paths of their partial files.
        sources: S.
        rows: V.
    """
    totals, missing = Totals(sources, rows), []
    for shard, path in parts:
        part = load_partial(path)
        if part is None:
            missing.append(shard.name)
        elif not missing:
            totals.add(shard, part)
    return missing or totals


def make_report(plan: Plan, totals: Totals | list[str]) -> Report:
    """The report on a plan from the sums over all its shards.

    Raises:
        CountError: `totals` is the names of shards that are not counted.
    """
    if not isinstance(totals, Totals):
        more = f" and {len(totals) - 5:,} more" if len(totals) > 5 else ""
        raise CountError(
            f"{len(totals):,} of {len(plan.shards):,} shards are not counted: "
            f"{', '.join(totals[:5])}{more}",
            hint="count them first: vocabfreq count --plan …, or the same build again; "
            "nothing is counted twice",
        )
    pairs = list(zip(plan.sources, totals.sources, strict=True))
    table = FrequencyTable(totals.counts, totals.heldout, _metadata(plan, totals.sources))
    examples = {source.name: total.examples for source, total in pairs}
    rendered = plan.worker_config.template is not None
    layouts = {
        source.name: found.describe(rendered=rendered)
        for source, found in zip(plan.sources, plan.layouts, strict=False)
    }
    return Report(table, examples, shards=len(plan.shards), layouts=layouts)


def _metadata(plan: Plan, totals: list[SourceTotals]) -> Metadata:
    weights, info = plan.options.weights, plan.tokenizer
    encoder = totals[0].encoder
    for total in totals[1:]:
        encoder = merge_encoders(encoder, total.encoder)
    return Metadata(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=TokenizerRecord(
            name=info.name,
            revision=info.revision,
            sha256=info.sha256,
            size=info.size,
            rows=info.rows,
            absent=info.absent,
        ),
        special_ids=info.special_ids,
        stop_ids=info.stop_ids,
        template_ids=info.template_ids,
        byte_ids=info.byte_ids,
        sources=tuple(
            total.record(
                source, plan.files(n), None if weights is None else weights.get(source.name, 1.0)
            )
            for n, (source, total) in enumerate(zip(plan.sources, totals, strict=True))
        ),
        options=_options(plan),
        encoder=encoder,
    )


def _options(plan: Plan) -> dict[str, object]:
    """The options of the build; one value where all sources agree, else a list in source order."""
    options: dict[str, object] = {"holdout": plan.options.holdout, "encoder": plan.options.encoder}
    for name in ("roles", "separator", "max_documents"):
        values = [getattr(source, name) for source in plan.sources]
        options[name] = values[0] if all(v == values[0] for v in values) else values
    columns = {s.source: s.layout.columns for s in reversed(plan.shards)}
    options["columns"] = {plan.sources[n].name: column for n, column in sorted(columns.items())}
    if any(shard.layout.is_rendered for shard in plan.shards):
        template = plan.worker_config.template
        options["chat_template"] = template.sha256 if template else None
    return options
