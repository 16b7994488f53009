"""A build on paper: sources and tokenizer → shards with fingerprints, and what changed since."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from vocabfreq.corpus.files import STDIN
from vocabfreq.corpus.sources import Shard, Source, parse_source, plan_source
from vocabfreq.counting.shardcount import Job
from vocabfreq.errors import SourceError
from vocabfreq.tokenizer.encoders import EncoderName
from vocabfreq.tokenizer.info import TokenizerInfo

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
