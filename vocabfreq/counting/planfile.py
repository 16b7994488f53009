"""A plan as a file: what `plan` writes, and `count`, `status` and `merge` of other processes read.

It names shards by file and range, with the size, time and sampled hash that each file had; whoever
counts later notices a file or a tokenizer that is another one by then.
"""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from vocabfreq.corpus.files import STDIN
from vocabfreq.corpus.hub_datasets import is_data_set
from vocabfreq.corpus.sources import Source
from vocabfreq.counting.plan import CountOptions, Plan, fingerprint
from vocabfreq.counting.planrecord import FORMAT, PlanRecord, record_of, shards_of
from vocabfreq.counting.shardcount import Job
from vocabfreq.errors import FileFormatError, MismatchError, OverwriteError, SourceError
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.tokenizer.info import TokenizerInfo, load_tokenizer

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
