"""Parquet, Arrow and streamed Hub data: columns → batches, only the needed ones read.

Columns of record batches → batches of texts or ids.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vocabfreq.corpus import bad_rows as reasons
from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.corpus.files import InputFile
from vocabfreq.corpus.layouts import MASK_COLUMN, Layout
from vocabfreq.corpus.readers import Piece
from vocabfreq.corpus.rows import BadRowError, Batch, BatchBuilder, IdBatch
from vocabfreq.errors import SourceError, first_line


def batches(
    batch: pa.RecordBatch, piece: Piece, layout: Layout, tally: Tally
) -> Iterator[Batch | IdBatch]:
    """The rows of one record batch, all at once where none has to be looked at closely."""
    column = batch.column(layout.column)
    has_mask = layout.kind == "ids" and MASK_COLUMN in batch.schema.names
    mask = batch.column(MASK_COLUMN) if has_mask else None
    if plain := _plain(column, mask, layout, tally.lines):
        yield plain
        return
    builder = BatchBuilder(layout, tally, piece.file.name, "row")
    masks = mask.to_pylist() if mask is not None else None
    for index, value in enumerate(_values(column)):
        row = {layout.column: value, MASK_COLUMN: masks[index] if masks else None}
        builder.add(lambda row=row: _checked(row, layout.column), tally.lines + index + 1)  # type: ignore[misc]
    yield from builder.build()


def _plain(
    column: pa.Array, mask: pa.Array | None, layout: Layout, before: int
) -> Batch | IdBatch | None:
    """All rows at once, None when one has to be looked at closely."""
    if layout.kind == "ids" and _is_plain_ids(column, mask):
        return _ids(column, mask, before)
    if layout.kind != "text" or column.null_count or not _is_string(column.type):
        return None
    try:
        return Batch(column.to_pylist())
    except UnicodeDecodeError:
        return None


def _is_string(of: pa.DataType) -> bool:
    return bool(pa.types.is_string(of) or pa.types.is_large_string(of))


def _checked(row: dict[Any, Any], column: str) -> dict[Any, Any]:
    """Decodes a binary value, as files without a string type have them."""
    if isinstance(row[column], bytes):
        try:
            row[column] = row[column].decode("utf-8")
        except UnicodeDecodeError:
            raise BadRowError(reasons.NOT_UTF8) from None
    return row


def _values(column: pa.Array) -> list[Any]:
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return column.cast(pa.large_binary()).to_pylist()  # type: ignore[no-any-return]


def _is_plain_ids(column: pa.Array, mask: pa.Array | None) -> bool:
    """Whether lists of integers lie in memory as the counter wants them, with nothing missing."""
    arrays = [column] if mask is None else [column, mask]
    return all(_is_full_list(array) for array in arrays) and (
        mask is None or np.array_equal(_lengths(column), _lengths(mask))
    )


def _is_full_list(array: pa.Array) -> bool:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        return False
    inner = array.type.value_type
    simple = pa.types.is_integer(inner) or pa.types.is_boolean(inner)
    return bool(simple and array.null_count == 0 and array.flatten().null_count == 0)


def _lengths(array: pa.Array) -> Any:
    return array.value_lengths().to_numpy(zero_copy_only=False)


def _ids(column: pa.Array, mask: pa.Array | None, before: int) -> IdBatch:
    flat = column.flatten().to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(_lengths(column), out=offsets[1:])
    flags = None
    if mask is not None:
        flags = mask.flatten().to_numpy(zero_copy_only=False).astype(bool)
    rows = np.arange(before + 1, before + 1 + len(column), dtype=np.int64)
    return IdBatch(flat, offsets, flags, rows)


ROWS_AT_ONCE = 512  # more falls out of the cache between decoding and counting


def read_columnar(piece: Piece, layout: Layout, tally: Tally) -> Iterator[Batch | IdBatch]:
    """Reads one piece of a parquet file, an Arrow file, or a shard streamed by `datasets`."""
    for batch in record_batches(piece, _wanted(piece, layout)):
        yield from batches(batch, piece, layout, tally)
        tally.lines += batch.num_rows


def _wanted(piece: Piece, layout: Layout) -> list[str]:
    """The column, and the loss mask where the file has one."""
    if layout.kind != "ids" or piece.file.format == "hub":
        return [layout.column]
    return [layout.column, *({MASK_COLUMN} & set(column_names(piece.file)))]


def column_names(file: InputFile) -> list[str]:
    """The columns of a parquet or Arrow file."""
    with file.open() as raw:
        if file.format == "parquet":
            with _parquet(raw, file) as parquet:
                return list(parquet.schema_arrow.names)
        reader: Any = arrow_reader(raw, file)
        return list(reader.schema.names)


def record_batches(piece: Piece, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Record batches of a piece, with only the given columns (None for all)."""
    if piece.file.format == "hub":
        from vocabfreq.corpus.hub_datasets import stream_shard

        yield from stream_shard(piece, columns)
    elif piece.file.format == "parquet":
        yield from _parquet_batches(piece, columns)
    else:
        yield from _arrow_batches(piece, columns)


def _parquet_batches(piece: Piece, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    with piece.file.open() as raw, _parquet(raw, piece.file) as file:
        stop = file.num_row_groups if piece.stop is None else piece.stop
        _check_columns(columns, file.schema_arrow, piece.file)
        groups = list(range(piece.start, stop))
        # Without a thread pool of its own: the workers already fill the cores.
        yield from file.iter_batches(ROWS_AT_ONCE, groups, columns=columns, use_threads=False)


def _parquet(raw: Any, file: InputFile) -> pq.ParquetFile:
    try:
        # Buffering ahead would read with threads, which no exit waits for: they abort the process.
        return pq.ParquetFile(raw, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:  # a broken footer is an OSError
        raise SourceError(
            f"{file.name} is not a readable parquet file: {first_line(error)}"
        ) from None


def _arrow_batches(piece: Piece, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    with piece.file.open() as raw:
        reader: Any = arrow_reader(raw, piece.file)
        _check_columns(columns, reader.schema, piece.file)
        for batch in _slices(reader, piece):
            yield batch.select(columns) if columns else batch


def arrow_reader(raw: Any, file: InputFile) -> Any:
    """A reader of the IPC file format, or of the stream format that `datasets` writes."""
    for opener in (pa.ipc.open_file, pa.ipc.open_stream):
        try:
            return opener(raw)
        except pa.ArrowInvalid:
            raw.seek(0)
    raise SourceError(f"{file.name} is neither an Arrow file nor an Arrow stream")


def _slices(reader: Any, piece: Piece) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        stop = reader.num_record_batches if piece.stop is None else piece.stop
        batches: Any = (reader.get_batch(i) for i in range(piece.start, stop))
    else:
        batches = reader
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
    with file.open() as raw, _parquet(raw, file) as parquet:
        metadata = parquet.metadata
        groups = range(metadata.num_row_groups)
        return [metadata.row_group(group).total_byte_size for group in groups]


def first_records(file: InputFile, number: int) -> list[dict[str, Any]]:
    """The first rows of a file as dicts; of an empty one, a row that has only the column names."""
    for batch in record_batches(Piece(file), None):
        rows = batch.slice(0, number)
        try:
            return rows.to_pylist()  # type: ignore[no-any-return]
        except UnicodeDecodeError:
            return [dict.fromkeys(batch.schema.names)]
    return []
