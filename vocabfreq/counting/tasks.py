"""Tasks: one shard to count, and what came of it."""

from dataclasses import dataclass
from pathlib import Path

from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.partial_files import save_partial
from vocabfreq.counting.shard import ShardCounter
from vocabfreq.counting.shardcount import ShardCount
from vocabfreq.errors import CountError, VocabfreqError, WorkDirError
from vocabfreq.storage.resolve import first_line


@dataclass(frozen=True)
class Task:
    """One shard to count.

    Attributes:
        key: its fingerprint.
        shard: the shard.
        path: where its partial file goes.
    """

    key: str
    shard: Shard
    path: Path


@dataclass(frozen=True)
class Done:
    """What the parent is told of a counted shard.

    Attributes:
        size: bytes of the files that it took up, about.
        documents: documents counted.
        tokens: tokens counted.
        bytes: UTF-8 bytes of the text counted.
    """

    size: int
    documents: int
    tokens: int
    bytes: int


@dataclass(frozen=True)
class Remark:
    """Something that a person should hear while counting goes on."""

    text: str


def first_remark(counter: ShardCounter, task: Task) -> Remark | None:
    """What there is to say of the engine, once it is known; nothing for sources of ids.

    Raises:
        VocabfreqError: the tokenizer cannot be loaded.
    """
    if task.shard.layout.kind == "ids" or not counter.engines.encoder.remark:
        return None
    return Remark(counter.engines.encoder.remark)


def run_task(counter: ShardCounter, task: Task) -> Done:
    """Counts a shard and leaves its partial file.

    Raises:
        VocabfreqError: the shard cannot be counted.
    """
    try:
        count = counter.count(task.shard)
        _save(task, count)
    except VocabfreqError:
        raise
    except Exception as error:  # whatever a reader or a disk came up with
        raise CountError(f"{task.shard.name}: {first_line(error)}") from error
    return Done(task.shard.size, count.documents, count.tokens, count.bytes)


def _save(task: Task, count: ShardCount) -> None:
    try:
        save_partial(task.path, count, task.shard.name)
    except IsADirectoryError:
        raise WorkDirError(
            f"{task.path} is a folder", expected="a partial file", hint="remove or rename it"
        ) from None
    except OSError as error:
        raise WorkDirError(
            f"cannot write into {task.path.parent}: {error.strerror}",
            hint="what is counted is kept: make room, or name another --work-dir, and run it again",
        ) from None
