"""Makes a parquet file of `input_ids` from a corpus of text, as training pipelines keep them."""

from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from corpus import Corpus, texts, values
from peers import groups, load

COLUMN = "input_ids"
ROWS = 1000  # a row group, as `datasets` writes them
SCHEMA = pa.schema([(COLUMN, pa.list_(pa.int32()))])
Encode = Callable[[list[str]], tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]]


def make_ids(source: Corpus, tokenizer: Path, target: Path) -> Corpus:
    """Writes the ids of a corpus, one text per row; returns their number."""
    encode = encoder(tokenizer)
    documents = total = 0
    stream = chain.from_iterable(map(texts, values(source.path, source.column)))
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as out:
        for batch in groups(stream, ROWS):
            ids, offsets = encode(batch)
            lists = pa.array(offsets, pa.int32()), pa.array(ids, pa.int32())
            rows = pa.ListArray.from_arrays(*lists)
            out.write_table(pa.table([rows], SCHEMA))
            documents, total = documents + len(batch), total + len(ids)
    return Corpus(target, COLUMN, documents, total)


def first_ids(whole: Corpus, share: float, target: Path) -> Corpus:
    """Writes the first share of the rows to a file, a row group at a time."""
    file = pq.ParquetFile(whole.path)
    documents = total = 0
    with pq.ParquetWriter(target, SCHEMA, compression="zstd") as out:
        for table in _tables(file, max(int(whole.documents * share), 1)):
            out.write_table(table)
            documents += table.num_rows
            total += sum(len(chunk.flatten()) for chunk in table.column(0).chunks)
    return Corpus(target, COLUMN, documents, total)


def _tables(file: Any, left: int) -> Iterable[Any]:
    for group in range(file.num_row_groups):
        table = file.read_row_group(group).slice(0, left)
        if not table.num_rows:
            return
        left -= table.num_rows
        yield table


def encoder(tokenizer: Path) -> Encode:
    """The fast engine if it supports the tokenizer, else `tokenizers`."""
    try:
        return _fast(tokenizer)
    except KeyboardInterrupt:
        raise
    except BaseException:  # not installed, not covered, or a Rust panic
        return _reference(tokenizer)


def _fast(tokenizer: Path) -> Encode:
    import gigatoken

    engine = gigatoken.Tokenizer.from_json(tokenizer.read_bytes())

    def encode(batch: list[str]) -> tuple[Any, Any]:
        layout = engine.encode_batch(batch, parallel=True).layout
        return np.asarray(layout.content.data), np.asarray(layout.offsets.data)

    encode(["one text, to see whether it runs"])
    return encode


def _reference(tokenizer: Path) -> Encode:
    engine = load(tokenizer)

    def encode(batch: list[str]) -> tuple[Any, Any]:
        found = [e.ids for e in engine.encode_batch_fast(batch, add_special_tokens=False)]
        offsets = np.cumsum([0, *map(len, found)])
        return np.fromiter(chain.from_iterable(found), np.int64), offsets

    return encode
