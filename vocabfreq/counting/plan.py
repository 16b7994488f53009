"""A build on paper: sources and tokenizer → shards with fingerprints, and what changed since.

What a plan file says: files, sources, layouts and shards, each file once.

A plan as a file: what `plan` writes, and `count`, `status` and `merge` of other processes read.

It names shards by file and range, with the size, time and sampled hash that each file had; whoever
counts later notices a file or a tokenizer that is another one by then.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from vocabfreq.corpus.files import STDIN, Format, InputFile
from vocabfreq.corpus.hub_datasets import HubFile, Split, StreamedFile, is_data_set
from vocabfreq.corpus.layouts import Layout
from vocabfreq.corpus.readers import Piece
from vocabfreq.corpus.sources import Shard, Source, parse_source, plan_source
from vocabfreq.counting.shard import Job
from vocabfreq.errors import FileFormatError, MismatchError, OverwriteError, SourceError
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.tokenizer.encoders import EncoderName
from vocabfreq.tokenizer.info import TokenizerInfo, load_tokenizer

PARTIAL_FORMAT = 2  # raise it when a shard would count to something else, or be kept otherwise
EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class CountOptions:
    """How to count.

    Attributes:
        holdout: one document in this many is held out, 0 for none.
        encoder: `auto`, `gigatoken` or `tokenizers`.
        workers: processes; None for one a core, 0 for this process.
        weights: source name → weight, None to rank by raw counts.
        work_dir: where partial files go; None for a temporary folder (nothing to resume).
        engine: `local`, worker processes of this machine, or `ray`.
        address: of the Ray cluster, None for one on this machine.
    """

    holdout: int = 50
    encoder: EncoderName = "auto"
    workers: int | None = None
    weights: Mapping[str, float] | None = None
    work_dir: Path | None = None
    engine: EngineName = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        """Refuses what makes no sense.

        Raises:
            SourceError: naming the option and its value.
        """
        _refuse(not _whole(self.holdout, 0) or self.holdout == 1, "holdout", self.holdout, _HOLDOUT)
        _refuse(self.encoder not in get_args(EncoderName), "encoder", self.encoder, _ENCODERS)
        _refuse(self.engine not in get_args(EngineName), "engine", self.engine, "local or ray")
        idle = self.address is not None and self.engine != "ray"
        _refuse(idle, "address", self.address, "None, unless the engine is ray")
        wrong = self.workers is not None and not _whole(self.workers, 0)
        _refuse(wrong, "workers", self.workers, "a whole number from 0, or None")
        weights = self.weights or {}
        for name, weight in weights.items():
            _refuse(
                not 0 <= weight < float("inf"), f"weight of {name!r}", weight, "a number from 0"
            )
        _refuse(weights and not any(weights.values()), "weights", dict(weights), "one above 0")
        if self.work_dir is not None:
            object.__setattr__(self, "work_dir", Path(self.work_dir))


_HOLDOUT = "0 for none, or a whole number from 2 (1 would hold out everything)"
_ENCODERS = f"one of {', '.join(get_args(EncoderName))}"


def _whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _refuse(wrong: Any, name: str, value: Any, expected: str) -> None:
    if wrong:
        raise SourceError(f"{name} {value!r}", expected=expected)


@dataclass(frozen=True)
class Plan:
    """What is to be counted.

    Attributes:
        sources: as asked for, names unique.
        shards: all shards, sources in order.
        keys: the fingerprint of each shard; equal ones count to the same.
        tokenizer: the tokenizer.
        job: what all shards share.
    """

    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]
    keys: tuple[str, ...]
    tokenizer: TokenizerInfo
    job: Job
    options: CountOptions = field(default_factory=CountOptions)

    @property
    def bytes(self) -> int:
        """About how many bytes will be read."""
        return sum(shard.size for shard in self.shards)

    def files(self, source: int) -> tuple[str, ...]:
        """Publishable names of a source's files, in plan order, each once."""
        files = [p.file for s in self.shards if s.source == source for p in s.pieces]
        names = dict.fromkeys(f.path if "://" in f.path else f.name for f in files)
        return tuple(names)


