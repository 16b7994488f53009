"""How far a plan is counted."""

from dataclasses import asdict, dataclass
from typing import Any

from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan


@dataclass
class SourceStanding:
    """Of one source.

    Attributes:
        name: of the source.
        shards: planned; likewise `bytes`, about.
        counted: shards that have a whole partial file; likewise `counted_bytes`.
    """

    name: str
    shards: int = 0
    counted: int = 0
    bytes: int = 0
    counted_bytes: int = 0


@dataclass(frozen=True)
class Standing:
    """Of all sources, and the names of the shards that are missing or damaged."""

    sources: tuple[SourceStanding, ...]
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        sources = [asdict(source) for source in self.sources]
        return {"sources": sources, "missing": list(self.missing), "done": not self.missing}


def standing_of(plan: Plan) -> Standing:
    """Looks at the partial file of every shard."""
    assert plan.options.work_dir is not None
    sources = tuple(SourceStanding(source.name) for source in plan.sources)
    missing = []
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        source = sources[shard.source]
        source.shards, source.bytes = source.shards + 1, source.bytes + shard.size
        if load_partial(partial_path(plan.options.work_dir, key)) is None:
            missing.append(shard.name)
        else:
            source.counted += 1
            source.counted_bytes += shard.size
    return Standing(sources, tuple(missing))
