"""Parquet and Arrow files: record batches of the needed columns, and their rows as batches.

A record batch of plain strings, or of lists of integers, becomes a batch at once; any other is read
row by row. Files that `datasets` streams come as record batches too.
"""

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from vocabfreq.corpus.bad_rows import BadRows
from vocabfreq.corpus.extraction import steps_of
from vocabfreq.corpus.files import BLOCK, InputFile, Piece, Read, decompressed
from vocabfreq.corpus.layouts import ANSWERS_COLUMN, MASK_COLUMN, REASONING_COLUMNS, Layout
from vocabfreq.corpus.messages import TOOLS_COLUMN
from vocabfreq.corpus.rows import Batch, BatchBuilder, IdBatch
from vocabfreq.errors import SourceError, first_line
from vocabfreq.tokenizer.rendering import TurnRenderer

_READ_BESIDE = frozenset({*REASONING_COLUMNS, "error", ANSWERS_COLUMN, TOOLS_COLUMN})
_BESIDE = {"ids": MASK_COLUMN, "chat": TOOLS_COLUMN}
ROWS_AT_ONCE = 512  # more falls out of the cache between decoding and counting


def columns_to_read(file: InputFile, layout: Layout) -> list[str] | None:
    """The columns to count, with the loss mask of ids and the tools of chats; None for all."""
    if layout.kind == "rows":
        return None if file.format == "hub" else _names_read(file, layout)
    beside = _BESIDE.get(layout.kind)
    if beside is None or file.format == "hub":
        return [layout.column]
    return [layout.column, *({beside} & set(_column_names(file)))]


def _names_read(file: InputFile, layout: Layout) -> list[str]:
    """The columns that the paths of a layout begin with, and those read beside them."""
    wanted = {steps_of(path)[0] for path in layout.paths} | set(layout.paths)
    return [name for name in _column_names(file) if name in wanted or name.lower() in _READ_BESIDE]


def _column_names(file: InputFile) -> list[str]:
    with file.open() as raw:
        if file.format == "csv":
            return list(next(_csv_batches(raw, file, None)).schema.names)
        if file.format == "parquet":
            with _open_parquet(raw, file) as parquet:
                return list(parquet.schema_arrow.names)
        return list(_open_arrow(raw, file).schema.names)


