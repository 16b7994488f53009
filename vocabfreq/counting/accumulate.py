"""Adds batches of documents to the count of a shard: encodes, checks, holds out, sums."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import methodcaller
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import BEYOND_ROWS
from vocabfreq.corpus.rows import Batch, IdBatch
from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.heldout import held_out
from vocabfreq.counting.shardcount import ShardCount
from vocabfreq.errors import IdRangeError
from vocabfreq.tokenizer.crosscheck import FLOOR_BYTES, CrossCheck
from vocabfreq.tokenizer.encoders import Encoded, Encoder, TokenizersEncoder, replaced
from vocabfreq.tokenizer.rare import rare_texts


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
        return CrossCheck(self.engines.reference, FLOOR_BYTES if self.shard.first else 0)

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
        """By the engine; by the reference what the fast engine is known to take for other text."""
        encoder = self.encoder
        if isinstance(encoder, TokenizersEncoder):
            return encoder.encode(texts)
        rare = rare_texts(texts, utf8)
        encoded = encoder.encode(utf8)
        if rare:
            right = self.engines.reference.encode([texts[n] for n in rare])
            encoded = replaced(encoded, rare, right)
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
