"""Counting: plan, count what is missing, merge.

>>> from vocabfreq import count
>>> table = count(["chat=data/chat.jsonl"], "models/llama-3")
>>> table.save("vocab_freq.safetensors")
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from vocabfreq.corpus.files import STDIN
from vocabfreq.corpus.sources import Source
from vocabfreq.counting.merging import Report, merge_partials
from vocabfreq.counting.partial_files import (
    SUFFIX,
    load_partial,
    partial_path,
    work_dir_of,
    write_manifest,
)
from vocabfreq.counting.plan import CountOptions, Plan, make_plan
from vocabfreq.counting.workers import (
    Done,
    Outcome,
    Remark,
    Task,
    default_workers,
    run_here,
    run_in_workers,
)
from vocabfreq.errors import CountError, IdRangeError, SourceError, VocabfreqError, WorkDirError
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.atomic import remove_leftovers
from vocabfreq.tokenizer.info import TokenizerInfo, load_tokenizer

A_DAY = 86_400  # others may be writing temporary files into the same folder now
Progress = Callable[[Done | Remark], None]


def count(
    sources: Sequence[str | Source],
    tokenizer: str | TokenizerInfo,
    options: CountOptions | None = None,
    *,
    progress: Progress | None = None,
) -> FrequencyTable:
    """Counts token frequencies.

    Args:
        sources: `[NAME=]SPEC` strings (see the quickstart), or `Source` objects.
        tokenizer: folder, tokenizer.json, Hub repo, or what `load_tokenizer` returned.
        options: how to count.
        progress: called after each shard, and with remarks.

    Returns:
        The table, one row per source.

    Raises:
        VocabfreqError: a source or the tokenizer cannot be used; nothing is lost that was counted.
    """
    info = tokenizer if isinstance(tokenizer, TokenizerInfo) else load_tokenizer(tokenizer)
    plan = make_plan(sources, info, options or CountOptions())
    return run_plan(plan, progress=progress).table


def run_plan(plan: Plan, *, progress: Progress | None = None) -> Report:
    """Counts the shards of a plan that have no partial file yet, and merges all."""
    with work_dir_of(plan) as work_dir:
        changes = write_manifest(plan, work_dir)
        if progress:
            for change in changes:
                progress(Remark(f"earlier partial files are of no use: {change}"))
        missing = missing_tasks(plan, work_dir)
        with _cluster(plan) as ray:
            _run(missing, plan, progress, ray)
            report = _merged(plan, work_dir, ray)
    report.changes = changes
    report.resumed = len(set(plan.keys)) - len(missing)
    return report


def count_part(plan: Plan, index: int, number: int, *, progress: Progress | None = None) -> int:
    """Counts what is missing of one part of a plan; any number of processes may do so at once.

    Args:
        plan: with a work directory, which all of them see.
        index: of the part, from 0.
        number: of parts; part i has shards i, i + number, i + 2 number …
        progress: called after each shard, and with remarks.

    Returns:
        How many shards were counted now.

    Raises:
        VocabfreqError: a shard cannot be counted; the others of the part are kept.
    """
    if not 0 <= index < number:
        raise SourceError(f"part {index} of {number}", expected=f"0 to {number - 1}")
    work_dir = plan.options.work_dir
    assert work_dir is not None
    work_dir.mkdir(parents=True, exist_ok=True)
    remove_leftovers(work_dir, f"*{SUFFIX}", older_than=time.time() - A_DAY)
    ours = set(list(dict.fromkeys(plan.keys))[index::number])
    tasks = missing_tasks(plan, work_dir, ours)
    _run(tasks, plan, progress)
    return len(tasks)


def missing_tasks(plan: Plan, work_dir: Path, of: Collection[str] | None = None) -> list[Task]:
    """One task for each fingerprint (of these) without a whole partial file; the largest first."""
    pairs = zip(plan.keys, plan.shards, strict=True)
    shards = {key: shard for key, shard in pairs if of is None or key in of}
    paths = {key: partial_path(work_dir, key) for key in shards}
    missing = [key for key in shards if load_partial(paths[key]) is None]
    tasks = [Task(key, shards[key], paths[key]) for key in missing]
    return sorted(tasks, key=lambda task: -task.shard.size)


def _cluster(plan: Plan) -> AbstractContextManager[Any]:
    """Ray, if that is asked for, else None."""
    if plan.options.engine != "ray":
        return nullcontext()
    from vocabfreq.counting.ray_cluster import ray_session

    return ray_session(plan.options.address, plan.options.workers)


def _merged(plan: Plan, work_dir: Path, ray: Any) -> Report:
    if ray is None:
        return merge_partials(plan, work_dir)
    from vocabfreq.counting.ray_cluster import merge_on_ray

    return merge_on_ray(ray, plan, work_dir)


def _run(tasks: list[Task], plan: Plan, progress: Progress | None, ray: Any = None) -> None:
    failures = []
    for task, outcome in _outcomes(tasks, plan, ray):
        if isinstance(outcome, IdRangeError | WorkDirError):
            raise outcome
        if isinstance(outcome, VocabfreqError):
            failures.append((task, outcome))
        elif progress:
            progress(outcome)
    if failures:
        raise _failed(failures, len(plan.shards))


def _outcomes(tasks: list[Task], plan: Plan, ray: Any) -> Iterator[Outcome]:
    """Standard input cannot go to another process; everything else does, if asked."""
    workers = default_workers() if plan.options.workers is None else plan.options.workers
    workers = workers if ray is None else 1
    stays = [workers == 0 or task.shard.pieces[0].file.path == STDIN for task in tasks]
    here = [task for task, stay in zip(tasks, stays, strict=True) if stay]
    there = [task for task, stay in zip(tasks, stays, strict=True) if not stay]
    yield from run_here(here, plan.job)
    if there and ray is not None:
        from vocabfreq.counting.ray_cluster import run_on_ray

        yield from run_on_ray(ray, there, plan.job)
    elif there:
        yield from run_in_workers(there, plan.job, workers)


def _failed(failures: list[tuple[Task, VocabfreqError]], shards: int) -> VocabfreqError:
    if shards == 1 or len({str(error) for _, error in failures}) == 1:
        return failures[0][1]
    named = "; ".join(str(error).replace("\n", " — ") for _, error in failures[:5])
    more = f"; and {len(failures) - 5} more" if len(failures) > 5 else ""
    return CountError(
        f"{len(failures)} of {shards} shards could not be counted: {named}{more}",
        hint="the others are kept: mend these files and run the same command again",
    )
