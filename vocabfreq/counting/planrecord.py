"""What a plan file says: files, sources, layouts and shards, each file once."""

from importlib.metadata import version

import msgspec

from vocabfreq.corpus.files import Format, InputFile
from vocabfreq.corpus.hub_files import HubFile, Split, StreamedFile
from vocabfreq.corpus.layouts import Layout
from vocabfreq.corpus.readers import Piece
from vocabfreq.corpus.sources import Shard, Source
from vocabfreq.counting.plan import Plan

FORMAT = 1


class _Shard(msgspec.Struct, frozen=True):
    """A shard; pieces are [file, start, stop, size], files by their place in the list."""

    key: str
    source: int
    layout: int
    pieces: list[tuple[int, int, int | None, int]]
    first: bool


class _File(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `InputFile`; one on the Hub has `remote`, one that `datasets` streams a `split` too."""

    path: str
    format: Format
    compression: str | None
    size: int
    stamp: str
    remote: bool = False
    split: Split | None = None
    number: int = 0


class PlanRecord(msgspec.Struct, frozen=True):
    """A plan file; `tokenizer` and `model_config` are what `load_tokenizer` is given."""

    format: int
    vocabfreq: str
    tokenizer: str
    model_config: str | None
    sha256: str
    rows: int
    holdout: int
    encoder: str
    weights: dict[str, float] | None
    work_dir: str
    sources: list[Source]
    layouts: list[Layout]
    files: list[_File]
    shards: list[_Shard]


def record_of(plan: Plan, tokenizer: str, model_config: str | None) -> PlanRecord:
    """The record of a plan that has a work directory."""
    assert plan.options.work_dir is not None
    files = dict.fromkeys(piece.file for shard in plan.shards for piece in shard.pieces)
    file_at = {file: n for n, file in enumerate(files)}
    layouts = list(dict.fromkeys(shard.layout for shard in plan.shards))
    return PlanRecord(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=tokenizer,
        model_config=model_config,
        sha256=plan.job.sha256,
        rows=plan.job.rows,
        holdout=plan.job.holdout,
        encoder=plan.job.encoder,
        weights=None if plan.options.weights is None else dict(plan.options.weights),
        work_dir=str(plan.options.work_dir.absolute()),
        sources=list(plan.sources),
        layouts=layouts,
        files=[_told(file) for file in files],
        shards=[
            _Shard(
                key,
                shard.source,
                layouts.index(shard.layout),
                [(file_at[p.file], p.start, p.stop, p.size) for p in shard.pieces],
                shard.first,
            )
            for key, shard in zip(plan.keys, plan.shards, strict=True)
        ],
    )


def shards_of(record: PlanRecord) -> tuple[Shard, ...]:
    """The shards.

    Raises:
        IndexError: one names a file, layout or source that is not there.
    """
    files = [_file(file) for file in record.files]
    return tuple(_shard(record, files, shard) for shard in record.shards)


def _told(file: InputFile) -> _File:
    split, number = getattr(file, "split", None), getattr(file, "number", 0)
    remote = isinstance(file, HubFile | StreamedFile)
    return _File(
        file.path, file.format, file.compression, file.size, file.stamp, remote, split, number
    )


def _file(told: _File) -> InputFile:
    common = (told.path, told.format, told.compression, told.size, told.stamp)
    if told.split is not None:
        return StreamedFile(*common, told.split, told.number)
    return HubFile(*common) if told.remote else InputFile(*common)


def _shard(record: PlanRecord, files: list[InputFile], shard: _Shard) -> Shard:
    source = record.sources[_place(shard.source)]
    pieces = tuple(
        Piece(files[_place(n)], start, stop, size) for n, start, stop, size in shard.pieces
    )
    layout = record.layouts[_place(shard.layout)]
    return Shard(shard.source, pieces, layout, source.separator, source.max_documents, shard.first)


def _place(number: int) -> int:
    """Python would take the last one for -1."""
    if number < 0:
        raise IndexError(number)
    return number
