"""Pieces of files → batches of documents: JSON lines, JSON documents, plain text.

A text file is read in blocks that end where a record ends, one block ahead of its consumer. A block
of JSON lines is decoded at once; a block with a line that does not fit is read line by line.
Parquet, Arrow and streamed Hub files are read by `columnar`.
"""

import json
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from vocabfreq.corpus.bad_rows import BROKEN, NOT_UTF8, TRAILING, TRUNCATED, BadRows
from vocabfreq.corpus.extraction import Document
from vocabfreq.corpus.files import (
    BLOCK,
    BOM,
    Piece,
    Read,
    TruncatedError,
    decompressed,
    stream_at,
)
from vocabfreq.corpus.layouts import MASK_COLUMN, Layout
from vocabfreq.corpus.messages import KNOWN_ROLES, TOOLS_COLUMN, ContentError, tools_of
from vocabfreq.corpus.plain_chats import plain_batch, plain_conversations
from vocabfreq.corpus.rows import (
    BadRowError,
    Batch,
    BatchBuilder,
    IdBatch,
    chat_messages,
    chat_texts,
    decoder_of,
    id_batch,
    load_line,
)
from vocabfreq.errors import SourceError
from vocabfreq.tokenizer.chat_template import TemplateError
from vocabfreq.tokenizer.rendering import TurnRenderer

if TYPE_CHECKING:
    import pyarrow as pa

MAX_JSON = 1 << 30
ROWS_AT_ONCE = 4096
Batches = Iterator[Batch | IdBatch]


def read_piece(
    piece: Piece,
    layout: Layout,
    bad_rows: BadRows,
    separator: str | None = None,
    renderer: TurnRenderer | None = None,
) -> Generator[Batch | IdBatch, None, None]:
    """Reads one piece.

    Args:
        piece: what to read.
        layout: where the text is.
        bad_rows: gets the rows that are skipped or repaired; its `lines` grows by the rows read.
        separator: what splits a plain text into documents, None for one document.
        renderer: of a chat template, None to count the text of the rows.
    """
    if piece.file.is_columnar:
        from vocabfreq.corpus import columnar

        columns = columnar.columns_to_read(piece.file, layout)
        for record_batch in record_batches(piece, columns):
            yield from columnar.read_batch(
                record_batch, piece.file.name, layout, bad_rows, renderer
            )
        return
    if piece.file.is_stream:
        stream_at(piece.file.path).start_counting()
    with piece.file.open() as raw:
        if piece.file.format == "jsonl":
            yield from _read_jsonl(piece, raw, layout, bad_rows, renderer)
        elif piece.file.format == "json":
            yield from _read_json(piece, raw, layout, bad_rows, renderer)
        else:
            yield from _read_txt(piece, raw, bad_rows, separator)


def record_batches(piece: Piece, columns: list[str] | None) -> "Iterator[pa.RecordBatch]":
    """Record batches of a piece of a columnar file, with the given columns only (None for all)."""
    if piece.file.format == "hub":
        from vocabfreq.corpus.hub_datasets import stream_file

        return stream_file(piece.file, columns)
    from vocabfreq.corpus import columnar

    return columnar.record_batches(piece, columns)


def _read_jsonl(
    piece: Piece, raw: IO[bytes], layout: Layout, bad_rows: BadRows, renderer: TurnRenderer | None
) -> Batches:
    for block in _blocks(piece, raw, bad_rows):
        decoded = _decode_block(block, layout, bad_rows, renderer)
        if decoded:
            lines, batch = decoded
            yield batch
            bad_rows.lines += lines
        else:
            yield from _read_lines(block, piece, layout, bad_rows, renderer)
            bad_rows.lines += block.count(b"\n") + (not block.endswith(b"\n"))


def _decode_block(
    block: bytes, layout: Layout, bad_rows: BadRows, renderer: TurnRenderer | None
) -> tuple[int, Batch | IdBatch] | None:
    """The number of lines of a block, and its batch; None unless every line is a good row."""
    if layout.kind == "rows":
        return None
    if layout.kind == "chat" and layout.roles != "all":
        with_tools = renderer is not None and renderer.template.reads_tools
        conversations = plain_conversations(block, layout.column, with_tools=with_tools)
        if conversations and len(conversations) == count_lines(block):
            plain = plain_batch(conversations, renderer)
            return None if plain is None else (len(conversations), plain)
    try:
        rows = decoder_of(layout).decode_lines(block)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if not rows or len(rows) != count_lines(block):
        return None
    if layout.kind == "ids":
        return _decoded_ids(rows, bad_rows)
    values = [row.value for row in rows]
    batch = _rendered(rows, layout, renderer) if renderer else _texts_of(values, layout)
    return None if batch is None else (len(rows), batch)


