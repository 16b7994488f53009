"""Merges the metadata of two frequency tables; tables of different tokenizers are refused."""

from typing import Any

import msgspec

from vocabfreq.errors import MismatchError, RefusedError
from vocabfreq.frequencies.metadata import EncoderRecord, Metadata, SourceRecord


def merge_metadata(a: Metadata, b: Metadata) -> Metadata:
    """The metadata of a table that has the sources of both.

    Raises:
        MismatchError: the tokenizers differ.
        RefusedError: a source is in both, by content.
    """
    check_same_tokenizer(a, b)
    ids = {
        name: tuple(sorted({*getattr(a, name), *getattr(b, name)}))
        for name in ("special_ids", "stop_ids", "template_ids", "byte_ids")
    }
    return msgspec.structs.replace(
        a,
        sources=_merge_sources(a.sources, b.sources),
        options=_merge_options(a.options, b.options),
        encoder=merge_encoders(a.encoder, b.encoder),
        **ids,
    )


def check_same_tokenizer(a: Metadata, b: Metadata) -> None:
    """Refuses tables of two tokenizers.

    Raises:
        MismatchError: the sha256 of tokenizer.json or V differ; names both values.
    """
    for name in ("sha256", "rows"):
        value_a, value_b = getattr(a.tokenizer, name), getattr(b.tokenizer, name)
        if value_a != value_b:
            raise MismatchError(
                f"the tokenizers differ in {name}: {a.tokenizer.name} has {value_a}, "
                f"{b.tokenizer.name} has {value_b}",
                expected="tables of one tokenizer and one model",
                hint="count the corpus again with the tokenizer of the other table",
            )


def merge_encoders(a: EncoderRecord, b: EncoderRecord) -> EncoderRecord:
    """Names and versions of both encoders joined by `+`, their cross-checks added up."""
    both = {*_name_versions(a), *_name_versions(b)}
    encoders = sorted(encoder for encoder in both if encoder[0] != "none") or [("none", "")]
    names, versions = zip(*encoders, strict=True)
    return EncoderRecord(
        name="+".join(names),
        version="+".join(versions),
        cross_checked_documents=a.cross_checked_documents + b.cross_checked_documents,
        mismatched_documents=a.mismatched_documents + b.mismatched_documents,
        code_points=tuple(sorted({*a.code_points, *b.code_points})),
    )


def _name_versions(record: EncoderRecord) -> list[tuple[str, str]]:
    return list(zip(record.name.split("+"), record.version.split("+"), strict=False))


def _merge_sources(
    a: tuple[SourceRecord, ...], b: tuple[SourceRecord, ...]
) -> tuple[SourceRecord, ...]:
    """Sources of both; of two different ones with the same name, the second gets a number."""
    sources = list(a)
    for source in b:
        twin = next((s for s in sources if s.sha256 == source.sha256 and s.tokens), None)
        if twin is not None:
            raise RefusedError(
                f"source {source.name!r} is in both tables, with the same content"
                + (f" as {twin.name!r}" if twin.name != source.name else ""),
                hint="counting it twice would double its weight; leave one of the files out",
            )
        taken = {s.name for s in sources}
        names = [source.name, *(f"{source.name}-{n}" for n in range(2, len(taken) + 3))]
        name = next(name for name in names if name not in taken)
        sources.append(msgspec.structs.replace(source, name=name))
    return tuple(sources)


def _merge_options(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Equal options stay as they are; different ones become lists of both values."""
    merged: dict[str, Any] = {}
    for key in sorted({*a, *b}):
        values = [options[key] for options in (a, b) if key in options]
        flat = [v for value in values for v in (value if isinstance(value, list) else [value])]
        unique = [v for i, v in enumerate(flat) if v not in flat[:i]]
        merged[key] = unique[0] if len(unique) == 1 else unique
    return merged
