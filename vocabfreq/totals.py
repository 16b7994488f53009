"""Sums over the shards of one source, and what the file then says of it."""

from collections import Counter
from pathlib import Path

from vocabfreq.merging import merged_encoders
from vocabfreq.records import EncoderRecord, SourceRecord
from vocabfreq.shardcount import ShardCount, mask_remark
from vocabfreq.sources.plan import Source
from vocabfreq.sources.tally import Example


class SourceTotal:
    """Sums over the shards of one source."""

    def __init__(self) -> None:
        self.documents = self.heldout_documents = self.tokens = self.bytes = self.digest = 0
        self.skipped: Counter[str] = Counter()
        self.examples: list[Example] = []
        self.lines: Counter[str] = Counter()
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

    def _place(self, part: ShardCount, paths: list[str]) -> None:
        """Turns line numbers within a shard into line numbers of the file."""
        before = self.lines[paths[0]]
        for example in part.tally.examples:
            if example.unit != "byte" and example.file == Path(paths[0]).name:
                example.number += before
            self.examples.append(example)
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


def _encoder_record(part: ShardCount) -> EncoderRecord:
    return EncoderRecord(
        name=part.encoder[0],
        version=part.encoder[1],
        cross_checked_documents=part.checked,
        mismatched_documents=part.mismatched,
        code_points=tuple(part.code_points),
    )
