"""A plan as a file: what `plan` writes, and `count`, `status` and `merge` of other processes read.

It names shards by file and range, with the size, time and sampled hash that each file had; whoever
counts later notices a file or a tokenizer that is another one by then.
"""

import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from vocabfreq.atomic import write_atomically
from vocabfreq.errors import FileFormatError, MismatchError, OverwriteError, SourceError
from vocabfreq.planning import CountOptions, Plan, fingerprint
from vocabfreq.shardcount import Job
from vocabfreq.sources.files import STDIN, Format, InputFile
from vocabfreq.sources.hub_data import is_data_set
from vocabfreq.sources.hub_files import HubFile, Split, StreamedFile
from vocabfreq.sources.layout import Layout
from vocabfreq.sources.plan import Shard, Source
from vocabfreq.sources.readers import Piece
from vocabfreq.tokenizer import TokenizerInfo, load_tokenizer

FORMAT = 1
LARGEST = 1 << 30


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


class _PlanFile(msgspec.Struct, frozen=True):
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


def save_plan(plan: Plan, path: Path, tokenizer: str, model_config: str | None) -> None:
    """Writes a plan, whole or not at all.

    Args:
        plan: with a work directory.
        path: where to.
        tokenizer: what `load_tokenizer` was given.
        model_config: likewise.
    """
    assert plan.options.work_dir is not None
    files = dict.fromkeys(piece.file for shard in plan.shards for piece in shard.pieces)
    file_at = {file: n for n, file in enumerate(files)}
    layouts = list(dict.fromkeys(shard.layout for shard in plan.shards))
    told = _PlanFile(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=_lasting(tokenizer, plan.tokenizer.revision),
        model_config=None if model_config is None else _lasting(model_config, None),
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
    write_atomically(path, msgspec.json.format(msgspec.json.encode(told), indent=1))


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


def check_plan_place(path: Path) -> None:
    """Refuses to replace what is no plan.

    Raises:
        OverwriteError: something else is in the way.
    """
    if not path.exists():
        return
    try:
        _read(path)
    except (FileFormatError, OSError):
        raise OverwriteError(
            f"{path} is in the way, and no plan", hint="choose another --output"
        ) from None


def lasting_sources(sources: list[Source]) -> list[Source]:
    """Sources whose local files can be found from another folder.

    Raises:
        SourceError: one is standard input, which nobody else can read.
    """
    if any(source.spec == STDIN for source in sources):
        raise SourceError(
            "standard input in a plan", expected="files", hint="build can read it in one process"
        )
    return [
        source if is_data_set(source.spec) else replace(source, spec=os.path.abspath(source.spec))
        for source in sources
    ]


def _lasting(spec: str, revision: str | None) -> str:
    """A spec that means the same from another folder, and tomorrow."""
    if Path(spec).exists():
        return str(Path(spec).absolute())
    return spec if revision is None else f"{spec.split('@')[0]}@{revision}"


def load_plan(path: Path) -> Plan:
    """Reads a plan.

    Raises:
        FileFormatError: it is none, or does not hold together.
        MismatchError: the tokenizer is another one by now.
        TokenizerError: it is not there any more.
    """
    told = _read(path)
    info = load_tokenizer(told.tokenizer, told.model_config)
    _check_tokenizer(path, told, info)
    job = Job(info.path, told.sha256, told.rows, told.holdout, told.encoder)  # type: ignore[arg-type]
    options = CountOptions(
        holdout=told.holdout,
        encoder=job.encoder,
        weights=told.weights,
        work_dir=Path(told.work_dir),
    )
    try:
        files = [_file(file) for file in told.files]
        shards = tuple(_shard(told, files, shard) for shard in told.shards)
    except IndexError:
        raise _damaged(path, "a shard names a file, source or layout that is not there") from None
    keys = tuple(shard.key for shard in told.shards)
    for key, shard in zip(keys, shards, strict=True):
        if fingerprint(shard, job) != key:
            raise _damaged(path, f"the fingerprint of {shard.name} is not that of what it names")
    return Plan(tuple(told.sources), shards, keys, info, job, options)


def _read(path: Path) -> _PlanFile:
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}", hint="vocabfreq plan … makes one")
    if path.stat().st_size > LARGEST:
        raise _damaged(path, f"it has more than {LARGEST:,} bytes")
    try:
        told = msgspec.json.decode(path.read_bytes(), type=_PlanFile)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None
    if told.format != FORMAT:
        raise _damaged(path, f"its format is {told.format}, this version reads {FORMAT}")
    if not told.shards or not told.sources:
        raise _damaged(path, "it has no shards")
    return told


def _check_tokenizer(path: Path, told: _PlanFile, info: TokenizerInfo) -> None:
    for what in ("sha256", "rows"):
        planned, found = getattr(told, what), getattr(info, what)
        if planned != found:
            raise MismatchError(
                f"{told.tokenizer} has {what} {found}, {path} was made with {planned}",
                expected="the tokenizer and model of the plan",
                hint="make the plan anew, or put the tokenizer back",
            )


def _shard(told: _PlanFile, files: list[InputFile], shard: _Shard) -> Shard:
    source = told.sources[_place(shard.source)]
    pieces = tuple(
        Piece(files[_place(n)], start, stop, size) for n, start, stop, size in shard.pieces
    )
    layout = told.layouts[_place(shard.layout)]
    return Shard(shard.source, pieces, layout, source.separator, source.max_documents, shard.first)


def _place(number: int) -> int:
    """Python would take the last one for -1."""
    if number < 0:
        raise IndexError(number)
    return number


def _damaged(path: Path, why: Any) -> FileFormatError:
    return FileFormatError(
        f"{str(path)!r} is no plan that can be used: {why}",
        hint="make it anew: vocabfreq plan … -o plan.json",
    )
