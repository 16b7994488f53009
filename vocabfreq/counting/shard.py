"""Counts one shard after the other: what a worker does, from opening files to sums.

What one shard holds, and what all shards of a build have in common.

Which documents are held out: decided by their token ids alone.

So the split is the same whatever the order, the shards, the workers, the compression or the
container of the text, and ids that were stored split like the text that they were made from.

Adds batches of documents to the count of a shard: encodes, checks, holds out, sums.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import BEYOND_ROWS, TRIVIAL_MASK, Tally
from vocabfreq.corpus.readers import read_piece
from vocabfreq.corpus.rows import Batch, IdBatch
from vocabfreq.corpus.sources import Shard
from vocabfreq.errors import IdRangeError, SourceError
from vocabfreq.tokenizer.crosscheck import (
    FIRST_SHARD_BYTES,
    CrossCheck,
    EncoderMismatchError,
    find_texts_with_new_code_points,
)
from vocabfreq.tokenizer.encoders import (
    Encoded,
    Encoder,
    EncoderFailedError,
    EncoderName,
    TokenizersEncoder,
    make_encoder,
)

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


def mask_remark(mask: tuple[int, int]) -> str | None:
    """The remark about a loss mask that says nothing, None when there is none to make."""
    kept, dropped = mask
    if kept + dropped == 0 or (kept and dropped):
        return None
    return TRIVIAL_MASK.format("ones" if kept else "zeros")


FIRST_IDS = 8
_PRIME = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio (Knuth, TAOCP 3, 6.4)


def held_out(
    ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64], one_in: int
) -> npt.NDArray[np.intp]:
    """Indices of the documents that are held out.

    Args:
        ids: [N], the ids of all documents in a row.
        offsets: int64 [D+1], where each document starts.
        one_in: about one document in this many is held out; 0 for none.

    Returns:
        intp [≤ D], ascending. A document without ids is never held out.
    """
    if one_in == 0 or not len(ids):
        return np.zeros(0, np.intp)
    hashes = _hashes(ids, offsets)
    chosen = (hashes >> np.uint64(33)) % np.uint64(one_in) == 0
    return np.flatnonzero(chosen & (np.diff(offsets) > 0))


def _hashes(ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """A hash of each document's length and first ids, over all documents at once."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mixed(lengths.astype(np.uint64))
    for place in range(FIRST_IDS):
        there = np.minimum(starts + place, len(ids) - 1)
        value = np.where(place < lengths, ids[there].astype(np.int64) + 1, 0)
        hashes = _mixed(hashes ^ value.astype(np.uint64))
    return hashes


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values * _PRIME
    return values ^ (values >> np.uint64(29))


@dataclass
class Engines:
    """The engine that encodes, and the one that is right; each is loaded when first used."""

    choose: Callable[[], Encoder]
    reference: TokenizersEncoder

    @cached_property
    def encoder(self) -> Encoder:
        """The engine that encodes."""
        return self.choose()


