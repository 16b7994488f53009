"""Counts and merges shards as tasks of a Ray cluster.

Every node must see the work directory: a task writes its partial file there, as a worker process
of this machine does, and sends the driver sums alone. Ray repeats a task whose worker or node dies.
Merging adds up partial files in a tree of tasks, so that no node holds the counts of every shard.
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

from vocabfreq.counting.merging import (
    Report,
    Totals,
    add_partials,
    make_report,
    shards_with_paths,
)
from vocabfreq.counting.plan import CountOptions, Plan
from vocabfreq.counting.shard import ShardCounter, WorkerConfig
from vocabfreq.counting.workers import Answer, Outcome, ShardDone, Task, run_task
from vocabfreq.errors import CountError, VocabfreqError, first_line, require
from vocabfreq.storage.atomic import write_atomically

RETRIES = 3
TASKS_PER_CORE = 4  # in flight, so that none waits for the driver
LEAF, BRANCH = 64, 8  # partial files a leaf of the tree adds up, sums a branch
_counters: dict[WorkerConfig, ShardCounter] = {}  # of a Ray worker: its encoder stays warm


@contextmanager
def ray_session(options: CountOptions) -> Iterator[Any]:
    """Ray, connected to a cluster; an earlier connection stays, and stays open.

    Args:
        options: `address` of the cluster, None for one on this machine that ends with this
            process; `workers`, the cores of the latter.

    Raises:
        MissingExtraError: Ray is not installed.
        CountError: the cluster cannot be reached.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield ray
        return
    address = options.address
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    local: dict[str, Any] = {"include_dashboard": False, "num_cpus": options.workers or None}
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


def run_on_ray(ray: Any, tasks: Sequence[Task], config: WorkerConfig) -> Iterator[Outcome]:
    """Counts the shards as Ray tasks; yields outcomes as they come.

    Args:
        ray: from `ray_session`.
        tasks: the shards to count.
        config: what the shards share.
    """
    count = ray.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=False)(count_on_node)
    tokenizer = ray.put(config.tokenizer.read_bytes())
    in_flight = max(1, int(TASKS_PER_CORE * ray.cluster_resources().get("CPU", 1)))
    waiting, running = list(reversed(tasks)), dict[Any, Task]()
    while waiting or running:
        while waiting and len(running) < in_flight:
            task = waiting.pop()
            running[count.remote(task, config, tokenizer)] = task
        (ended,), _ = ray.wait(list(running))
        task = running.pop(ended)
        for answer in _answers(ray, ended, task):
            yield task, answer


def _answers(ray: Any, ended: Any, task: Task) -> list[Answer]:
    try:
        answers: list[Answer] = ray.get(ended)
    except ray.exceptions.RayError as error:
        return [_lost(task, error)]
    if isinstance(answers[-1], ShardDone) and not task.path.is_file():
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


def count_on_node(task: Task, config: WorkerConfig, tokenizer: bytes) -> list[Answer]:
    """What a Ray task does: counts a shard and writes its partial file.

    Args:
        task: the shard.
        config: as the driver has it.
        tokenizer: the content of tokenizer.json, for nodes that do not have it.

    Returns:
        The answers of `run_task`.
    """
    if config not in _counters:
        os.environ.setdefault("RAYON_NUM_THREADS", "1")  # a task has one core
        _counters.clear()
        path = _tokenizer_on_node(config, tokenizer)
        _counters[config] = ShardCounter(replace(config, tokenizer=path))
    task.path.parent.mkdir(parents=True, exist_ok=True)
    return list(run_task(_counters[config], task))


def _tokenizer_on_node(config: WorkerConfig, tokenizer: bytes) -> Path:
    """Path of tokenizer.json on this node; written where it is missing or differs."""
    if _sha256(config.tokenizer) == config.sha256:
        return config.tokenizer
    path = Path(tempfile.gettempdir(), f"vocabfreq-{config.sha256}", "tokenizer.json")
    if _sha256(path) != config.sha256:
        write_atomically(path, tokenizer)
    return path


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def merge_on_ray(ray: Any, plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard, in a tree of tasks.

    Raises:
        CountError: some are missing, or damaged.
    """
    parts, shape = shards_with_paths(plan, work_dir), (len(plan.sources), plan.tokenizer.rows)
    remote = ray.remote(num_cpus=1, max_retries=RETRIES)
    leaf, branch = remote(add_partials), remote(add_totals)
    sums = [leaf.remote(parts[at : at + LEAF], *shape) for at in range(0, len(parts), LEAF)]
    while len(sums) > 1:
        sums = [branch.remote(*sums[at : at + BRANCH]) for at in range(0, len(sums), BRANCH)]
    return make_report(plan, ray.get(sums[0]))


def add_totals(*parts: Totals | list[str]) -> Totals | list[str]:
    """The sums over neighbours, or the names of the shards that are missing in any of them."""
    missing = [name for part in parts if not isinstance(part, Totals) for name in part]
    totals = [part for part in parts if isinstance(part, Totals)]
    if missing:
        return missing
    total = Totals(*totals[0].counts.shape)
    for part in totals:
        total.extend(part)
    return total