def _decoded_ids(rows: list[Any], bad_rows: BadRows) -> tuple[int, IdBatch] | None:
    if any(row.mask is not None and len(row.mask) != len(row.value) for row in rows):
        return None
    numbers = list(range(bad_rows.lines + 1, bad_rows.lines + 1 + len(rows)))
    ids, masks = [row.value for row in rows], [row.mask for row in rows]
    return len(rows), id_batch(ids, masks, numbers, bad_rows)


def _texts_of(values: list[Any], layout: Layout) -> Batch | None:
    """A batch of the rows' own texts, None when a row has to be looked at."""
    if layout.kind == "text":
        return Batch(values)
    batch = Batch(sizes=[])
    try:
        for turns in values:
            texts = chat_texts(turns, layout.roles, batch)
            batch.texts += texts
            batch.sizes.append(len(texts))  # type: ignore[union-attr]
    except ContentError:
        return None
    return batch


def _rendered(rows: list[Any], layout: Layout, renderer: TurnRenderer) -> Batch | None:
    """A batch of what a chat template makes of the rows, None when a row has to be looked at."""
    values = [row.value for row in rows]
    tools = [tools_of({TOOLS_COLUMN: getattr(row, TOOLS_COLUMN, None)}) for row in rows]
    if layout.roles == "all" or (layout.kind == "text" and not layout.answer):
        return _texts_of(values, layout)
    try:
        if layout.kind == "chat":
            conversations = [chat_messages(turns) for turns in values]
        else:
            conversations = [Document(text=text, answer=True).messages() for text in values]
    except ContentError:
        return None
    if any(message["role"] not in KNOWN_ROLES for turns in conversations for message in turns):
        return None
    texts = renderer.turns(conversations, tools if any(tools) else ())
    if any(isinstance(turns, TemplateError) for turns in texts):
        return None
    return Batch([text for turns in texts for text in turns], list(map(len, texts)))  # type: ignore[arg-type, union-attr]