class Accumulator:
    """Adds batches to a ShardCount."""

    def __init__(self, shard: Shard, engines: Engines, total: ShardCount, holdout: int) -> None:
        self.shard, self.engines, self.total, self.holdout = shard, engines, total, holdout

    @cached_property
    def encoder(self) -> Encoder:
        """The engine; asked for only when there is text."""
        encoder = self.engines.encoder
        self.total.encoder = (encoder.name, encoder.version)
        return encoder

    @cached_property
    def check(self) -> CrossCheck:
        """The check of the fast engine."""
        return CrossCheck(self.engines.reference, FIRST_SHARD_BYTES if self.shard.first else 0)

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
        utf8 = [text.encode() for text in batch.texts]
        self._digest(utf8, batch.sizes)
        encoded = self._encode(batch.texts, utf8)
        offsets = encoded.offsets
        if batch.sizes is not None:
            ends = np.zeros(len(batch.sizes) + 1, np.int64)
            np.cumsum(batch.sizes, out=ends[1:])
            offsets = offsets[ends]
        self._tally(encoded.ids, offsets)

    def _encode(self, texts: list[str], utf8: list[bytes]) -> Encoded:
        """Encodes by the engine, and texts with code points new to Unicode by the reference."""
        encoder = self.encoder
        if isinstance(encoder, TokenizersEncoder):
            return encoder.encode(texts)
        newer = find_texts_with_new_code_points(texts, utf8)
        encoded = encoder.encode(utf8)
        if newer:
            reference = self.engines.reference.encode([texts[n] for n in newer])
            encoded = encoded.replace(newer, reference)
        self.check.check(texts, encoded)
        self.total.checked = self.check.checked
        return encoded

    def _digest(self, utf8: list[bytes], sizes: list[int] | None) -> None:
        """Adds each document's SHA-256, its texts joined by a byte that UTF-8 cannot hold."""
        self.total.bytes += sum(map(len, utf8))
        documents = utf8 if sizes is None else _joined(utf8, sizes)
        self._add_hashes(documents)

    def _add_hashes(self, documents: Iterable[Any]) -> None:
        digests = map(methodcaller("digest"), map(hashlib.sha256, documents))
        added = sum(map(int.from_bytes, digests))
        self.total.digest = (self.total.digest + added) % 2**256

    def _add_ids(self, batch: IdBatch, file: str) -> None:
        self._check_range(batch, file)
        ids, offsets = batch.ids, batch.offsets
        if batch.mask is not None:
            kept = int(batch.mask.sum())
            before = self.total.mask
            self.total.mask = (before[0] + kept, before[1] + len(ids) - kept)
            ends = np.concatenate([[0], np.cumsum(batch.mask)])
            ids, offsets = ids[batch.mask], ends[offsets]
        stored = ids.astype("<u4", copy=False).data
        self._add_hashes(stored[start:stop] for start, stop in pairwise(offsets.tolist()))
        self._tally(ids, offsets)

    def _check_range(self, batch: IdBatch, file: str) -> None:
        rows = len(self.total.counts)
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
        held = held_out(ids, offsets, self.holdout)
        everything = np.bincount(ids, minlength=len(self.total.counts))
        inside = [ids[offsets[i] : offsets[i + 1]] for i in held.tolist()]
        apart = np.bincount(np.concatenate([ids[:0], *inside]), minlength=len(everything))
        beyond = int(everything[len(self.total.counts) :].sum())
        if beyond:
            self.total.tally.add(BEYOND_ROWS, beyond)
        self.total.counts += (everything - apart)[: len(self.total.counts)]
        self.total.heldout += apart[: len(self.total.counts)]
        self.total.documents += len(offsets) - 1
        self.total.heldout_documents += len(held)


def _joined(utf8: list[bytes], sizes: list[int]) -> Iterator[bytes]:
    start = 0
    for size in sizes:
        yield b"\xff".join(utf8[start : start + size])
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


class ShardCounter:
    """Counts shards one after the other, with one engine that stays warm."""

    def __init__(self, job: Job) -> None:
        self.job = job
        reference = TokenizersEncoder(job.tokenizer)
        self.engines = Engines(self._choose, reference)
        self._only_reference = Engines(lambda: reference, reference)

    def _choose(self) -> Encoder:
        if hashlib.sha256(self.job.tokenizer.read_bytes()).hexdigest() != self.job.sha256:
            raise SourceError(
                f"{self.job.tokenizer} changed while it was in use", hint="start again"
            )
        return make_encoder(self.job.encoder, self.job.tokenizer)

    def count(self, shard: Shard) -> ShardCount:
        """Counts a shard; when the fast engine fails or is caught, once more by the reference.

        Raises:
            SourceError: the shard cannot be read, or tokenizer.json changed since it was planned.
        """
        try:
            return self._count(shard, self.engines)
        except EncoderMismatchError as mismatch:
            again = self._count(shard, self._only_reference)
            again.checked, again.code_points = mismatch.checked, mismatch.code_points
            return replace(again, mismatched=1)
        except EncoderFailedError:
            return replace(self._count(shard, self._only_reference), mismatched=1)

    def _count(self, shard: Shard, engines: Engines) -> ShardCount:
        zeros = np.zeros(self.job.rows, np.int64)
        total = ShardCount(zeros, zeros.copy())
        sums = Accumulator(shard, engines, total, self.job.holdout)
        for piece in shard.pieces:
            total.tally.lines, known = 0, len(total.tally.examples)
            batches = read_piece(piece, shard.layout, total.tally, shard.separator)
            with closing(batches):  # the reading thread is gone before anyone reads again
                for batch in batches:
                    sums.add(batch, piece.file.name)
            _place(total, shard, known)
            total.lines.append(total.tally.lines)
            piece.file.check_unchanged()
            if sums.full:
                break
        return total


def _place(total: ShardCount, shard: Shard, known: int) -> None:
    """Adds to line numbers of a piece the lines of earlier pieces of its file in this shard."""
    path = shard.pieces[len(total.lines)].file.path
    earlier = zip(shard.pieces, total.lines, strict=False)
    before = sum(lines for piece, lines in earlier if piece.file.path == path)
    for example in total.tally.examples[known:]:
        example.number += before * (example.unit != "byte")
