"""Source specs → shards: units of work that can be counted alone, in any order, once each.

>>> from vocabfreq.corpus.sources import parse_source, plan_source
>>> [shard.name for shard in plan_source(0, parse_source("chat=data/chat.jsonl")).shards]
['chat.jsonl']
"""

import os
import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from itertools import islice
from typing import Any, NamedTuple, get_args

from vocabfreq.corpus.files import (
    BLOCK,
    BOM,
    STDIN,
    InputFile,
    Piece,
    TruncatedError,
    decompressed,
    local_files,
    os_errors_as_source_errors,
    standard_input_file,
)
from vocabfreq.corpus.hub_datasets import data_set_files, is_data_set
from vocabfreq.corpus.layouts import FoundLayout, Layout, Roles, find_layout
from vocabfreq.corpus.readers import MAX_JSON, json_rows, record_batches
from vocabfreq.corpus.rows import BadRowError, load_line
from vocabfreq.errors import SourceError

MIN_SHARD_BYTES, MAX_SHARD_BYTES, SHARDS_PER_FILE = 8 << 20, 256 << 20, 16
FIRST_ROWS = 100
_NAMED = re.compile(r"^([\w.-]+)=(.+)$", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """One corpus.

    Attributes:
        name: its name in the frequency file; unique within a build.
        spec: a path, a glob, `-`, or a Hub data set.
        column: column to count, or a path such as `choices[].message`; a tuple of several, of
            which each value is a document; None to find it.
        roles: whose turns of a chat count.
        separator: splits plain text into documents, None for a document a file.
        max_documents: the first so many are counted, None for all.
    """

    name: str
    spec: str
    column: str | tuple[str, ...] | None = None
    roles: Roles = "assistant"
    separator: str | None = None
    max_documents: int | None = None

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            SourceError: naming the option and its value.
        """
        if not self.spec or not self.name:
            raise SourceError(
                f"source {self.name!r} of {self.spec!r}", expected="a name and a spec"
            )
        if self.roles not in get_args(Roles):
            raise SourceError(f"roles {self.roles!r}", expected="'assistant' or 'all'")
        if self.separator == "":
            raise SourceError("separator ''", expected="at least one character, or None")
        if self.max_documents is not None and self.max_documents < 1:
            raise SourceError(f"max_documents {self.max_documents}", expected="1 or more, or None")


@dataclass(frozen=True)
class Shard:
    """A unit of work.

    Attributes:
        source: index of its source.
        pieces: parts of files, in reading order.
        layout: where the text is.
        separator: as in the source.
        limit: count this many documents and stop, None for all.
        first: whether it is the first of its source.
    """

    source: int
    pieces: tuple[Piece, ...]
    layout: Layout
    separator: str | None = None
    limit: int | None = None
    first: bool = False

    @property
    def name(self) -> str:
        """Its name in messages."""
        first = self.pieces[0]
        more = f" and {len(self.pieces) - 1} more" if len(self.pieces) > 1 else ""
        part = f" from {first.start}" if first.start else ""
        return f"{first.file.name}{part}{more}"

    @property
    def size(self) -> int:
        """About how many bytes it has."""
        return sum(piece.size for piece in self.pieces)

    @property
    def identity(self) -> Any:
        """Everything about it that decides its counts, as plain JSON."""
        pieces = [(p.file.path, p.file.stamp, p.start, p.stop) for p in self.pieces]
        layout = astuple(self.layout)
        return [pieces, layout, self.separator, self.limit, self.first]


def parse_source(text: str, **options: Any) -> Source:
    """`[NAME=]SPEC` → a Source; without a name, the file or data set names it.

    Args:
        text: the spec.
        options: other attributes of `Source`.
    """
    named = None if os.path.exists(text) else _NAMED.match(text)
    name, spec = named.groups() if named else (_default_name(text), text)
    return Source(name, spec, **options)


def _default_name(spec: str) -> str:
    if spec == STDIN:
        return "stdin"
    base = re.split(r"[/\\]", spec.rstrip("/"))[-1]
    ending = r"(\.(jsonl|ndjson|json|parquet|arrow|csv|tsv|txt))?(\.(gz|zst))?$"
    stem = re.sub(ending, "", base, flags=re.IGNORECASE)
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "source"


class PlannedSource(NamedTuple):
    """The shards of a source, and what of its rows is counted."""

    shards: list[Shard]
    layout: FoundLayout
    remarks: tuple[str, ...] = ()


def plan_source(index: int, source: Source) -> PlannedSource:
    """Cuts a source into shards.

    Raises:
        SourceError: there is no such file, or no column that can be counted.
    """
    remarks: list[str] = []
    files = _find_files(source, remarks)
    layout = _find_layout(source, files)
    pieces = [piece for file in files for piece in _pieces(file, source)]
    # The first N in plan order are known only to one worker that reads in that order.
    groups = list(_grouped(pieces)) if source.max_documents is None else [tuple(pieces)]
    limits = source.separator, source.max_documents
    shards = [
        Shard(index, group, layout.layout, *limits, first=n == 0) for n, group in enumerate(groups)
    ]
    return PlannedSource(shards, layout, tuple(remarks))


def _find_files(source: Source, remarks: list[str]) -> list[InputFile]:
    """The files of a source, in plan order."""
    if source.spec == STDIN:
        return [standard_input_file(source.separator)]
    if is_data_set(source.spec):
        return data_set_files(source.spec)
    files, unread = local_files(source.spec)
    if unread:
        remarks.append(f"{source.name}: {unread:,} files of {source.spec!r} cannot be read")
    return files


def _find_layout(source: Source, files: list[InputFile]) -> FoundLayout:
    """The layout of the first file with rows; the others have the same."""
    if all(file.format == "txt" for file in files):
        return FoundLayout(Layout("text", "text"), {}, 0)
    for file in files:
        if file.format != "txt" and (rows := _first_rows(file)):
            columns = (source.column,) if isinstance(source.column, str) else source.column
            return find_layout(rows, columns or (), source.roles, file.name)
    names = ", ".join(file.name for file in files[:3])
    size = sum(file.size for file in files)
    raise SourceError(
        f"no row can be read in {names} ({size:,} bytes)",
        expected="JSON objects in UTF-8, or a table with rows and a text, chat or ids column",
    )


def _first_rows(file: InputFile) -> list[dict[str, Any]]:
    """The first rows of a file that are objects; empty when there are none."""
    if file.is_columnar:
        from vocabfreq.corpus.columnar import first_records

        return first_records(record_batches(Piece(file), None), FIRST_ROWS)
    data = _head(file)
    rows = json_rows(data) if file.format == "json" else None
    found = map(_load_or_none, data.split(b"\n")) if rows is None else iter(rows)
    return list(islice((row for row in found if isinstance(row, dict)), FIRST_ROWS))


def _head(file: InputFile) -> bytes:
    """The start of a file without a BOM: at least one line; of a JSON document all of it."""
    parts: list[bytes] = []
    size, has_line = 0, False
    with os_errors_as_source_errors(file.path), file.open() as raw:
        read = decompressed(raw, file.compression)
        try:
            while size <= MAX_JSON and not has_line and (part := read(BLOCK)):
                parts.append(part)
                size += len(part)
                is_enough = file.format != "json" and size >= BLOCK
                has_line = is_enough and any(b"\n" in part for part in parts)
        except TruncatedError:
            pass  # reported when the file is counted
    return b"".join(parts).removeprefix(BOM)


def _load_or_none(line: bytes) -> Any:
    try:
        return load_line(line)
    except BadRowError:
        return None


def _pieces(file: InputFile, source: Source) -> Iterator[Piece]:
    """Cuts by the file's own size only, so that a file is cut alike in every build."""
    size = min(max(-(-file.size // SHARDS_PER_FILE), MIN_SHARD_BYTES), MAX_SHARD_BYTES)
    if file.format == "parquet":
        yield from _row_groups(file, size)
    elif file.size > size and _can_cut(file, source):
        for start in range(0, file.size, size):
            stop = start + size
            yield Piece(
                file, start, None if stop >= file.size else stop, min(size, file.size - start)
            )
    else:
        yield Piece(file, size=file.size)


def _can_cut(file: InputFile, source: Source) -> bool:
    by_line = file.format == "jsonl"
    by_separator = file.format == "txt" and len((source.separator or "").encode()) == 1
    return file.compression is None and (by_line or by_separator)


def _row_groups(file: InputFile, size: int) -> Iterator[Piece]:
    from vocabfreq.corpus.columnar import row_group_sizes

    start = total = 0
    sizes = row_group_sizes(file)
    for group, bytes_ in enumerate(sizes):
        total += bytes_
        if total >= size or group == len(sizes) - 1:
            yield Piece(file, start, group + 1, total)
            start, total = group + 1, 0


def _grouped(pieces: list[Piece]) -> Iterator[tuple[Piece, ...]]:
    """Puts small neighbours together, so that many tiny files are few shards."""
    group: list[Piece] = []
    for piece in pieces:
        alone = piece.file.format == "hub"  # one bad row ends such a file, and its group with it
        if group and (alone or sum(p.size for p in group) + piece.size > MIN_SHARD_BYTES):
            yield tuple(group)
            group = []
        group.append(piece)
    if group:
        yield tuple(group)
