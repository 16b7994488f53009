"""Pieces of files → batches of documents. One reader a format; all share rows and layouts."""

import json
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

import msgspec
import numpy as np

from vocabfreq.corpus import bad_rows as reasons
from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.corpus.blocks import BOM, TruncatedError, ahead, decompressed, record_blocks
from vocabfreq.corpus.files import STDIN, InputFile, standard_input
from vocabfreq.corpus.layouts import MASK_COLUMN, Layout
from vocabfreq.corpus.rows import Batch, BatchBuilder, IdBatch, id_batch, load_line
from vocabfreq.errors import SourceError

MAX_JSON = 1 << 30
ROWS_AT_ONCE = 4096


@dataclass(frozen=True)
class Piece:
    """A part of a file, small enough to be one unit of work.

    Attributes:
        file: the file.
        start: first byte, row group or record batch.
        stop: first one after the piece, None for the end of the file.
        size: about how many bytes it has.
    """

    file: InputFile
    start: int = 0
    stop: int | None = None
    size: int = 0


def read_piece(
    piece: Piece, layout: Layout, tally: Tally, separator: str | None
) -> Generator[Batch | IdBatch, None, None]:
    """Reads one piece; bad rows go to the tally.

    Args:
        piece: what to read.
        layout: where the text is.
        tally: told of skipped rows; its `lines` grows by the rows read.
        separator: what splits a plain text into documents, None for one document.
    """
    if piece.file.format in ("parquet", "arrow", "hub"):
        from vocabfreq.corpus import columnar

        yield from columnar.read_columnar(piece, layout, tally)
        return
    if piece.file.path == STDIN:
        standard_input().start_counting()
    with piece.file.open() as raw:
        if piece.file.format == "jsonl":
            yield from _read_jsonl(piece, raw, layout, tally)
        elif piece.file.format == "json":
            yield from _read_json(piece, raw, layout, tally)
        else:
            yield from _read_txt(piece, raw, tally, separator)


def _blocks(
    piece: Piece, raw: IO[bytes], tally: Tally, separator: bytes = b"\n"
) -> Iterator[bytes]:
    """Whole records of the piece without a BOM; a broken end goes to the tally."""
    if piece.start:
        raw.seek(piece.start - len(separator))
    read = decompressed(raw, piece.file.compression)
    blocks = record_blocks(read, start=piece.start, stop=piece.stop, separator=separator)
    first = piece.start == 0
    try:
        for block in ahead(blocks):
            yield block.removeprefix(BOM) if first else block
            first = False
    except TruncatedError as cut:
        detail = f"of {piece.file.size}; what came before it is counted, the rest is lost"
        tally.skip(reasons.TRUNCATED, piece.file.name, "byte", cut.position, detail)


def _read_jsonl(
    piece: Piece, raw: IO[bytes], layout: Layout, tally: Tally
) -> Iterator[Batch | IdBatch]:
    for block in _blocks(piece, raw, tally):
        fast = _fast(block, layout, tally)
        yield from fast[1] if fast else _patient(block, piece, layout, tally)
        tally.lines += fast[0] if fast else block.count(b"\n") + (not block.endswith(b"\n"))


def _fast(block: bytes, layout: Layout, tally: Tally) -> tuple[int, list[Batch | IdBatch]] | None:
    """The whole block at once; None unless every line is one good row."""
    try:
        rows = layout.decoder.decode_lines(block)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if not rows or len(rows) != whole_lines(block):
        return None
    batches = _assemble(rows, layout, tally)
    return (len(rows), batches) if batches else None


def whole_lines(block: bytes) -> int:
    """How many lines a block of JSON has, -1 unless each begins with `{` and ends with `}`.

    The decoder takes values however white space splits them, two on a line or one on two. But
    within a value `}` is never followed by `{`, so where every line break stands between the two,
    no value spans a break; and with as many values as lines, each line has one.
    """
    body = block.rstrip(b"\r\n")
    if block[len(body) :] not in (b"", b"\n", b"\r\n"):
        return -1
    data = np.frombuffer(body, np.uint8)
    breaks = np.flatnonzero(data == ord("\n"))
    before = data[breaks - 1]
    before = np.where(before == ord("\r"), data[breaks - 2], before)
    regular = (before == ord("}")).all() and (data[breaks + 1] == ord("{")).all()
    return len(breaks) + 1 if regular else -1


