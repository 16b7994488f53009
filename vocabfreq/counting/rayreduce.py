"""Partial files → one table in a tree of Ray tasks: no node holds the counts of every shard."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.merging import Report, Sums, missing_shards, report_of
from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.ray_cluster import RETRIES

LEAF, BRANCH = 64, 8
Part = tuple[Shard, Path]


def merge_on_ray(ray: Any, plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard, in a tree of tasks.

    Raises:
        CountError: some are missing, or damaged.
    """
    shape = len(plan.sources), plan.job.rows
    paths = [partial_path(work_dir, key) for key in plan.keys]
    parts = list(zip(plan.shards, paths, strict=True))
    leaf, branch = (ray.remote(num_cpus=1, max_retries=RETRIES)(f) for f in (sum_parts, add_sums))
    sums = [leaf.remote(parts[at : at + LEAF], *shape) for at in range(0, len(parts), LEAF)]
    while len(sums) > 1:
        sums = [branch.remote(*sums[at : at + BRANCH]) for at in range(0, len(sums), BRANCH)]
    found = ray.get(sums[0])
    if isinstance(found, Sums):
        return report_of(plan, found)
    raise missing_shards(found, len(plan.shards))


def sum_parts(parts: Sequence[Part], sources: int, rows: int) -> Sums | list[str]:
    """The sums over consecutive shards, or the names of those without a whole partial file."""
    sums, missing = Sums(sources, rows), []
    for shard, path in parts:
        part = load_partial(path)
        if part is None:
            missing.append(shard.name)
        else:
            sums.add(shard, part)
    return missing or sums


def add_sums(*sums: Sums | list[str]) -> Sums | list[str]:
    """The sums over neighbours, or the names of what is missing in any of them."""
    missing = [name for one in sums if not isinstance(one, Sums) for name in one]
    total: Sums | None = None
    for one in sums:
        if isinstance(one, Sums) and not missing:
            total = total or Sums(*one.counts.shape)
            total.extend(one)
    return missing if total is None else total
