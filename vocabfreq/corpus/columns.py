"""Columns of record batches → batches of texts or ids."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from vocabfreq.corpus import bad_rows as reasons
from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.corpus.layouts import MASK_COLUMN, Layout
from vocabfreq.corpus.readers import Piece
from vocabfreq.corpus.rows import BadRowError, Batch, BatchBuilder, IdBatch


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
