"""Progress of a plan: shards counted and missing, per source."""

from dataclasses import asdict, dataclass
from typing import Any

from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan


@dataclass
class SourceProgress:
    """Progress of one source.

    Attributes:
        name: of the source.
        shards: number of planned shards.
        counted: number of shards with a partial file that is not damaged.
        bytes: about how many bytes the planned shards have.
        counted_bytes: about how many of them are counted.
    """

    name: str
    shards: int = 0
    counted: int = 0
    bytes: int = 0
    counted_bytes: int = 0


@dataclass(frozen=True)
class PlanProgress:
    """Progress of all sources.

    Attributes:
        sources: one entry a source, in plan order.
        missing: names of the shards whose partial file is missing or damaged.
    """

    sources: tuple[SourceProgress, ...]
    missing: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        sources = [asdict(source) for source in self.sources]
        return {"sources": sources, "missing": list(self.missing), "done": not self.missing}


def plan_progress(plan: Plan) -> PlanProgress:
    """Reads the partial file of every shard of a plan that has a work directory."""
    assert plan.options.work_dir is not None
    sources = tuple(SourceProgress(source.name) for source in plan.sources)
    missing = []
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        source = sources[shard.source]
        source.shards += 1
        source.bytes += shard.size
        if load_partial(partial_path(plan.options.work_dir, key)) is None:
            missing.append(shard.name)
        else:
            source.counted += 1
            source.counted_bytes += shard.size
    return PlanProgress(sources, tuple(missing))
