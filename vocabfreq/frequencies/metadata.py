"""What a frequency file says about itself beside the counts: typed, and checked when read."""

from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from vocabfreq.errors import FileFormatError

FORMAT = 1


class TokenizerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The tokenizer that counted.

    Attributes:
        name: folder name or repo id.
        revision: commit on the Hub, None for a local one.
        sha256: of tokenizer.json.
        size: ids that it can emit below `rows`.
        rows: V.
        absent: ranges [start, stop) of ids below `rows` that it cannot emit (padding, holes).
    """

    name: str
    revision: str | None
    sha256: str
    size: int
    rows: int
    absent: tuple[tuple[int, int], ...] = ()


class SourceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One source.

    Attributes:
        name: unique within a table.
        files: base names, or Hub addresses with a commit.
        sha256: sum of the documents' SHA-256 modulo 2**256, in hex; order does not matter.
        weight: its weight when sources are mixed, None when raw counts rank.
        documents: all documents.
        heldout_documents: those held out.
        tokens: tokens counted, held out ones included.
        bytes: UTF-8 bytes of the text counted.
        skipped: reason → number.
    """

    name: str
    files: tuple[str, ...]
    sha256: str
    weight: float | None
    documents: int
    heldout_documents: int
    tokens: int
    bytes: int
    skipped: dict[str, int] = {}


class EncoderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The engine that encoded.

    Attributes:
        name: of the engine, several joined by `+`.
        version: likewise.
        cross_checked_documents: texts also encoded by the reference.
        mismatched_documents: those that differed; the check of a shard stops at the first one,
            and the shard is counted by the reference.
        code_points: where they differed, such as `U+1F6DD`.
    """

    name: str
    version: str
    cross_checked_documents: int
    mismatched_documents: int
    code_points: tuple[str, ...] = ()


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of the one metadata key `vocabfreq`."""

    format: int
    vocabfreq: str
    tokenizer: TokenizerRecord
    special_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    template_ids: tuple[int, ...] = ()
    byte_ids: tuple[int, ...]
    sources: tuple[SourceRecord, ...]
    options: dict[str, Any]
    encoder: EncoderRecord


def canonical_json(record: Any) -> bytes:
    """Sorted keys, no spaces: equal records give equal bytes."""
    return msgspec.json.encode(record, order="sorted")


class Versioned(Protocol):
    """Metadata that says its format."""

    @property
    def format(self) -> int:
        """Number of the format."""


M = TypeVar("M", bound=Versioned)


def read_metadata(path: Path, metadata: dict[str, str], key: str, kind: type[M], what: str) -> M:
    """The typed metadata of a safetensors file of ours, of format `FORMAT`.

    Args:
        path: the file, for messages.
        metadata: all of its metadata.
        key: the key that holds ours.
        kind: the type of what it holds.
        what: what the file should be, for messages.

    Raises:
        FileFormatError: there is no such key, or it does not hold that, or of another format.
    """
    if key not in metadata:
        raise FileFormatError(f"{path} has no metadata key {key!r}", expected=what)
    try:
        meta = msgspec.json.decode(metadata[key], type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FileFormatError(f"{path}: metadata {key!r}: {error}") from None
    if meta.format != FORMAT:
        raise FileFormatError(
            f"{path} has format {meta.format}",
            expected=f"format {FORMAT}",
            hint="a newer vocabfreq may read it",
        )
    return meta
