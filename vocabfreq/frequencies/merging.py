"""One record for two tables that are put side by side; tables of two tokenizers are refused."""

from typing import Any

import msgspec

from vocabfreq.errors import MismatchError, RefusedError
from vocabfreq.frequencies.metadata import EncoderRecord, Metadata, SourceRecord


def merged_metadata(a: Metadata, b: Metadata) -> Metadata:
    """The metadata of both tables' sources side by side.

    Raises:
        MismatchError: the tokenizers differ.
        RefusedError: a source is in both, by name and content.
    """
    check_same_tokenizer(a, b)
    ids = ("special_ids", "stop_ids", "template_ids", "byte_ids")
    return msgspec.structs.replace(
        a,
        sources=_side_by_side(a.sources, b.sources),
        options=_merged_options(a.options, b.options),
        encoder=merged_encoders(a.encoder, b.encoder),
        **{name: _union(getattr(a, name), getattr(b, name)) for name in ids},
    )


def check_same_tokenizer(a: Metadata, b: Metadata) -> None:
    """Refuses tables of two tokenizers.

    Raises:
        MismatchError: with both fingerprints.
    """
    for what in ("sha256", "rows"):
        mine, theirs = getattr(a.tokenizer, what), getattr(b.tokenizer, what)
        if mine != theirs:
            raise MismatchError(
                f"the tokenizers differ in {what}: {a.tokenizer.name} has {mine}, "
                f"{b.tokenizer.name} has {theirs}",
                expected="tables of one tokenizer and one model",
                hint="count the corpus again with the tokenizer of the other table",
            )


def merged_encoders(a: EncoderRecord, b: EncoderRecord) -> EncoderRecord:
    """One record for what two engines did."""
    engines = dict.fromkeys([*_engines(a), *_engines(b)])
    known = [engine for engine in engines if engine[0] != "none"] or [("none", "")]
    return EncoderRecord(
        name="+".join(name for name, _ in sorted(known)),
        version="+".join(version for _, version in sorted(known)),
        cross_checked_documents=a.cross_checked_documents + b.cross_checked_documents,
        mismatched_documents=a.mismatched_documents + b.mismatched_documents,
        code_points=tuple(sorted({*a.code_points, *b.code_points})),
    )


def _engines(record: EncoderRecord) -> list[tuple[str, str]]:
    return list(zip(record.name.split("+"), record.version.split("+"), strict=False))


def _side_by_side(
    mine: tuple[SourceRecord, ...], theirs: tuple[SourceRecord, ...]
) -> tuple[SourceRecord, ...]:
    sources = list(mine)
    for source in theirs:
        twin = next((s for s in sources if s.sha256 == source.sha256 and s.tokens), None)
        if twin is not None:
            raise RefusedError(
                f"source {source.name!r} is in both tables, with the same content"
                + (f" as {twin.name!r}" if twin.name != source.name else ""),
                hint="counting it twice would double its weight; leave one of the files out",
            )
        sources.append(_renamed(source, {s.name for s in sources}))
    return tuple(sources)


def _renamed(source: SourceRecord, taken: set[str]) -> SourceRecord:
    """Another content under a name that is taken gets a number, so that names stay unique."""
    names = [source.name, *(f"{source.name}-{n}" for n in range(2, len(taken) + 3))]
    return msgspec.structs.replace(source, name=next(n for n in names if n not in taken))


def _merged_options(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Options that agree stay; those that differ become lists of both."""
    merged: dict[str, Any] = {}
    for key in sorted({*a, *b}):
        values = [o[key] for o in (a, b) if key in o]
        flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
        unique = [v for i, v in enumerate(flat) if v not in flat[:i]]
        merged[key] = unique[0] if len(unique) == 1 else unique
    return merged


def _union(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted({*a, *b}))