def count_lines(block: bytes) -> int:
    """The number of lines of a block, -1 unless each begins with `{` and ends with `}`.

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


def _read_lines(
    data: bytes,
    piece: Piece,
    layout: Layout,
    bad_rows: BadRows,
    renderer: TurnRenderer | None,
) -> Batches:
    """JSON lines one at a time; bad ones are skipped."""
    builder = BatchBuilder(layout, bad_rows, piece.file.name, "line", renderer)
    for number, line in enumerate(data.split(b"\n"), bad_rows.lines + 1):
        if not line.strip():
            continue
        try:
            builder.add(_decode_line(line, layout), number)
        except BadRowError as error:
            builder.skip(error, number)
    yield from builder.build()


def _decode_line(line: bytes, layout: Layout) -> Any:
    try:
        if layout.kind == "rows":
            return msgspec.json.decode(line)
        row = decoder_of(layout).decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return load_line(line)
    value = msgspec.to_builtins(row.value)
    extra = {MASK_COLUMN: getattr(row, "mask", None), TOOLS_COLUMN: getattr(row, "tools", None)}
    return extra | {layout.column: value}


def _read_json(
    piece: Piece, raw: IO[bytes], layout: Layout, bad_rows: BadRows, renderer: TurnRenderer | None
) -> Batches:
    data = _read_all(piece, raw, bad_rows)
    rows = json_rows(data)
    if rows is None and data.lstrip()[:1] == b"[":
        detail = "an array was begun"
        bad_rows.add_row(BROKEN, piece.file.name, "byte", _broken_at(data), detail)
    elif rows is None:
        yield from _read_lines(data, piece, layout, bad_rows, renderer)
    else:
        for start in range(0, len(rows), ROWS_AT_ONCE):
            builder = BatchBuilder(layout, bad_rows, piece.file.name, "row", renderer)
            for number, row in enumerate(rows[start : start + ROWS_AT_ONCE], start + 1):
                builder.add(row, number)
            yield from builder.build()
        bad_rows.lines += len(rows)


def _read_all(piece: Piece, raw: IO[bytes], bad_rows: BadRows) -> bytes:
    blocks, size = [], 0
    for block in _blocks(piece, raw, bad_rows):
        blocks.append(block)
        size += len(block)
        if size > MAX_JSON:
            raise SourceError(
                f"{piece.file.name} holds more than {MAX_JSON} bytes of JSON",
                expected="a .json file that fits in memory",
                hint="turn it into .jsonl, a row a line",
            )
    return b"".join(blocks)


def json_rows(data: bytes) -> list[Any] | None:
    """The rows of a JSON document: an array of rows, or one row. None when it is not one."""
    for loads in (msgspec.json.decode, json.loads):
        try:
            loaded = loads(data)
        except (ValueError, RecursionError):
            continue
        return loaded if isinstance(loaded, list) else [loaded]
    return None


def _broken_at(data: bytes) -> int:
    """Where a JSON document stops being one."""
    try:
        json.loads(data)
    except json.JSONDecodeError as error:
        return error.pos
    except (ValueError, RecursionError):
        pass
    return 0


def _read_txt(
    piece: Piece, raw: IO[bytes], bad_rows: BadRows, separator: str | None
) -> Iterator[Batch]:
    if separator is None:
        yield from _decode_texts([b"".join(_blocks(piece, raw, bad_rows))], piece, bad_rows)
        return
    end = separator.encode()
    for block in _blocks(piece, raw, bad_rows, end):
        yield from _decode_texts([d for d in block.split(end) if d], piece, bad_rows)


def _decode_texts(documents: list[bytes], piece: Piece, bad_rows: BadRows) -> Iterator[Batch]:
    texts = []
    for document in documents:
        bad_rows.lines += 1
        try:
            texts.append(document.decode("utf-8"))
        except UnicodeDecodeError as error:
            detail = f"byte {error.start} of it"
            bad_rows.add_row(NOT_UTF8, piece.file.name, "document", bad_rows.lines, detail)
    if texts:
        yield Batch(texts)


def _blocks(
    piece: Piece, raw: IO[bytes], bad_rows: BadRows, separator: bytes = b"\n"
) -> Iterator[bytes]:
    """Blocks of whole records without a BOM; `bad_rows` gets a truncated end."""
    if piece.start:
        raw.seek(piece.start - len(separator))
    trailing: list[int] = []
    read = decompressed(raw, piece.file.compression, trailing.append)
    blocks = record_blocks(read, start=piece.start, stop=piece.stop, separator=separator)
    first = piece.start == 0
    try:
        for block in blocks if 0 < piece.size < BLOCK else _read_ahead(blocks):
            yield block.removeprefix(BOM) if first else block
            first = False
    except TruncatedError as error:
        detail = f"of {piece.file.size}; what came before it is counted, the rest is lost"
        bad_rows.add_row(TRUNCATED, piece.file.name, "byte", error.position, detail)
    for position in trailing:
        bad_rows.add_row(TRAILING, piece.file.name, "byte", position)


def record_blocks(
    read: Read, *, start: int = 0, stop: int | None = None, separator: bytes = b"\n"
) -> Iterator[bytes]:
    """Whole records of a byte range, in blocks of about `BLOCK` bytes.

    A record belongs to the range in which its first byte lies, so that ranges that touch share
    nothing and lose nothing. The reader stands at `start` (or at `start` minus the length of the
    separator when `start` is above 0).

    Args:
        read: reads up to n bytes.
        start: first byte of the range.
        stop: first byte after the range, None for the end of the file.
        separator: what ends a record.

    Raises:
        TruncatedError: as `read` does; the last record is yielded before if it is whole JSON.
    """
    position = start - len(separator) if start else 0
    rest = b""
    inside_earlier_record = start > 0
    try:
        for chunk in _chunks(read):
            rest += chunk
            if inside_earlier_record:
                end = rest.find(separator)
                inside_earlier_record = end < 0
                # Without a separator yet, its first bytes may be there.
                drop = max(len(rest) - len(separator) + 1, 0) if end < 0 else end + len(separator)
                position, rest = position + drop, rest[drop:]
                if inside_earlier_record:
                    continue
            if stop is not None and position >= stop:
                return
            block, rest = _split(rest, separator, None if stop is None else stop - position)
            position += len(block)
            if block:
                yield block
            if stop is not None and position >= stop:
                return
    except TruncatedError:
        if separator == b"\n" and not inside_earlier_record and _is_json(rest):
            yield rest
        raise
    if rest and not inside_earlier_record:
        yield rest


def _split(data: bytes, separator: bytes, limit: int | None) -> tuple[bytes, bytes]:
    """Splits after the last whole record that starts before `limit`."""
    if limit is not None and limit <= len(data):
        found = data.find(separator, max(limit - len(separator), 0))
        if found >= 0:
            return data[: found + len(separator)], data[found + len(separator) :]
    if len(separator) == 1:
        end = data.rfind(separator) + 1
    else:  # from the left, as a reader splits: of three newlines the first two are a blank line
        end = len(data) - len(data.split(separator)[-1]) if separator in data else 0
    return data[:end], data[end:]


def _is_json(data: bytes) -> bool:
    try:
        return msgspec.json.decode(data) is not None
    except (msgspec.DecodeError, RecursionError):
        return False


def _chunks(read: Read) -> Iterator[bytes]:
    """Chunks of about `BLOCK` bytes; what comes before a truncated end is a chunk too."""
    parts: list[bytes] = []
    size = 0
    try:
        while part := read(BLOCK - size):
            parts.append(part)
            size += len(part)
            if size >= BLOCK:
                yield b"".join(parts)
                parts, size = [], 0
    except TruncatedError:
        yield b"".join(parts)
        raise
    if parts:
        yield b"".join(parts)


def _read_ahead(items: Iterator[bytes]) -> Iterator[bytes]:
    """The same items; a thread produces the next one while the consumer works on the last."""
    with ThreadPoolExecutor(1) as thread:
        upcoming = thread.submit(next, items, None)
        while (item := upcoming.result()) is not None:
            upcoming = thread.submit(next, items, None)
            yield item
