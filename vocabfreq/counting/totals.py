"""Sums over the shards of one source, and what the file then says of it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from vocabfreq.corpus.bad_rows import EXAMPLES_PER_REASON, Example
from vocabfreq.corpus.sources import Source
from vocabfreq.counting.shardcount import ShardCount, mask_remark
from vocabfreq.frequencies.merging import merged_encoders
from vocabfreq.frequencies.metadata import EncoderRecord, SourceRecord


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
        self.encoder = merged_encoders(self.encoder, _encoder_record(part))
        self._place(part, paths)

    def extend(self, later: "SourceTotal") -> None:
        """Adds the sums over the shards that come next in plan order."""
        for name in ("documents", "heldout_documents", "tokens", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.digest = (self.digest + later.digest) % 2**256
        self.skipped.update(later.skipped)
        self.mask = (self.mask[0] + later.mask[0], self.mask[1] + later.mask[1])
        self.encoder = merged_encoders(self.encoder, later.encoder)
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
