"""Counts one shard after the other: what a worker does, from opening files to sums."""

import hashlib
from contextlib import closing
from dataclasses import replace

import numpy as np

from vocabfreq.corpus.readers import read_piece
from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.accumulate import Accumulator, Engines
from vocabfreq.counting.shardcount import Job, ShardCount
from vocabfreq.errors import SourceError
from vocabfreq.tokenizer.crosscheck import EncoderMismatchError
from vocabfreq.tokenizer.encoders import (
    Encoder,
    EncoderFailedError,
    TokenizersEncoder,
    make_encoder,
)


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
