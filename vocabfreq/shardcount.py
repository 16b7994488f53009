"""Counts one shard: the part of a build that a worker does, alone, from start to partial file."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vocabfreq.crosscheck import FLOOR_BYTES, CrossCheck, EncoderMismatchError
from vocabfreq.encoding import (
    Encoded,
    Encoder,
    EncoderFailedError,
    EncoderName,
    TokenizersEncoder,
    make_encoder,
    replaced,
)
from vocabfreq.errors import IdRangeError, SourceError
from vocabfreq.heldout import held_out
from vocabfreq.rare import rare_texts
from vocabfreq.sources.plan import Shard
from vocabfreq.sources.readers import read_piece
from vocabfreq.sources.rows import Batch, IdBatch
from vocabfreq.sources.tally import BEYOND_ROWS, TRIVIAL_MASK, Tally

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """What every shard of a build has in common.

    Attributes:
        tokenizer: path of tokenizer.json.
        sha256: what its content must hash to.
        rows: V.
        holdout: one document in this many is held out, 0 for none.
        encoder: which engine.
    """

    tokenizer: Path
    sha256: str
    rows: int
    holdout: int
    encoder: EncoderName


@dataclass
class ShardCount:
    """What one shard holds. Sums of these are what a build is made of.

    Attributes:
        counts: int64 [V], occurrences outside the held-out documents.
        heldout: int64 [V], the same inside them.
        documents: all documents.
        heldout_documents: those held out.
        bytes: UTF-8 bytes of the text counted (of ids: none).
        digest: sum of the documents' SHA-256 modulo 2**256, so that order does not matter.
        tally: what was skipped.
        lines: rows read, a number per piece.
        encoder: name and version of the engine that counted.
        checked: texts compared with the reference.
        mismatched: 1 when the fast engine was caught, and the shard counted again.
        code_points: where it was caught.
        mask: how many ids a loss mask kept and dropped.
    """

    counts: Counts
    heldout: Counts
    documents: int = 0
    heldout_documents: int = 0
    bytes: int = 0
    digest: int = 0
    tally: Tally = field(default_factory=Tally)
    lines: list[int] = field(default_factory=list)
    encoder: tuple[str, str] = ("none", "")
    checked: int = 0
    mismatched: int = 0
    code_points: list[str] = field(default_factory=list)
    mask: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> int:
        """Everything counted, held out or not."""
        return int(self.counts.sum() + self.heldout.sum())


class Worker:
    """Counts shards one after the other, with one engine that stays warm."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @cached_property
    def encoder(self) -> Encoder:
        """The engine of the job.

        Raises:
            SourceError: tokenizer.json changed since the build was planned.
        """
        if hashlib.sha256(self.job.tokenizer.read_bytes()).hexdigest() != self.job.sha256:
            raise SourceError(
                f"{self.job.tokenizer} changed while it was in use", hint="start again"
            )
        return make_encoder(self.job.encoder, self.job.tokenizer)

    @cached_property
    def reference(self) -> TokenizersEncoder:
        """The engine that is right; loaded when first used."""
        return TokenizersEncoder(self.job.tokenizer)

    def count(self, shard: Shard) -> ShardCount:
        """Counts a shard; when the fast engine fails or is caught, once more by the reference."""
        try:
            return self._count(shard, None)
        except EncoderMismatchError as mismatch:
            again = self._count(shard, self.reference)
            again.checked, again.code_points = mismatch.checked, mismatch.code_points
            return replace(again, mismatched=1)
        except EncoderFailedError:
            return replace(self._count(shard, self.reference), mismatched=1)

    def _count(self, shard: Shard, encoder: Encoder | None) -> ShardCount:
        zeros = np.zeros(self.job.rows, np.int64)
        total = ShardCount(zeros, zeros.copy())
        counter = _Counter(self, shard, total, encoder)
        for piece in shard.pieces:
            total.tally.lines = 0
            batches = read_piece(piece, shard.layout, total.tally, shard.separator)
            with closing(batches):  # the reading thread is gone before anyone reads again
                for batch in batches:
                    counter.add(batch, piece.file.name)
            total.lines.append(total.tally.lines)
            if counter.full:
                break
        counter.finish()
        return total


