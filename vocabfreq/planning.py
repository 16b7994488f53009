"""A build on paper: sources and tokenizer → shards with fingerprints, and what changed since."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vocabfreq.atomic import write_atomically
from vocabfreq.encoding import EncoderName
from vocabfreq.errors import SourceError
from vocabfreq.shardcount import Job
from vocabfreq.sources.plan import Shard, Source, parse_source, plan_source
from vocabfreq.tokenizer import TokenizerInfo

MANIFEST = "build.json"
PARTIAL_FORMAT = 1  # raise it when the same shard would count to something else


@dataclass(frozen=True)
class CountOptions:
    """How to count.

    Attributes:
        holdout: one document in this many is held out, 0 for none.
        encoder: `auto`, `gigatoken` or `tokenizers`.
        workers: processes; None for one a core, 0 for this process.
        weights: source name → weight, None to rank by raw counts.
        work_dir: where partial files go; None for a temporary folder (nothing to resume).
    """

    holdout: int = 50
    encoder: EncoderName = "auto"
    workers: int | None = None
    weights: Mapping[str, float] | None = None
    work_dir: Path | None = None


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
    parsed = tuple(s if isinstance(s, Source) else parse_source(s) for s in sources)
    _check_names(parsed, options.weights or {})
    job = Job(tokenizer.path, tokenizer.sha256, tokenizer.rows, options.holdout, options.encoder)
    shards = tuple(s for n, source in enumerate(parsed) for s in plan_source(n, source))
    keys = tuple(_fingerprint(shard, job) for shard in shards)
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
    for name in weights:
        if name not in names:
            raise SourceError(f"a weight for {name!r}", expected=f"one of {', '.join(names)}")


def _fingerprint(shard: Shard, job: Job) -> str:
    identity = [PARTIAL_FORMAT, shard.identity, job.sha256, job.rows, job.holdout, job.encoder]
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def write_manifest(plan: Plan, work_dir: Path) -> list[str]:
    """Notes in the work directory what is being counted.

    Returns:
        What changed since an earlier build there, in words; its partial files are of no use.
    """
    path = work_dir / MANIFEST
    manifest = _manifest(plan)
    changes = _changes(_read(path), manifest)
    write_atomically(path, json.dumps(manifest, sort_keys=True, indent=1).encode())
    return changes


def _manifest(plan: Plan) -> dict[str, Any]:
    files = {p.file.path: p.file.stamp for shard in plan.shards for p in shard.pieces}
    layouts = sorted({f"{s.layout.kind} of {s.layout.column!r}" for s in plan.shards})
    return {
        "tokenizer": plan.job.sha256,
        "rows": plan.job.rows,
        "holdout": plan.job.holdout,
        "encoder": plan.job.encoder,
        "columns": layouts,
        "roles": sorted({source.roles for source in plan.sources}),
        "separator": sorted({repr(source.separator) for source in plan.sources}),
        "max_documents": sorted({repr(source.max_documents) for source in plan.sources}),
        "files": files,
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        loaded = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return loaded if isinstance(loaded, dict) else None


def _changes(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    if before is None:
        return []
    plain = [key for key in after if key != "files" and before.get(key) != after[key]]
    changes = [f"{key} was {before.get(key)}, is {after[key]}" for key in plain]
    earlier = before.get("files") or {}
    changed = [p for p, stamp in after["files"].items() if earlier.get(p, stamp) != stamp]
    return changes + [f"{Path(path).name} has another content" for path in changed]
