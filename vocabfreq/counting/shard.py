"""Counts one shard: reads its batches, encodes them, holds documents out, adds up the ids.

`ShardCounter` counts one shard after the other with an encoder that stays warm; when the fast
encoder fails, or disagrees with the reference on a sample, it counts the shard again with the
reference.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from operator import methodcaller
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import BEYOND_ROWS, TRIVIAL_MASK, UNKNOWN_ROLE, BadRows
from vocabfreq.corpus.readers import read_piece
from vocabfreq.corpus.rows import Batch, IdBatch
from vocabfreq.corpus.sources import Shard
from vocabfreq.errors import IdRangeError, SourceError
from vocabfreq.tokenizer.chat_template import ChatTemplate
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
from vocabfreq.tokenizer.rendering import TurnRenderer

Counts = npt.NDArray[np.int64]

FIRST_IDS = 8
_PRIME = np.uint64(0x9E3779B97F4A7C15)  # odd, from the golden ratio (Knuth, TAOCP 3, 6.4)


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker needs to count any shard of a plan.

    Attributes:
        tokenizer: path of tokenizer.json.
        sha256: of tokenizer.json when the build was planned.
        rows: V.
        holdout: one document in this many is held out, 0 for none.
        encoder: `auto`, `gigatoken` or `tokenizers`.
        template: turns conversations and answers into what the model emits; None counts the text
            of the rows.
    """

    tokenizer: Path
    sha256: str
    rows: int
    holdout: int
    encoder: EncoderName
    template: ChatTemplate | None = None


@dataclass
class ShardCount:
    """The counts of one shard.

    Attributes:
        counts: int64 [V], occurrences outside the held-out documents.
        heldout: int64 [V], the same inside them.
        documents: all documents.
        heldout_documents: those held out.
        bytes: UTF-8 bytes of the text counted; 0 for ids.
        digest: sum of the documents' SHA-256 modulo 2**256, so that order does not matter.
        bad_rows: rows that were skipped or repaired.
        lines: rows read of each piece.
        encoder: name and version of the encoder that counted.
        checked: texts compared with the reference.
        mismatched: 1 when the fast encoder failed or disagreed, and the shard was counted again.
        code_points: where it disagreed.
        mask: how many ids a loss mask selected and dropped.
    """

    counts: Counts
    heldout: Counts
    documents: int = 0
    heldout_documents: int = 0
    bytes: int = 0
    digest: int = 0
    bad_rows: BadRows = field(default_factory=BadRows)
    lines: list[int] = field(default_factory=list)
    encoder: tuple[str, str] = ("none", "")
    checked: int = 0
    mismatched: int = 0
    code_points: list[str] = field(default_factory=list)
    mask: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> int:
        """All ids counted, held out or not."""
        return int(self.counts.sum() + self.heldout.sum())


def mask_remark(mask: tuple[int, int]) -> str | None:
    """The remark about a loss mask that is all ones or all zeros, None for any other."""
    selected, dropped = mask
    if selected + dropped == 0 or (selected and dropped):
        return None
    return TRIVIAL_MASK.format("ones" if selected else "zeros")


