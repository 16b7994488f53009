"""Counting: plan, count what is missing, merge.

>>> from vocabfreq import count
>>> table = count(["chat=data/chat.jsonl"], "models/llama-3")
>>> table.save("vocab_freq.safetensors")
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import numpy as np

from vocabfreq.engines import Outcome, default_workers, run_here, run_in_workers
from vocabfreq.errors import CountError, IdRangeError, VocabfreqError, WorkDirError
from vocabfreq.frequencies import FrequencyTable
from vocabfreq.merging import merged_encoders
from vocabfreq.partials import load_partial, partial_path
from vocabfreq.planning import CountOptions, Plan, make_plan
from vocabfreq.records import FORMAT, Metadata, TokenizerRecord
from vocabfreq.sources.files import STDIN
from vocabfreq.sources.plan import Source
from vocabfreq.sources.tally import Example
from vocabfreq.tasks import Done, Remark, Task
from vocabfreq.tokenizer import TokenizerInfo, load_tokenizer
from vocabfreq.totals import SourceTotal
from vocabfreq.workdir import work_dir_of, write_manifest

Progress = Callable[[Done | Remark], None]


@dataclass
class Report:
    """What a person should hear about a finished count, beside the table.

    Attributes:
        table: the counts.
        examples: the first places of each reason, per source name.
        changes: why earlier partial files were not used.
        resumed: shards that an earlier run had counted.
        shards: all shards.
    """

    table: FrequencyTable
    examples: dict[str, list[Example]] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)
    resumed: int = 0
    shards: int = 0


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
        _run(missing, plan, progress)
        report = merge_partials(plan, work_dir)
    report.changes = changes
    report.resumed = len(set(plan.keys)) - len(missing)
    return report


def missing_tasks(plan: Plan, work_dir: Path) -> list[Task]:
    """One task for each fingerprint without a whole partial file; the largest first."""
    shards = dict(zip(plan.keys, plan.shards, strict=True))
    paths = {key: partial_path(work_dir, key) for key in shards}
    missing = [key for key in shards if load_partial(paths[key]) is None]
    tasks = [Task(key, shards[key], paths[key]) for key in missing]
    return sorted(tasks, key=lambda task: -task.shard.size)


def _run(tasks: list[Task], plan: Plan, progress: Progress | None) -> None:
    failures = []
    for task, outcome in _outcomes(tasks, plan):
        if isinstance(outcome, IdRangeError | WorkDirError):
            raise outcome
        if isinstance(outcome, VocabfreqError):
            failures.append((task, outcome))
        elif progress:
            progress(outcome)
    if failures:
        raise _failed(failures, len(plan.shards))


def _outcomes(tasks: list[Task], plan: Plan) -> Iterator[Outcome]:
    """Standard input cannot go to another process; everything else does, if asked."""
    workers = default_workers() if plan.options.workers is None else plan.options.workers
    stays = [workers == 0 or task.shard.pieces[0].file.path == STDIN for task in tasks]
    here = [task for task, stay in zip(tasks, stays, strict=True) if stay]
    there = [task for task, stay in zip(tasks, stays, strict=True) if not stay]
    yield from run_here(here, plan.job)
    if there:
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


def merge_partials(plan: Plan, work_dir: Path) -> Report:
    """Adds up the partial files of every planned shard.

    Raises:
        CountError: one is missing.
    """
    rows = (len(plan.sources), plan.job.rows)
    counts, heldout = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    totals = [SourceTotal() for _ in plan.sources]
    for key, shard in zip(plan.keys, plan.shards, strict=True):
        part = load_partial(partial_path(work_dir, key))
        if part is None:
            raise CountError(f"no partial file of {shard.name}", hint="run the same command again")
        counts[shard.source] += part.counts
        heldout[shard.source] += part.heldout
        totals[shard.source].add(part, [piece.file.path for piece in shard.pieces])
    meta = _metadata(plan, totals)
    examples = {s.name: t.examples for s, t in zip(plan.sources, totals, strict=True)}
    return Report(FrequencyTable(counts, heldout, meta), examples, shards=len(plan.shards))


def _metadata(plan: Plan, totals: list[SourceTotal]) -> Metadata:
    weights = plan.options.weights
    encoder = totals[0].encoder
    for total in totals[1:]:
        encoder = merged_encoders(encoder, total.encoder)
    return Metadata(
        format=FORMAT,
        vocabfreq=version("vocabfreq"),
        tokenizer=tokenizer_record(plan.tokenizer),
        special_ids=plan.tokenizer.special_ids,
        stop_ids=plan.tokenizer.stop_ids,
        template_ids=plan.tokenizer.template_ids,
        byte_ids=plan.tokenizer.byte_ids,
        sources=tuple(
            total.record(
                source, plan.files(n), None if weights is None else weights.get(source.name, 1.0)
            )
            for n, (source, total) in enumerate(zip(plan.sources, totals, strict=True))
        ),
        options=_options(plan),
        encoder=encoder,
    )


def tokenizer_record(info: TokenizerInfo) -> TokenizerRecord:
    """The part of a TokenizerInfo that goes into files."""
    return TokenizerRecord(
        name=info.name,
        revision=info.revision,
        sha256=info.sha256,
        size=info.size,
        rows=info.rows,
        absent=info.absent,
    )


def _options(plan: Plan) -> dict[str, object]:
    """What was asked for; one value where all sources agree, else a list in source order."""
    shown: dict[str, object] = {"holdout": plan.options.holdout, "encoder": plan.options.encoder}
    for name in ("roles", "separator", "max_documents"):
        values = [getattr(source, name) for source in plan.sources]
        shown[name] = values[0] if all(v == values[0] for v in values) else values
    columns = {s.source: s.layout.column for s in reversed(plan.shards)}
    shown["columns"] = {plan.sources[n].name: column for n, column in sorted(columns.items())}
    return shown
