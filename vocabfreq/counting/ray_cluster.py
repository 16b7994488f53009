"""Where shards run, the other way: as tasks of a Ray cluster.

Every node must see the work directory: a task leaves its partial file there, as a worker process of
this machine does, and tells the driver sums alone. Ray runs a task again whose worker or node dies.

Partial files → one table in a tree of Ray tasks: no node holds the counts of every shard.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.merging import Report, Sums, missing_shards, report_of
from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.shard import Job, ShardCounter
from vocabfreq.counting.workers import Answer, Done, Outcome, Task, first_remark, run_task
from vocabfreq.errors import CountError, VocabfreqError, first_line, require
from vocabfreq.storage.atomic import write_atomically

RETRIES = 3
IN_FLIGHT = 4  # tasks a core of the cluster, so that none waits for the driver
_counters: dict[Job, ShardCounter] = {}  # of a Ray worker, so that its engine stays warm


@contextmanager
def ray_session(address: str | None, workers: int | None) -> Iterator[Any]:
    """Ray, connected; what was connected before stays so.

    Args:
        address: of a cluster, None for one on this machine that ends with this process.
        workers: cores of the one on this machine, None for all.

    Raises:
        MissingExtraError: Ray is not installed.
        CountError: the cluster cannot be reached.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    local: dict[str, Any] = {"include_dashboard": False, "num_cpus": workers or None}
    try:
        ray.init(address=address, **quiet) if address else ray.init("local", **quiet, **local)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise CountError(
            f"cannot reach Ray at {address or 'this machine'}: {first_line(error)}",
            expected="the address of a running cluster, such as auto or HOST:6379",
            hint="leave --address out for a cluster on this machine",
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def run_on_ray(ray: Any, tasks: Sequence[Task], job: Job) -> Iterator[Outcome]:
    """Counts the shards as Ray tasks; yields outcomes as they come.

    Args:
        ray: from `ray_session`.
        tasks: what to count.
        job: what the shards have in common.
    """
    count = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(count_on_node)
    tokenizer = ray.put(job.tokenizer.read_bytes())
    room = max(1, int(IN_FLIGHT * ray.cluster_resources().get("CPU", 1)))
    waiting, running = list(reversed(tasks)), dict[Any, Task]()
    while waiting or running:
        while waiting and len(running) < room:
            task = waiting.pop()
            running[count.remote(task, job, tokenizer)] = task
        (ended,), _ = ray.wait(list(running))
        task = running.pop(ended)
        for answer in _answers(ray, ended, task):
            yield task, answer


def _answers(ray: Any, ended: Any, task: Task) -> list[Answer]:
    try:
        answers: list[Answer] = ray.get(ended)
    except ray.exceptions.RayError as error:
        return [_lost(task, error)]
    if isinstance(answers[-1], Done) and not task.path.is_file():
        return [_unseen(task)]
    return answers


def _lost(task: Task, error: Exception) -> VocabfreqError:
    return CountError(
        f"{task.shard.name}: Ray gave up after {RETRIES + 1} attempts ({first_line(error)})",
        expected="a worker and a node that live until it is counted",
        hint="was memory short? look at that file, or give Ray fewer cores; the others are kept",
    )


def _unseen(task: Task) -> VocabfreqError:
    return CountError(
        f"{task.shard.name} was counted, but {task.path} is not to be seen from here",
        expected="a work directory on a file system that every node shares",
        hint="name one with --work-dir",
    )


def count_on_node(task: Task, job: Job, tokenizer: bytes) -> list[Answer]:
    """What a Ray task does: counts a shard, leaves its partial file.

    Args:
        task: the shard.
        job: as the driver has it.
        tokenizer: the content of tokenizer.json, for nodes that do not have it.

    Returns:
        What `engines` tells of a shard, remarks first.
    """
    try:
        counter = _counter(job, tokenizer)
        remark = first_remark(counter, task)
        task.path.parent.mkdir(parents=True, exist_ok=True)
        return [*([remark] if remark else []), run_task(counter, task)]
    except VocabfreqError as error:
        return [error]


def _counter(job: Job, tokenizer: bytes) -> ShardCounter:
    if job not in _counters:
        os.environ.setdefault("RAYON_NUM_THREADS", "1")  # a task has one core
        _counters.clear()
        _counters[job] = ShardCounter(replace(job, tokenizer=_placed(job, tokenizer)))
    return _counters[job]


def _placed(job: Job, tokenizer: bytes) -> Path:
    """The path of tokenizer.json on this node; it is written where it is missing or another one."""
    if _sha256(job.tokenizer) == job.sha256:
        return job.tokenizer
    path = Path(tempfile.gettempdir(), f"vocabfreq-{job.sha256}", "tokenizer.json")
    if _sha256(path) != job.sha256:
        write_atomically(path, tokenizer)
    return path


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


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