class _Counter:
    """Adds batches to a ShardCount."""

    def __init__(
        self, worker: Worker, shard: Shard, total: ShardCount, encoder: Encoder | None
    ) -> None:
        self.worker, self.shard, self.total = worker, shard, total
        self.forced = encoder
        self.kept = self.dropped = 0
        self.check: CrossCheck | None = None

    @cached_property
    def encoder(self) -> Encoder:
        """The engine; asked for only when there is text."""
        encoder = self.forced or self.worker.encoder
        self.total.encoder = (encoder.name, encoder.version)
        if encoder.name != "tokenizers":
            floor = FLOOR_BYTES if self.shard.first else 0
            self.check = CrossCheck(self.worker.reference, floor)
        return encoder

    @property
    def full(self) -> bool:
        """Whether the documents asked for are all counted."""
        return self.shard.limit is not None and self.total.documents >= self.shard.limit

    def add(self, batch: Batch | IdBatch, file: str) -> None:
        """Counts the documents of a batch."""
        if self.full:
            return
        left = None if self.shard.limit is None else self.shard.limit - self.total.documents
        if isinstance(batch, IdBatch):
            self._add_ids(batch if left is None else _first_ids(batch, left), file)
        else:
            self._add_texts(batch if left is None else _first_texts(batch, left))

    def _add_texts(self, batch: Batch) -> None:
        size = self._digest(batch)
        encoded = self._encode(batch.texts, size)
        offsets = encoded.offsets
        if batch.sizes is not None:
            ends = np.zeros(len(batch.sizes) + 1, np.int64)
            np.cumsum(batch.sizes, out=ends[1:])
            offsets = offsets[ends]
        self._tally(encoded.ids, offsets)

    def _encode(self, texts: list[str], size: int) -> Encoded:
        """By the engine; by the reference what the fast engine is known to take for other text."""
        encoder = self.encoder
        if self.check is None:
            return encoder.encode(texts)
        rare = rare_texts(texts)
        encoded = encoder.encode(texts)
        if rare:
            right = self.worker.reference.encode([texts[n] for n in rare])
            encoded = replaced(encoded, rare, right)
        self.check.check(texts, encoded, size)
        return encoded

    def _digest(self, batch: Batch) -> int:
        """Adds each document's SHA-256, its texts joined by a byte that UTF-8 cannot hold."""
        size = digest = 0
        for document in _documents(batch):
            digest += int.from_bytes(hashlib.sha256(document).digest(), "big")
            size += len(document)
        size -= sum(max(n - 1, 0) for n in batch.sizes or ())
        self.total.digest = (self.total.digest + digest) % 2**256
        self.total.bytes += size
        return size

    def _add_ids(self, batch: IdBatch, file: str) -> None:
        self._check_range(batch, file)
        ids, offsets = batch.ids, batch.offsets
        if batch.mask is not None:
            kept = int(batch.mask.sum())
            self.kept, self.dropped = self.kept + kept, self.dropped + len(ids) - kept
            ends = np.concatenate([[0], np.cumsum(batch.mask)])
            ids, offsets = ids[batch.mask], ends[offsets]
        stored = ids.astype("<u4", copy=False).data
        for start, stop in pairwise(offsets.tolist()):
            document = hashlib.sha256(stored[start:stop]).digest()
            self.total.digest += int.from_bytes(document, "big")
        self.total.digest %= 2**256
        self._tally(ids, offsets)

    def _check_range(self, batch: IdBatch, file: str) -> None:
        rows = self.worker.job.rows
        if not len(batch.ids) or (batch.ids.min() >= 0 and batch.ids.max() < rows):
            return
        wrong = np.flatnonzero((batch.ids < 0) | (batch.ids >= rows))
        document = int(np.searchsorted(batch.offsets, wrong[0], side="right")) - 1
        raise IdRangeError(
            f"{file}, row {batch.rows[document]}: "
            f"id {batch.ids[wrong[0]]} in {self.shard.layout.column!r}",
            expected=f"ids from 0 to {rows - 1}, the rows of the model",
            hint="were they made by this tokenizer? (-100 belongs in labels, not in input_ids)",
        )

    def _tally(self, ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64]) -> None:
        """Counts ids, and again those of the held-out documents."""
        held = held_out(ids, offsets, self.worker.job.holdout)
        everything = np.bincount(ids, minlength=self.worker.job.rows)
        inside = [ids[offsets[i] : offsets[i + 1]] for i in held.tolist()]
        apart = np.bincount(np.concatenate([ids[:0], *inside]), minlength=len(everything))
        beyond = int(everything[self.worker.job.rows :].sum())
        if beyond:
            self.total.tally.add(BEYOND_ROWS, beyond)
        self.total.counts += (everything - apart)[: self.worker.job.rows]
        self.total.heldout += apart[: self.worker.job.rows]
        self.total.documents += len(offsets) - 1
        self.total.heldout_documents += len(held)

    def finish(self) -> None:
        """Notes what can only be said at the end."""
        self.total.mask = (self.kept, self.dropped)
        if self.check is not None:
            self.total.checked = self.check.checked


def _documents(batch: Batch) -> Iterator[bytes]:
    if batch.sizes is None:
        yield from (text.encode() for text in batch.texts)
        return
    start = 0
    for size in batch.sizes:
        yield b"\xff".join(text.encode() for text in batch.texts[start : start + size])
        start += size


def _first_texts(batch: Batch, number: int) -> Batch:
    if batch.sizes is None:
        return Batch(batch.texts[:number])
    sizes = batch.sizes[:number]
    return Batch(batch.texts[: sum(sizes)], sizes)


def _first_ids(batch: IdBatch, number: int) -> IdBatch:
    offsets = batch.offsets[: number + 1]
    mask = None if batch.mask is None else batch.mask[: offsets[-1]]
    return IdBatch(batch.ids[: offsets[-1]], offsets, mask, batch.rows[:number])


def mask_remark(mask: tuple[int, int]) -> str | None:
    """The remark about a loss mask that says nothing, None when there is none to make."""
    kept, dropped = mask
    if kept + dropped == 0 or (kept and dropped):
        return None
    return TRIVIAL_MASK.format("ones" if kept else "zeros")
