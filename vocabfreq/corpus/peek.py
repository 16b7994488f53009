"""The first rows of a file, to see what it holds before anything is counted."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from vocabfreq.corpus.blocks import BLOCK, BOM, TruncatedError, decompressed
from vocabfreq.corpus.files import InputFile, named_errors
from vocabfreq.corpus.readers import MAX_JSON, json_rows
from vocabfreq.corpus.rows import BadRowError, load_line

ROWS = 100


def first_rows(file: InputFile) -> list[dict[str, Any]]:
    """The first rows of a file that are objects; empty when there are none."""
    if file.format in ("parquet", "arrow", "hub"):
        from vocabfreq.corpus.columnar import first_records

        return first_records(file, ROWS)
    data = head(file)
    rows = json_rows(data) if file.format == "json" else None
    return _objects(rows if rows is not None else map(_loaded, data.split(b"\n")))


def head(file: InputFile) -> bytes:
    """The start of a file without a BOM: whole lines, or all of it when it is one JSON document."""
    parts = [b""]
    with named_errors(file.path), file.open() as raw:
        read = decompressed(raw, file.compression)
        try:
            while _wants_more(parts, file) and (part := read(BLOCK)):
                parts.append(part)
        except TruncatedError:
            pass  # reported when the file is counted
    return b"".join(parts).removeprefix(BOM)


def _wants_more(parts: list[bytes], file: InputFile) -> bool:
    size = sum(map(len, parts))
    a_line = file.format != "json" and size >= BLOCK and any(b"\n" in part for part in parts)
    return size <= MAX_JSON and not a_line


def _loaded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        pass
    try:
        return load_line(line)
    except BadRowError:
        return None


def _objects(rows: Iterable[Any]) -> list[dict[str, Any]]:
    return list(islice((row for row in rows if isinstance(row, dict)), ROWS))