class ShardCounter:
    """Counts shards one after the other, with one encoder that stays warm.

    Attributes:
        config: what all shards share.
        reference: the encoder whose ids are right.
        renderer: of the chat template, None without one; its process starts when first needed.
    """

    def __init__(self, config: WorkerConfig) -> None:
        self.config = config
        self.reference = TokenizersEncoder(config.tokenizer)
        self.renderer = TurnRenderer(config.template) if config.template else None

    def close(self) -> None:
        """Ends the process that renders chat templates, if there is one."""
        if self.renderer is not None:
            self.renderer.close()

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that `config` selects, loaded when first used.

        Raises:
            SourceError: tokenizer.json changed since the build was planned.
            TokenizerError: it cannot be loaded.
        """
        path = self.config.tokenizer
        if hashlib.sha256(path.read_bytes()).hexdigest() != self.config.sha256:
            raise SourceError(f"{path} changed while it was in use", hint="start again")
        return make_encoder(self.config.encoder, path)

    def count(self, shard: Shard) -> ShardCount:
        """Counts a shard; if the fast encoder fails or disagrees, again with the reference.

        Raises:
            SourceError: the shard cannot be read, or tokenizer.json changed since it was planned.
        """
        try:
            return self._count_rendered(shard, lambda: self.encoder)
        except EncoderMismatchError as mismatch:
            again = self._count_rendered(shard, lambda: self.reference)
            again.checked, again.code_points = mismatch.checked, mismatch.code_points
        except EncoderFailedError:
            again = self._count_rendered(shard, lambda: self.reference)
        return replace(again, mismatched=1)

    def _count_rendered(self, shard: Shard, choose_encoder: Callable[[], Encoder]) -> ShardCount:
        """Counts a shard; if learnt turns differ from rendered ones, again with all rendered."""
        renderer = self.renderer
        if renderer is None:
            return self._count(shard, choose_encoder)
        renderer.restart()
        found = self._count(shard, choose_encoder)
        if not renderer.is_mistaken:
            return found
        renderer.restart(learning=False)
        return self._count(shard, choose_encoder)

    def _count(self, shard: Shard, choose_encoder: Callable[[], Encoder]) -> ShardCount:
        zeros = np.zeros(self.config.rows, np.int64)
        total = ShardCount(zeros, zeros.copy())
        accumulator = _Accumulator(
            shard, total, self.config.holdout, self.reference, choose_encoder
        )
        for piece in shard.pieces:
            total.bad_rows.lines, known = 0, len(total.bad_rows.examples)
            bad_rows, separator = total.bad_rows, shard.separator
            batches = read_piece(piece, shard.layout, bad_rows, separator, self.renderer)
            with closing(batches):  # the reading thread is gone before anyone reads again
                for batch in batches:
                    accumulator.add(batch, piece.file.name)
            _number_within_file(total, shard, known)
            total.lines.append(total.bad_rows.lines)
            piece.file.check_unchanged()
            if accumulator.is_full:
                break
        return total


def _number_within_file(total: ShardCount, shard: Shard, known: int) -> None:
    """Adds the lines of earlier pieces of the same file to the new examples' line numbers."""
    path = shard.pieces[len(total.lines)].file.path
    earlier = zip(shard.pieces, total.lines, strict=False)
    before = sum(lines for piece, lines in earlier if piece.file.path == path)
    for example in total.bad_rows.examples[known:]:
        example.number += before * (example.unit != "byte")