def make_plan(
    sources: Sequence[str | Source], tokenizer: TokenizerInfo, options: CountOptions
) -> Plan:
    """Looks at every source and cuts it into shards.

    Raises:
        SourceError: a source is not there, is unclear, or two are called alike.
    """
    given = [sources] if isinstance(sources, str | Source | Path) else sources
    parsed = tuple(s if isinstance(s, Source) else parse_source(str(s)) for s in given)
    _check_names(parsed, options.weights or {})
    job = Job(tokenizer.path, tokenizer.sha256, tokenizer.rows, options.holdout, options.encoder)
    shards = tuple(s for n, source in enumerate(parsed) for s in plan_source(n, source))
    keys = tuple(fingerprint(shard, job) for shard in shards)
    return Plan(parsed, shards, keys, tokenizer, job, options)


def _check_names(sources: tuple[Source, ...], weights: Mapping[str, float]) -> None:
    names = [source.name for source in sources]
    if not names:
        raise SourceError("no source", hint="name at least one with --source")
    for name in names:
        if names.count(name) > 1:
            raise SourceError(
                f"two sources are called {name!r}",
                expected="a name for each",
                hint="write --source NAME=SPEC",
            )
    if sum(source.spec == STDIN for source in sources) > 1:
        raise SourceError("two sources are standard input", expected="one: it can be read once")
    for name in weights:
        if name not in names:
            raise SourceError(f"a weight for {name!r}", expected=f"one of {', '.join(names)}")


def fingerprint(shard: Shard, job: Job) -> str:
    """What the partial file of a shard is called: equal ones count to the same."""
    identity = [PARTIAL_FORMAT, shard.identity, job.sha256, job.rows, job.holdout, job.encoder]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


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


LARGEST = 1 << 30


def save_plan(plan: Plan, path: Path, tokenizer: str, model_config: str | None) -> None:
    """Writes a plan, whole or not at all.

    Args:
        plan: with a work directory.
        path: where to.
        tokenizer: what `load_tokenizer` was given.
        model_config: likewise.
    """
    record = record_of(
        plan,
        _lasting(tokenizer, plan.tokenizer.revision),
        None if model_config is None else _lasting(model_config, None),
    )
    write_atomically(path, msgspec.json.format(msgspec.json.encode(record), indent=1))


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
        shards = shards_of(told)
    except IndexError:
        raise _damaged(path, "a shard names a file, source or layout that is not there") from None
    keys = tuple(shard.key for shard in told.shards)
    for key, shard in zip(keys, shards, strict=True):
        if fingerprint(shard, job) != key:
            raise _damaged(path, f"the fingerprint of {shard.name} is not that of what it names")
    return Plan(tuple(told.sources), shards, keys, info, job, options)


def _read(path: Path) -> PlanRecord:
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}", hint="vocabfreq plan … makes one")
    if path.stat().st_size > LARGEST:
        raise _damaged(path, f"it has more than {LARGEST:,} bytes")
    try:
        told = msgspec.json.decode(path.read_bytes(), type=PlanRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None
    if told.format != FORMAT:
        raise _damaged(path, f"its format is {told.format}, this version reads {FORMAT}")
    if not told.shards or not told.sources:
        raise _damaged(path, "it has no shards")
    return told


def _check_tokenizer(path: Path, told: PlanRecord, info: TokenizerInfo) -> None:
    for what in ("sha256", "rows"):
        planned, found = getattr(told, what), getattr(info, what)
        if planned != found:
            raise MismatchError(
                f"{told.tokenizer} has {what} {found}, {path} was made with {planned}",
                expected="the tokenizer and model of the plan",
                hint="make the plan anew, or put the tokenizer back",
            )


def _damaged(path: Path, why: Any) -> FileFormatError:
    return FileFormatError(
        f"{str(path)!r} is no plan that can be used: {why}",
        hint="make it anew: vocabfreq plan … -o plan.json",
    )