def record_batches(piece: Piece, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Record batches of a piece of a parquet or Arrow file.

    Args:
        piece: row groups or record batches of the file.
        columns: the columns to read, None for all.

    Raises:
        SourceError: it is not such a file, or has no such column.
    """
    with piece.file.open() as raw:
        if piece.file.format == "csv":
            yield from _csv_batches(raw, piece.file, columns)
            return
        if piece.file.format == "arrow":
            reader = _open_arrow(raw, piece.file)
            _check_columns(columns, reader.schema, piece.file)
            for batch in _arrow_slices(reader, piece):
                yield batch.select(columns) if columns else batch
            return
        with _open_parquet(raw, piece.file) as file:
            _check_columns(columns, file.schema_arrow, piece.file)
            stop = file.num_row_groups if piece.stop is None else piece.stop
            groups = list(range(piece.start, stop))
            # Without a thread pool of its own: the workers already fill the cores.
            yield from file.iter_batches(ROWS_AT_ONCE, groups, columns=columns, use_threads=False)


def _csv_batches(raw: Any, file: InputFile, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Record batches of a CSV or TSV file, every column as text."""
    stream = _Readable(decompressed(raw, file.compression))
    delimiter = "\t" if ".tsv" in file.name.lower() else ","
    parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    try:
        names = csv.open_csv(_csv_head(file), parse_options=parse).schema.names
        convert = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=columns or [],
            strings_can_be_null=True,
        )
        yield from csv.open_csv(stream, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise SourceError(
            f"{file.name} is not a readable CSV file: {first_line(error)}",
            expected="a header line, and as many fields in every row, in UTF-8",
        ) from None


def _csv_head(file: InputFile) -> io.BytesIO:
    with file.open() as raw:
        return io.BytesIO(decompressed(raw, file.compression)(BLOCK))


class _Readable(io.RawIOBase):
    """A read function as a file."""

    def __init__(self, read: Read) -> None:
        self._read = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _open_parquet(raw: Any, file: InputFile) -> pq.ParquetFile:
    try:
        # Buffering ahead would read with threads, which no exit waits for: they abort the process.
        return pq.ParquetFile(raw, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:  # a broken footer is an OSError
        raise SourceError(
            f"{file.name} is not a readable parquet file: {first_line(error)}"
        ) from None


def _open_arrow(raw: Any, file: InputFile) -> Any:
    """A reader of the IPC file format, or of the stream format that `datasets` writes."""
    for opener in (pa.ipc.open_file, pa.ipc.open_stream):
        try:
            return opener(raw)
        except pa.ArrowInvalid:
            raw.seek(0)
    raise SourceError(f"{file.name} is neither an Arrow file nor an Arrow stream")


def _arrow_slices(reader: Any, piece: Piece) -> Iterator[pa.RecordBatch]:
    batches = reader
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        stop = reader.num_record_batches if piece.stop is None else piece.stop
        batches = (reader.get_batch(i) for i in range(piece.start, stop))
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _check_columns(columns: list[str] | None, schema: pa.Schema, file: InputFile) -> None:
    for name in columns or ():
        if name not in schema.names:
            raise SourceError(
                f"{file.name}: no column {name!r}",
                expected=f"one of {', '.join(map(repr, schema.names))}",
                hint="name one of them with --column",
            )


def row_group_sizes(file: InputFile) -> list[int]:
    """Uncompressed bytes of each row group of a parquet file."""
    with file.open() as raw, _open_parquet(raw, file) as parquet:
        metadata = parquet.metadata
        groups = range(metadata.num_row_groups)
        return [metadata.row_group(group).total_byte_size for group in groups]


def first_records(batches: Iterator[pa.RecordBatch], number: int) -> list[dict[str, Any]]:
    """The first rows as dicts; of rows that are not UTF-8, a row that has only the column names."""
    for batch in batches:
        try:
            return batch.slice(0, number).to_pylist()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            return [dict.fromkeys(batch.schema.names)]
    return []


def read_batch(
    batch: pa.RecordBatch,
    file: str,
    layout: Layout,
    bad_rows: BadRows,
    renderer: TurnRenderer | None = None,
) -> Iterator[Batch | IdBatch]:
    """The documents of one record batch.

    Args:
        batch: with the columns of `columns_to_read`.
        file: base name of the file, for messages.
        layout: where the text is.
        bad_rows: gets the rows that are skipped or repaired; its `lines` grows by the rows read.
        renderer: of a chat template, None to count the text of the rows.
    """
    builder = BatchBuilder(layout, bad_rows, file, "row", renderer)
    if layout.kind == "rows":
        for number, row in enumerate(batch.to_pylist(), bad_rows.lines + 1):
            builder.add(row, number)
        yield from builder.build()
        bad_rows.lines += batch.num_rows
        return
    column = batch.column(layout.column)
    name = _BESIDE.get(layout.kind, "")
    beside = batch.column(name) if name in batch.schema.names else None
    is_rendered = renderer is not None and layout.answer
    plain = None if is_rendered else _plain_batch(column, beside, layout, bad_rows.lines)
    if plain:
        yield plain
    else:
        others = [None] * len(column) if beside is None else beside.to_pylist()
        for number, row in enumerate(zip(_values(column), others, strict=True), bad_rows.lines + 1):
            builder.add(dict(zip((layout.column, name), row, strict=True)), number)
        yield from builder.build()
    bad_rows.lines += batch.num_rows


def _values(column: pa.Array) -> list[Any]:
    """Values as Python objects; as bytes when some text is not UTF-8."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def _plain_batch(
    column: pa.Array, mask: pa.Array | None, layout: Layout, rows_before: int
) -> Batch | IdBatch | None:
    """All rows at once, None when they have to be read row by row."""
    if layout.kind == "ids":
        return _plain_ids(column, mask, rows_before)
    is_string = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    if layout.kind != "text" or column.null_count or not is_string:
        return None
    try:
        return Batch(column.to_pylist())
    except UnicodeDecodeError:
        return None


def _plain_ids(column: pa.Array, mask: pa.Array | None, rows_before: int) -> IdBatch | None:
    """Lists of integers without nulls, as they lie in memory."""
    if not _is_full_list(column) or not (mask is None or _is_full_list(mask)):
        return None
    lengths = _lengths(column)
    if mask is not None and not np.array_equal(lengths, _lengths(mask)):
        return None
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    flags = None
    if mask is not None:
        flags = mask.flatten().to_numpy(zero_copy_only=False).astype(bool)
    rows = np.arange(rows_before + 1, rows_before + 1 + len(column), dtype=np.int64)
    return IdBatch(column.flatten().to_numpy(zero_copy_only=False), offsets, flags, rows)


def _is_full_list(array: pa.Array) -> bool:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return False
    inner = array.type.value_type
    is_number = pa.types.is_integer(inner) or pa.types.is_boolean(inner)
    return bool(is_number and array.null_count == 0 and array.flatten().null_count == 0)


def _lengths(array: pa.Array) -> Any:
    return array.value_lengths().to_numpy(zero_copy_only=False)