class _Accumulator:
    """Adds batches to a ShardCount.

    Attributes:
        shard: the shard.
        total: its count so far.
        holdout: one document in this many is held out, 0 for none.
        reference: the encoder whose ids are right.
        choose_encoder: gives the encoder to use; called when the first text comes.
    """

    def __init__(
        self,
        shard: Shard,
        total: ShardCount,
        holdout: int,
        reference: TokenizersEncoder,
        choose_encoder: Callable[[], Encoder],
    ) -> None:
        self.shard, self.total, self.holdout = shard, total, holdout
        self.reference, self.choose_encoder = reference, choose_encoder
        self.check = CrossCheck(reference, FIRST_SHARD_BYTES if shard.first else 0)

    @cached_property
    def encoder(self) -> Encoder:
        encoder = self.choose_encoder()
        self.total.encoder = (encoder.name, encoder.version)
        return encoder

    @property
    def is_full(self) -> bool:
        """Whether the shard's limit of documents is reached."""
        return self.shard.limit is not None and self.total.documents >= self.shard.limit

    def add(self, batch: Batch | IdBatch, file: str) -> None:
        """Counts the documents of a batch, up to the shard's limit."""
        if self.is_full:
            return
        if self.shard.limit is not None:
            batch = _first_documents(batch, self.shard.limit - self.total.documents)
        if isinstance(batch, IdBatch):
            self._add_ids(batch, file)
        else:
            self._add_texts(batch)

    def _add_texts(self, batch: Batch) -> None:
        self._report_unknown_roles(batch)
        utf8 = [text.encode() for text in batch.texts]
        self.total.bytes += sum(map(len, utf8))
        if batch.sizes is None:
            self._add_digests(utf8)
            encoded = self._encode(batch.texts, utf8)
            self._add_counts(encoded.ids, encoded.offsets)
            return
        ends = np.zeros(len(batch.sizes) + 1, np.int64)
        np.cumsum(batch.sizes, out=ends[1:])
        # The texts of a document are joined by a byte that UTF-8 cannot hold.
        self._add_digests(b"\xff".join(utf8[a:b]) for a, b in pairwise(ends.tolist()))
        encoded = self._encode(batch.texts, utf8)
        self._add_counts(encoded.ids, encoded.offsets[ends])

    def _report_unknown_roles(self, batch: Batch) -> None:
        """Tells how many tokens do not count because nobody knows who wrote them."""
        for role in dict.fromkeys(role for role, _ in batch.uncounted):
            encoded = self.reference.encode([text for r, text in batch.uncounted if r == role])
            self.total.bad_rows.add(UNKNOWN_ROLE.format(role), len(encoded.ids))

    def _encode(self, texts: list[str], utf8: list[bytes]) -> Encoded:
        """Encodes texts; those that the fast encoder may split differently, with the reference."""
        encoder = self.encoder
        if isinstance(encoder, TokenizersEncoder):
            return encoder.encode(texts)
        newer = find_texts_with_new_code_points(texts, utf8)
        encoded = encoder.encode(utf8)
        if newer:
            right = self.reference.encode([texts[n] for n in newer])
            encoded = encoded.replace(newer, right)
        self.check.check(texts, encoded)
        self.total.checked = self.check.checked
        return encoded

    def _add_digests(self, documents: Iterable[Any]) -> None:
        digests = map(methodcaller("digest"), map(hashlib.sha256, documents))
        added = sum(map(int.from_bytes, digests))
        self.total.digest = (self.total.digest + added) % 2**256

    def _add_ids(self, batch: IdBatch, file: str) -> None:
        self._check_range(batch, file)
        ids, offsets = batch.ids, batch.offsets
        if batch.mask is not None:
            selected = int(batch.mask.sum())
            before = self.total.mask
            self.total.mask = (before[0] + selected, before[1] + len(ids) - selected)
            ends = np.concatenate([[0], np.cumsum(batch.mask)])
            ids, offsets = ids[batch.mask], ends[offsets]
        stored = ids.astype("<u4", copy=False).data
        self._add_digests(stored[start:stop] for start, stop in pairwise(offsets.tolist()))
        self._add_counts(ids, offsets)

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

    def _add_counts(self, ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64]) -> None:
        """Counts all ids, and those of the held-out documents apart."""
        rows = len(self.total.counts)
        held = held_out(ids, offsets, self.holdout)
        counts = np.bincount(ids, minlength=rows)
        inside = [ids[offsets[i] : offsets[i + 1]] for i in held.tolist()]
        heldout = np.bincount(np.concatenate([ids[:0], *inside]), minlength=len(counts))
        beyond = int(counts[rows:].sum())
        if beyond:
            self.total.bad_rows.add(BEYOND_ROWS, beyond)
        self.total.counts += (counts - heldout)[:rows]
        self.total.heldout += heldout[:rows]
        self.total.documents += len(offsets) - 1
        self.total.heldout_documents += len(held)


def _first_documents(batch: Batch | IdBatch, number: int) -> Batch | IdBatch:
    """The first documents of a batch."""
    if isinstance(batch, IdBatch):
        offsets = batch.offsets[: number + 1]
        mask = None if batch.mask is None else batch.mask[: offsets[-1]]
        return IdBatch(batch.ids[: offsets[-1]], offsets, mask, batch.rows[:number])
    if batch.sizes is None:
        return Batch(batch.texts[:number])
    sizes = batch.sizes[:number]
    return Batch(batch.texts[: sum(sizes)], sizes)


def held_out(
    ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64], one_in: int
) -> npt.NDArray[np.intp]:
    """Indices of the documents that are held out, decided by their token ids alone.

    So the split is the same whatever the order, the shards, the workers, the compression or the
    container of the text, and stored ids split like the text that they were made from.

    Args:
        ids: [N], the ids of all documents in a row.
        offsets: int64 [D+1], where each document starts.
        one_in: about one document in this many is held out; 0 for none.

    Returns:
        intp [≤ D], ascending. A document without ids is never held out.
    """
    if one_in == 0 or not len(ids):
        return np.zeros(0, np.intp)
    hashes = _document_hashes(ids, offsets)
    chosen = (hashes >> np.uint64(33)) % np.uint64(one_in) == 0
    return np.flatnonzero(chosen & (np.diff(offsets) > 0))


def _document_hashes(
    ids: npt.NDArray[np.integer], offsets: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint64]:
    """A hash of each document's length and first ids, over all documents at once."""
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = _mix(lengths.astype(np.uint64))
    for position in range(FIRST_IDS):
        index = np.minimum(starts + position, len(ids) - 1)
        value = np.where(position < lengths, ids[index].astype(np.int64) + 1, 0)
        hashes = _mix(hashes ^ value.astype(np.uint64))
    return hashes


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values * _PRIME
    return values ^ (values >> np.uint64(29))
