"""The typed metadata of our files, and checks that every reader of ids and counts shares."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from vocabfreq.errors import FileFormatError, short_repr

FORMAT = 1
MAX_ROWS = 1 << 26  # largest V that a file may claim


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


class _Versioned(Protocol):
    @property
    def format(self) -> int: ...


M = TypeVar("M", bound=_Versioned)


def read_metadata(
    path: Path, metadata: Mapping[str, str], key: str, kind: type[M], description: str
) -> M:
    """Decodes the metadata of one of our safetensors files, which must have format `FORMAT`.

    Args:
        path: the file, for messages.
        metadata: all metadata of the file.
        key: the key that holds ours.
        kind: the type to decode.
        description: what the file should be, for messages.

    Raises:
        FileFormatError: the key is missing, its JSON does not fit the type, or its format is
            another one.
    """
    if key not in metadata:
        raise FileFormatError(f"{path} has no metadata key {key!r}", expected=description)
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


def check_rows(rows: object, name: str) -> None:
    """Checks a number of rows V that a file or a call gives.

    Raises:
        FileFormatError: it is no integer from 1 to `MAX_ROWS`.
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= MAX_ROWS:
        raise FileFormatError(
            f"{name} says {short_repr(rows)} rows",
            expected=f"a whole number from 1 to {MAX_ROWS:,}",
        )


def check_statistics(filled: int, coverage: Mapping[str, float], size: int, name: str) -> None:
    """Checks the statistics that a file gives for a vocabulary of K ids.

    Args:
        filled: ids kept that were neither seen nor pinned.
        coverage: share of tokens kept per source.
        size: K.
        name: of the file, for messages.

    Raises:
        FileFormatError: `filled` is not between 0 and K, or a share not between 0 and 1.
    """
    if not 0 <= filled <= size:
        raise FileFormatError(
            f"{name}: filled is {short_repr(filled)} of {size} ids", expected=f"0 to {size}"
        )
    for source, share in coverage.items():
        if not 0 <= share <= 1:
            raise FileFormatError(
                f"{name}: coverage of {short_repr(source)} is {short_repr(share)}",
                expected="0 to 1",
            )