def _assemble(rows: list[Any], layout: Layout, tally: Tally) -> list[Batch | IdBatch]:
    if layout.kind == "text":
        return [Batch([row.value for row in rows])]
    if layout.kind == "chat":
        texts = [layout.texts(row.value, tally) for row in rows]
        return [Batch([t for many in texts for t in many], [len(many) for many in texts])]
    masks = [row.mask for row in rows]
    if any(m is not None and len(m) != len(row.value) for m, row in zip(masks, rows, strict=True)):
        return []
    numbers = list(range(tally.lines + 1, tally.lines + 1 + len(rows)))
    return [id_batch([row.value for row in rows], masks, numbers, tally)]


def _patient(block: bytes, piece: Piece, layout: Layout, tally: Tally) -> Iterator[Batch | IdBatch]:
    """Line by line: what the fast way takes is taken, the rest is looked at closely."""
    builder = BatchBuilder(layout, tally, piece.file.name, "line")
    for number, line in enumerate(block.split(b"\n"), tally.lines + 1):
        if line.strip():
            builder.add(partial(_load, line, layout), number)
    yield from builder.build()


def _load(line: bytes, layout: Layout) -> Any:
    try:
        row = layout.decoder.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return load_line(line)
    # Checked already: accept() converts a converted value to itself.
    return {layout.column: row.value, MASK_COLUMN: getattr(row, "mask", None)}


def _read_json(
    piece: Piece, raw: IO[bytes], layout: Layout, tally: Tally
) -> Iterator[Batch | IdBatch]:
    data = b"".join(_limited(_blocks(piece, raw, tally), piece))
    rows = json_rows(data)
    if rows is None and data.lstrip()[:1] == b"[":
        tally.skip(reasons.BROKEN, piece.file.name, "byte", _broken_at(data), "an array was begun")
        return
    if rows is None:
        lines = Piece(InputFile(piece.file.path, "jsonl", None, len(data), ""))
        yield from _patient(data, lines, layout, tally)
        return
    for start in range(0, len(rows), ROWS_AT_ONCE):
        builder = BatchBuilder(layout, tally, piece.file.name, "row")
        for number, row in enumerate(rows[start : start + ROWS_AT_ONCE], start + 1):
            builder.add(lambda row=row: row, number)  # type: ignore[misc]
        yield from builder.build()
    tally.lines += len(rows)


def _broken_at(data: bytes) -> int:
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.pos
    except (ValueError, RecursionError):
        pass
    return 0


def _limited(blocks: Iterator[bytes], piece: Piece) -> Iterator[bytes]:
    total = 0
    for block in blocks:
        total += len(block)
        if total > MAX_JSON:
            raise SourceError(
                f"{piece.file.name} holds more than {MAX_JSON} bytes of JSON",
                expected="a .json file that fits in memory",
                hint="turn it into .jsonl, a row a line",
            )
        yield block


def json_rows(data: bytes) -> list[Any] | None:
    """The rows of a JSON document: an array of rows, or one row. None when it is not one."""
    for loads in (msgspec.json.decode, json.loads):
        try:
            loaded = loads(data)
        except (ValueError, RecursionError):
            continue
        return loaded if isinstance(loaded, list) else [loaded]
    return None


def _read_txt(piece: Piece, raw: IO[bytes], tally: Tally, separator: str | None) -> Iterator[Batch]:
    if separator is None:
        yield from _decoded([b"".join(_blocks(piece, raw, tally))], piece, tally)
        return
    cut = separator.encode()
    for block in _blocks(piece, raw, tally, cut):
        yield from _decoded(block.split(cut), piece, tally, skip_empty=True)


def _decoded(
    documents: list[bytes], piece: Piece, tally: Tally, skip_empty: bool = False
) -> Iterator[Batch]:
    texts = []
    for document in documents:
        if skip_empty and not document:
            continue
        tally.lines += 1
        try:
            texts.append(document.decode("utf-8"))
        except UnicodeDecodeError as error:
            where = f"byte {error.start} of it"
            tally.skip(reasons.NOT_UTF8, piece.file.name, "document", tally.lines, where)
    if texts:
        yield Batch(texts)
