"""The peers of `vocabfreq build`, each run in a process of its own by bench_build.py.

    python benchmarks/peers.py NAME CORPUS COLUMN TEXT_BYTES TOKENIZER COUNTS.npy

prints one JSON line: the text bytes and seconds of the peer's own loop, and both again for what
comes after its first tenth, so that imports, loading and cold caches do not count. The counts go
to COUNTS.npy. The peers are:

- fr-spec: the FR-Spec script. It streams rows, calls `encode` on one text at a time and adds in a
  Counter.
- encode-batch: streams rows, calls `encode_batch_fast` on 1,000 texts at a time on all cores (its
  own parallelism) and adds with `bincount`. The loop includes reading, which is some 2 % of it.
- gigatoken: all texts lie in memory as one Arrow array beforehand. Only one cold `encode_batch` on
  all cores is timed. Its first tenth is a second run on a smaller file.
- unique-lists: rows of ids come as lists, as `to_pylist` and `datasets` give them; `np.unique` per
  row, added in a Counter.
- unique: the same with rows as NumPy views of Arrow memory, the fastest form of it that we know.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from corpus import texts, values

BATCH = 1000
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """The task of a peer.

    Attributes:
        path: the corpus.
        column: its column.
        text: bytes of text in it (or ids).
        tokenizer: path of tokenizer.json.
    """

    path: Path
    column: str
    text: int
    tokenizer: Path


def clocks() -> tuple[float, float]:
    """Wall and CPU time, all threads of this process together."""
    return time.perf_counter(), time.process_time()


@dataclass
class Loop:
    """Bytes, seconds and CPU seconds of a loop, whole and after the first tenth of the bytes."""

    expected: int
    done: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    rest: int = 0
    rest_seconds: float = 0.0
    rest_cpu: float = 0.0
    started: tuple[float, float] = field(default_factory=clocks)
    mark: tuple[float, float] | None = None

    def add(self, size: int) -> None:
        """Records that this many more bytes are done."""
        self.done += size
        if self.mark is not None:
            self.rest += size
        elif self.done >= self.expected / 10:
            self.mark = clocks()

    def stop(self) -> None:
        """Records the time."""
        wall, cpu = now = clocks()
        self.seconds, self.cpu = wall - self.started[0], cpu - self.started[1]
        mark = self.mark or now
        self.rest_seconds, self.rest_cpu = wall - mark[0], cpu - mark[1]


Peer = Callable[[Job], tuple[Loop, Counts]]


def load(path: Path) -> Any:
    """The tokenizer as the reference reads it, without padding and truncation."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def stream(job: Job) -> Iterator[str]:
    """The texts of the corpus."""
    return chain.from_iterable(map(texts, values(job.path, job.column)))


def as_vector(counter: "Counter[int]") -> Counts:
    """A Counter as a vector that ends at its largest id."""
    counts = np.zeros(max(counter, default=-1) + 1, np.int64)
    counts[list(counter.keys())] = list(counter.values())
    return counts


def fr_spec(job: Job) -> tuple[Loop, Counts]:
    """One text at a time into a Counter."""
    tokenizer, counter = load(job.tokenizer), Counter[int]()
    loop = Loop(job.text)
    for text in stream(job):
        counter.update(tokenizer.encode(text, add_special_tokens=False).ids)
        loop.add(len(text.encode()))
    loop.stop()
    return loop, as_vector(counter)


def encode_batch(job: Job) -> tuple[Loop, Counts]:
    """A thousand texts at a time into a vector."""
    tokenizer = load(job.tokenizer)
    counts = np.zeros(tokenizer.get_vocab_size() * 2, np.int64)
    loop = Loop(job.text)
    for batch in groups(stream(job), BATCH):
        encoded = tokenizer.encode_batch_fast(batch, add_special_tokens=False)
        ids = np.fromiter(chain.from_iterable(e.ids for e in encoded), np.int64)
        counts += np.bincount(ids, minlength=len(counts))
        loop.add(sum(len(text.encode()) for text in batch))
    loop.stop()
    return loop, counts


def groups(items: Iterator[str], size: int) -> Iterator[list[str]]:
    """Lists of `size` items."""
    while batch := list(islice(items, size)):
        yield batch


def gigatoken(job: Job) -> tuple[Loop, Counts]:
    """All texts in one call, from memory."""
    import awkward as ak
    import gigatoken as engine
    import pyarrow as pa

    array = ak.from_arrow(pa.array(stream(job), pa.large_string()))
    tokenizer = engine.Tokenizer.from_json(job.tokenizer.read_bytes())
    loop = Loop(job.text)
    encoded = tokenizer.encode_batch(array, parallel=True)
    loop.stop()
    loop.done = job.text
    return loop, np.bincount(np.asarray(encoded.layout.content.data))


def unique(job: Job) -> tuple[Loop, Counts]:
    """Counts existing ids, rows as views of Arrow memory."""
    import pyarrow.parquet as pq

    batches = pq.ParquetFile(job.path).iter_batches(columns=[job.column])
    return _unique(job, (row.values.to_numpy() for batch in batches for row in batch.column(0)))


def unique_lists(job: Job) -> tuple[Loop, Counts]:
    """Counts existing ids, rows as lists."""
    return _unique(job, map(np.asarray, values(job.path, job.column)))


def _unique(job: Job, rows: Iterator[npt.NDArray[np.integer]]) -> tuple[Loop, Counts]:
    """Adds the unique ids of each row to a Counter."""
    counter, loop = Counter[int](), Loop(job.text)
    for row in rows:
        ids, numbers = np.unique(row, return_counts=True)
        counter.update(dict(zip(ids.tolist(), numbers.tolist(), strict=True)))
        loop.add(len(row))
    loop.stop()
    return loop, as_vector(counter)


PEERS: dict[str, Peer] = {
    "fr-spec": fr_spec,
    "encode-batch": encode_batch,
    "gigatoken": gigatoken,
    "unique-lists": unique_lists,
    "unique": unique,
}


def main() -> None:
    """Runs one peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", choices=PEERS)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("column")
    parser.add_argument("text", type=int)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("counts", type=Path)
    args = parser.parse_args()
    job = Job(args.corpus, args.column, args.text, args.tokenizer)
    loop, counts = PEERS[args.name](job)
    np.save(args.counts, counts)
    print(json.dumps(asdict(loop)))


if __name__ == "__main__":
    main()
