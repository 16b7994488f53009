"""Plans of a build: sources and tokenizer → shards with fingerprints, and the plan file.

`plan` writes the file, and `count`, `status` and `merge` of other processes read it. It names
shards by file and range, with the size, time and sampled hash of each file, so that a process that
counts later notices a file or a tokenizer that changed.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from vocabfreq.corpus.files import STDIN, Format, InputFile, Piece
from vocabfreq.corpus.hub_datasets import HubFile, Split, StreamedFile, is_data_set
from vocabfreq.corpus.layouts import FoundLayout, Layout
from vocabfreq.corpus.sources import Shard, Source, parse_source, plan_source
from vocabfreq.counting.shard import WorkerConfig
from vocabfreq.errors import FileFormatError, MismatchError, OverwriteError, SourceError
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.tokenizer.chat_template import ChatTemplate, read_template_file
from vocabfreq.tokenizer.encoders import EncoderName
from vocabfreq.tokenizer.info import TokenizerInfo, load_tokenizer
from vocabfreq.tokenizer.rendering import TurnRenderer

FORMAT = 2
PARTIAL_FORMAT = 3  # raise it when a shard would count to something else, or be kept otherwise
MAX_PLAN_BYTES = 1 << 30
EngineName = Literal["local", "ray"]


@dataclass(frozen=True)
class CountOptions:
    """Options of a count.

    Attributes:
        holdout: one document in this many is held out, 0 for none.
        encoder: `auto`, `gigatoken` or `tokenizers`.
        workers: processes; None for one a core, 0 for this process.
        weights: source name → weight, None to rank by raw counts.
        work_dir: where partial files go; None for a temporary folder (nothing to resume).
        engine: `local`, worker processes of this machine, or `ray`.
        address: of the Ray cluster, None for one on this machine.
        model_config: folder or repo with the model's `config.json`, as `load_tokenizer` takes it;
            None for the one beside the tokenizer. A plan file keeps it.
        chat_template: `auto` for the tokenizer's own, a Jinja file, or `off` to count the text of
            conversations as the rows have it.
    """

    holdout: int = 50
    encoder: EncoderName = "auto"
    workers: int | None = None
    weights: Mapping[str, float] | None = None
    work_dir: Path | None = None
    engine: EngineName = "local"
    address: str | None = None
    model_config: str | None = None
    chat_template: str = "auto"

    def __post_init__(self) -> None:
        """Checks the values.

        Raises:
            SourceError: naming the option and its value.
        """
        if not _is_integer(self.holdout, 0) or self.holdout == 1:
            expected = "0 for none, or a whole number from 2 (1 would hold out everything)"
            raise SourceError(f"holdout {self.holdout!r}", expected=expected)
        for name, choices in (("encoder", EncoderName), ("engine", EngineName)):
            value = getattr(self, name)
            if value not in get_args(choices):
                expected = f"one of {', '.join(get_args(choices))}"
                raise SourceError(f"{name} {value!r}", expected=expected)
        if self.address is not None and self.engine != "ray":
            raise SourceError(
                f"address {self.address!r}", expected="None, unless the engine is ray"
            )
        if self.workers is not None and not _is_integer(self.workers, 0):
            raise SourceError(
                f"workers {self.workers!r}", expected="a whole number from 0, or None"
            )
        weights = dict(self.weights or {})
        for name, weight in weights.items():
            if not 0 <= weight < float("inf"):
                raise SourceError(f"weight of {name!r} {weight!r}", expected="a number from 0")
        if weights and not any(weights.values()):
            raise SourceError(f"weights {weights!r}", expected="one above 0")
        if self.work_dir is not None:
            object.__setattr__(self, "work_dir", Path(self.work_dir))


def _is_integer(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True)
class Plan:
    """What a build counts.

    Attributes:
        sources: the sources, names unique.
        shards: all shards, sources in order.
        keys: the fingerprint of each shard; equal ones have equal counts.
        tokenizer: the tokenizer.
        tokenizer_spec: the tokenizer as `load_tokenizer` takes it.
        options: the options of the count.
        layouts: of each source what is counted and what is not; empty for a plan from a file.
        remarks: what a person should know before the count.
    """

    sources: tuple[Source, ...]
    shards: tuple[Shard, ...]
    keys: tuple[str, ...]
    tokenizer: TokenizerInfo
    tokenizer_spec: str
    options: CountOptions = field(default_factory=CountOptions)
    layouts: tuple[FoundLayout, ...] = field(default=(), compare=False)
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def worker_config(self) -> WorkerConfig:
        """What all shards share."""
        return _worker_config(self.tokenizer, self.options, self.shards)

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
    sources: Sequence[str | Source],
    tokenizer: str | TokenizerInfo,
    options: CountOptions | None = None,
) -> Plan:
    """Cuts every source into shards.

    Args:
        sources: `[NAME=]SPEC` strings, or `Source` objects.
        tokenizer: folder, tokenizer.json, Hub repo, or what `load_tokenizer` returned.
        options: the options of the count.

    Raises:
        SourceError: a source does not exist or is unclear, or two have one name.
        TokenizerError: the tokenizer cannot be used.
    """
    options = options or CountOptions()
    if isinstance(tokenizer, TokenizerInfo):
        info = tokenizer
        spec = str(info.path) if info.revision is None else info.name
    else:
        info, spec = load_tokenizer(tokenizer, options.model_config), tokenizer
    given = [sources] if isinstance(sources, str | Source | Path) else sources
    parsed = tuple(s if isinstance(s, Source) else parse_source(str(s)) for s in given)
    _check_names(parsed, options.weights or {})
    planned = [plan_source(n, source) for n, source in enumerate(parsed)]
    shards = tuple(shard for found in planned for shard in found.shards)
    config = _worker_config(info, options, shards)
    if config.template is not None:
        with TurnRenderer(config.template) as renderer:
            renderer.check()
    keys = tuple(_fingerprint(shard, config) for shard in shards)
    layouts = tuple(found.layout for found in planned)
    remarks = [*info.remarks, *(remark for found in planned for remark in found.remarks)]
    remarks += _repeated_files(parsed, shards)
    if options.chat_template == "auto" and info.chat_template is None:
        chats = [
            s.name for s, f in zip(parsed, planned, strict=True) if f.layout.layout.is_rendered
        ]
        if chats:
            remarks.append(
                f"{info.name} has no chat template: of {', '.join(chats)} the text of the rows is "
                "counted, without the end of a turn and the markup of calls (--chat-template FILE)"
            )
    return Plan(parsed, shards, keys, info, spec, options, layouts, tuple(remarks))


def _repeated_files(sources: tuple[Source, ...], shards: Iterable[Shard]) -> list[str]:
    """A remark for each file that is counted more than once."""
    twice: dict[str, list[str]] = {}
    for shard in shards:
        for piece in shard.pieces:
            path = piece.file.path
            if piece.start == 0 and not piece.file.is_stream and "://" not in path:
                name = f"{path!r} of {sources[shard.source].name}"
                twice.setdefault(os.path.realpath(path), []).append(name)
    return [
        f"{os.path.basename(path)} is counted {len(names)} times: {' and '.join(names[:4])}"
        for path, names in twice.items()
        if len(names) > 1
    ]


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


def _worker_config(
    info: TokenizerInfo, options: CountOptions, shards: Iterable[Shard]
) -> WorkerConfig:
    template = _chat_template(info, options.chat_template)
    if not any(shard.layout.is_rendered for shard in shards):
        template = None
    config = WorkerConfig(info.path, info.sha256, info.rows, options.holdout, options.encoder)
    return replace(config, template=template)


def _chat_template(info: TokenizerInfo, choice: str) -> ChatTemplate | None:
    """The template that a build applies.

    Raises:
        TokenizerError: the file cannot be read.
    """
    if choice in ("auto", "off"):
        return info.chat_template if choice == "auto" else None
    own = info.chat_template
    return read_template_file(Path(choice), own.tokens if own else (), info.special_tokens)


def _fingerprint(shard: Shard, config: WorkerConfig) -> str:
    """The name of a shard's partial file; shards with equal ones have equal counts."""
    options: list[Any] = [config.sha256, config.rows, config.holdout, config.encoder]
    if config.template is not None and shard.layout.is_rendered:
        options += [config.template.source, config.template.tokens, config.template.ends]
    identity = [PARTIAL_FORMAT, shard.identity, *options]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def absolute_sources(sources: Sequence[Source]) -> list[Source]:
    """Sources that other processes, in other folders, find: local paths become absolute.

    Raises:
        SourceError: one is standard input, which no other process can read.
    """
    if any(source.spec == STDIN for source in sources):
        raise SourceError(
            "standard input in a plan", expected="files", hint="build can read it in one process"
        )
    return [
        source if is_data_set(source.spec) else replace(source, spec=os.path.abspath(source.spec))
        for source in sources
    ]


