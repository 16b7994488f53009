"""The corpus of a benchmark: its rows as the peers stream them, its size, and its first part."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

COLUMNS = ("text", "messages", "conversations")
ASSISTANT = ("assistant", "gpt")
CHUNK = 1 << 20


@dataclass(frozen=True)
class Corpus:
    """A JSONL or parquet file and what it holds.

    Attributes:
        path: the file.
        column: the column that is counted.
        documents: rows.
        text: UTF-8 bytes of the text counted; for a column of ids their number.
    """

    path: Path
    column: str
    documents: int
    text: int

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size


def measure(path: Path, column: str | None = None) -> Corpus:
    """Reads a file once, which also brings it into the page cache."""
    column = column or find_column(path)
    documents = text = 0
    for value in values(path, column):
        documents += 1
        text += sum(len(part.encode()) for part in texts(value))
    return Corpus(path, column, documents, text)


def find_column(path: Path) -> str:
    """The first of the usual columns that the file has."""
    if path.suffix == ".parquet":
        names = pq.read_schema(path).names
    else:
        with path.open("rb") as file:
            names = list(json.loads(next(file)))
    found = [name for name in COLUMNS if name in names]
    if not found:
        raise SystemExit(f"{path}: none of {', '.join(COLUMNS)} among {names}; use --column")
    return found[0]


def values(path: Path, column: str) -> Iterator[Any]:
    """The column, row by row, as the peers stream it."""
    if path.suffix == ".parquet":
        for batch in pq.ParquetFile(path).iter_batches(columns=[column]):
            yield from batch.column(0).to_pylist()
        return
    with path.open("rb") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)[column]


def texts(value: Any) -> list[str]:
    """The counted texts of a row: the text, or the turns of the assistant in a chat."""
    if isinstance(value, str):
        return [value]
    turns = (m for m in value if m.get("role", m.get("from")) in ASSISTANT)
    found = [turn.get("content", turn.get("value")) for turn in turns]
    if not all(isinstance(text, str) for text in found):
        raise SystemExit("this benchmark covers chats whose content is a string")
    return found


def first_part(whole: Corpus, share: float, folder: Path, name: str) -> Corpus:
    """Writes the first part of a corpus to a file; returns the corpus itself if it is no bigger."""
    if share >= 1:
        return whole
    path = folder / f"{name}{whole.path.suffix}"
    if whole.path.suffix == ".parquet":
        cut_rows(whole.path, path, share)
    else:
        cut_lines(whole.path, path, share)
    return measure(path, whole.column)


def cut_lines(source: Path, target: Path, share: float) -> None:
    """Copies the first share of a file, to the end of the line."""
    left = int(source.stat().st_size * share)
    with source.open("rb") as file, target.open("wb") as out:
        while left > 0 and (chunk := file.read(min(left, CHUNK))):
            left -= out.write(chunk)
        out.write(file.readline())


def cut_rows(source: Path, target: Path, share: float) -> None:
    """Copies the first share of the rows, a row group at a time."""
    file = pq.ParquetFile(source)
    left = max(int(file.metadata.num_rows * share), 1)
    with pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as out:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group).slice(0, left)
            left -= table.num_rows
            if table.num_rows:
                out.write_table(table, row_group_size=table.num_rows)
