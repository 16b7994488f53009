"""Runs a plan: counts the shards that are missing, and merges all.

>>> from vocabfreq import count
>>> table = count(["chat=data/chat.jsonl"], "models/llama-3")
>>> table.save("vocab_freq.safetensors")
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vocabfreq.corpus.sources import Source
from vocabfreq.counting.merging import Report, merge_partials
from vocabfreq.counting.partial_files import (
    SUFFIX,
    load_partial,
    open_work_dir,
    partial_path,
    write_manifest,
)
from vocabfreq.counting.plan import CountOptions, Plan, make_plan
from vocabfreq.counting.workers import (
    Notice,
    Outcome,
    ShardDone,
    Task,
    default_workers,
    run_in_this_process,
    run_in_workers,
)
from vocabfreq.errors import CountError, IdRangeError, SourceError, VocabfreqError, WorkDirError
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.atomic import remove_leftovers
from vocabfreq.tokenizer.info import TokenizerInfo

DAY_IN_SECONDS = 86_400
Progress = Callable[[ShardDone | Notice], None]


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
        options: the options of the count.
        progress: called after each shard, and with notices.

    Returns:
        The table, one row per source.

    Raises:
        VocabfreqError: a source or the tokenizer cannot be used, or a shard cannot be counted; the
            partial files of the other shards are kept in `options.work_dir`.
    """
    return run_plan(make_plan(sources, tokenizer, options), progress=progress).table


def run_plan(plan: Plan, *, progress: Progress | None = None) -> Report:
    """Counts the shards of a plan that have no partial file yet, and merges all."""
    with open_work_dir(plan) as work_dir:
        changes = write_manifest(plan, work_dir)
        if progress:
            for remark in plan.remarks:
                progress(Notice(remark))
            for change in changes:
                progress(Notice(f"earlier partial files are of no use: {change}"))
        tasks = _missing_tasks(plan, work_dir, set(plan.keys))
        if plan.options.engine == "ray":
            from vocabfreq.counting.ray_cluster import merge_on_ray, ray_session

            with ray_session(plan.options) as ray:
                _run(tasks, plan, progress, ray)
                report = merge_on_ray(ray, plan, work_dir)
        else:
            _run(tasks, plan, progress)
            report = merge_partials(plan, work_dir)
    report.changes = changes
    report.resumed = len(set(plan.keys)) - len(tasks)
    return report


def count_part(plan: Plan, index: int, parts: int, *, progress: Progress | None = None) -> int:
    """Counts what is missing of one part of a plan; any number of processes may do so at once.

    Args:
        plan: with a work directory, which all of them see.
        index: of the part, from 0.
        parts: number of parts; part i has shards i, i + parts, i + 2 parts …
        progress: called after each shard, and with notices.

    Returns:
        How many shards were counted now.

    Raises:
        VocabfreqError: a shard cannot be counted; the others of the part are kept.
    """
    if not 0 <= index < parts:
        raise SourceError(f"part {index} of {parts}", expected=f"0 to {parts - 1}")
    work_dir = plan.options.work_dir
    assert work_dir is not None
    work_dir.mkdir(parents=True, exist_ok=True)
    # Younger ones may be of other processes that write into the same folder now.
    remove_leftovers(work_dir, f"*{SUFFIX}", older_than=time.time() - DAY_IN_SECONDS)
    keys = set(list(dict.fromkeys(plan.keys))[index::parts])
    tasks = _missing_tasks(plan, work_dir, keys)
    _run(tasks, plan, progress)
    return len(tasks)


def _missing_tasks(plan: Plan, work_dir: Path, keys: set[str]) -> list[Task]:
    """A task for each of these fingerprints without a partial file that loads; largest first."""
    shards = dict(zip(plan.keys, plan.shards, strict=True))
    tasks = [Task(shards[key], partial_path(work_dir, key)) for key in shards if key in keys]
    missing = [task for task in tasks if load_partial(task.path) is None]
    return sorted(missing, key=lambda task: -task.shard.size)


def _run(tasks: list[Task], plan: Plan, progress: Progress | None, ray: Any = None) -> None:
    """Counts the shards; one that cannot be counted does not stop the others.

    Raises:
        VocabfreqError: some could not be counted, or an error concerns all.
    """
    failures: list[VocabfreqError] = []
    for _, answer in _outcomes(tasks, plan, ray):
        if isinstance(answer, IdRangeError | WorkDirError):
            raise answer
        if isinstance(answer, VocabfreqError):
            failures.append(answer)
        elif progress:
            progress(answer)
    if failures:
        raise _joined(failures, len(plan.shards))


def _outcomes(tasks: list[Task], plan: Plan, ray: Any) -> Iterator[Outcome]:
    """Runs the tasks; standard input is read in this process, since no other can."""
    workers = default_workers() if plan.options.workers is None else plan.options.workers
    here: list[Task] = []
    elsewhere: list[Task] = []
    for task in tasks:
        stays = (ray is None and workers == 0) or task.shard.pieces[0].file.is_stream
        (here if stays else elsewhere).append(task)
    yield from run_in_this_process(here, plan.worker_config)
    if elsewhere and ray is not None:
        from vocabfreq.counting.ray_cluster import run_on_ray

        yield from run_on_ray(ray, elsewhere, plan.worker_config)
    elif elsewhere:
        yield from run_in_workers(elsewhere, plan.worker_config, workers)


def _joined(errors: list[VocabfreqError], shards: int) -> VocabfreqError:
    """One error for all shards that failed; the error itself where there is only one."""
    if shards == 1 or len({str(error) for error in errors}) == 1:
        return errors[0]
    named = "; ".join(str(error).replace("\n", " — ") for error in errors[:5])
    more = f"; and {len(errors) - 5} more" if len(errors) > 5 else ""
    return CountError(
        f"{len(errors)} of {shards} shards could not be counted: {named}{more}",
        hint="the others are kept: mend these files and run the same command again",
    )