class _ShardRecord(msgspec.Struct, frozen=True):
    """A shard; pieces are [file, start, stop, size], files and layouts by index."""

    key: str
    source: int
    layout: int
    pieces: list[tuple[int, int, int | None, int]]
    first: bool


class _FileRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An `InputFile`; one on the Hub has `remote`, one that `datasets` streams a `split` too."""

    path: str
    format: Format
    compression: str | None
    size: int
    stamp: str
    remote: bool = False
    split: Split | None = None
    number: int = 0


class _PlanRecord(msgspec.Struct, frozen=True):
    """A plan file; each file and layout is listed once."""

    format: int
    vocabfreq: str
    tokenizer: str
    model_config: str | None
    sha256: str
    rows: int
    holdout: int
    encoder: EncoderName
    weights: dict[str, float] | None
    work_dir: str
    chat_template: str
    sources: list[Source]
    layouts: list[Layout]
    files: list[_FileRecord]
    shards: list[_ShardRecord]


def save_plan(plan: Plan, path: Path) -> None:
    """Writes a plan that has a work directory, whole or not at all."""
    options = plan.options
    assert options.work_dir is not None
    files = dict.fromkeys(piece.file for shard in plan.shards for piece in shard.pieces)
    indices = {file: n for n, file in enumerate(files)}
    layouts = list(dict.fromkeys(shard.layout for shard in plan.shards))
    shards = []
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        pieces = [(indices[p.file], p.start, p.stop, p.size) for p in shard.pieces]
        layout = layouts.index(shard.layout)
        shards.append(_ShardRecord(key, shard.source, layout, pieces, shard.first))
    config = options.model_config
    record = _PlanRecord(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=_lasting_spec(plan.tokenizer_spec, plan.tokenizer.revision),
        model_config=None if config is None else _lasting_spec(config, None),
        sha256=plan.tokenizer.sha256,
        rows=plan.tokenizer.rows,
        holdout=options.holdout,
        encoder=options.encoder,
        weights=None if options.weights is None else dict(options.weights),
        work_dir=str(options.work_dir.absolute()),
        chat_template=_lasting_template(options.chat_template),
        sources=list(plan.sources),
        layouts=layouts,
        files=[_file_record(file) for file in files],
        shards=shards,
    )
    write_atomically(path, msgspec.json.format(msgspec.json.encode(record), indent=1))


def _lasting_spec(spec: str, revision: str | None) -> str:
    """A spec that means the same from another folder, and at another time."""
    if Path(spec).exists():
        return str(Path(spec).absolute())
    return spec if revision is None else f"{spec.split('@')[0]}@{revision}"


def _lasting_template(choice: str) -> str:
    return choice if choice in ("auto", "off") else str(Path(choice).absolute())


def _file_record(file: InputFile) -> _FileRecord:
    split, number = getattr(file, "split", None), getattr(file, "number", 0)
    remote = isinstance(file, HubFile | StreamedFile)
    return _FileRecord(
        file.path, file.format, file.compression, file.size, file.stamp, remote, split, number
    )


def check_plan_path(path: Path) -> None:
    """Refuses to replace a file that is no plan.

    Raises:
        OverwriteError: something else is in the way.
    """
    if not path.exists():
        return
    try:
        _read_record(path)
    except (FileFormatError, OSError):
        raise OverwriteError(
            f"{path} is in the way, and no plan", hint="choose another --output"
        ) from None


def load_plan(path: Path) -> Plan:
    """Reads a plan.

    Raises:
        FileFormatError: it is no plan, or its parts do not fit together.
        MismatchError: the tokenizer has changed.
        TokenizerError: the tokenizer is gone.
    """
    record = _read_record(path)
    info = load_tokenizer(record.tokenizer, record.model_config)
    for attribute in ("sha256", "rows"):
        planned, found = getattr(record, attribute), getattr(info, attribute)
        if planned != found:
            raise MismatchError(
                f"{record.tokenizer} has {attribute} {found}, {path} was made with {planned}",
                expected="the tokenizer and model of the plan",
                hint="make the plan anew, or put the tokenizer back",
            )
    options = CountOptions(
        holdout=record.holdout,
        encoder=record.encoder,
        weights=record.weights,
        work_dir=Path(record.work_dir),
        model_config=record.model_config,
        chat_template=record.chat_template,
    )
    try:
        shards = _restore_shards(record)
    except IndexError:
        raise _damaged(path, "a shard names a file, source or layout that is not there") from None
    keys = tuple(shard.key for shard in record.shards)
    config = _worker_config(info, options, shards)
    for key, shard in zip(keys, shards, strict=True):
        if _fingerprint(shard, config) != key:
            raise _damaged(path, f"the fingerprint of {shard.name} is not that of what it names")
    return Plan(tuple(record.sources), shards, keys, info, record.tokenizer, options)


def _read_record(path: Path) -> _PlanRecord:
    if not path.is_file():
        raise FileFormatError(f"no file {str(path)!r}", hint="vocabfreq plan … makes one")
    if path.stat().st_size > MAX_PLAN_BYTES:
        raise _damaged(path, f"it has more than {MAX_PLAN_BYTES:,} bytes")
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_PlanRecord)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, str(error)) from None
    if record.format != FORMAT:
        raise _damaged(path, f"its format is {record.format}, this version reads {FORMAT}")
    if not record.shards or not record.sources:
        raise _damaged(path, "it has no shards")
    return record


def _damaged(path: Path, why: str) -> FileFormatError:
    return FileFormatError(
        f"{str(path)!r} is no plan that can be used: {why}",
        hint="make it anew: vocabfreq plan … -o plan.json",
    )


def _restore_shards(record: _PlanRecord) -> tuple[Shard, ...]:
    """The shards of a plan file.

    Raises:
        IndexError: one names a file, layout or source that is not there.
    """
    files = [_restore_file(file) for file in record.files]
    shards = []
    for shard in record.shards:
        if min(shard.source, shard.layout, *(piece[0] for piece in shard.pieces)) < 0:
            raise IndexError  # Python would take the last one for -1
        source, layout = record.sources[shard.source], record.layouts[shard.layout]
        pieces = tuple(Piece(files[n], start, stop, size) for n, start, stop, size in shard.pieces)
        limits = (source.separator, source.max_documents)
        shards.append(Shard(shard.source, pieces, layout, *limits, shard.first))
    return tuple(shards)


def _restore_file(record: _FileRecord) -> InputFile:
    common = (record.path, record.format, record.compression, record.size, record.stamp)
    if record.split is not None:
        return StreamedFile(*common, record.split, record.number)
    return HubFile(*common) if record.remote else InputFile(*common)
