"""`vocabfreq count`: counts one part of a plan."""

import os
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import GENERAL, JsonOption, PlanOption, QuietOption, WorkersOption


def count(
    plan: PlanOption,
    shard_index: Annotated[
        int | None,
        GENERAL.option(
            "I", "Part to count, from 0. Default: SLURM_ARRAY_TASK_ID less the first id.", min=0
        ),
    ] = None,
    num_shards: Annotated[
        int | None,
        GENERAL.option("N", "Number of parts. Default: SLURM_ARRAY_TASK_COUNT, else 1.", min=1),
    ] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Count the missing shards of a plan, or of one part of it.

    Part I has every N-th shard, from the I-th on; without an index all shards are counted. A part
    that is counted twice, even at the same time, changes nothing; an interrupted part resumes.
    """
    from dataclasses import replace

    from vocabfreq.cli.progress import show_progress
    from vocabfreq.counting.build import count_part
    from vocabfreq.counting.plan import load_plan

    part, parts = _chosen_part(shard_index, num_shards)
    loaded = load_plan(plan)
    loaded = replace(loaded, options=replace(loaded.options, workers=workers))
    with show_progress(loaded, quiet or as_json) as listener:
        counted = count_part(loaded, part, parts, progress=listener)
    if as_json:
        render.print_json({"part": part, "parts": parts, "counted": counted})
    elif not quiet:
        print(f"Part {part} of {parts}: shards counted now: {counted:,}; missing: none.")


def _chosen_part(index: int | None, number: int | None) -> tuple[int, int]:
    """Index and number of parts: from the options, else from Slurm, else all in one part."""
    if index is None and number is None and "SLURM_ARRAY_TASK_ID" not in os.environ:
        return 0, 1
    first = _slurm_number("MIN", "0") if index is None else 0
    index = _slurm_number("ID") - first if index is None else index
    number = _slurm_number("COUNT") if number is None else number
    if not 0 <= index < number:
        raise typer.BadParameter(f"part {index} of {number}; expected 0 to {number - 1}")
    return index, number


def _slurm_number(suffix: str, default: str = "") -> int:
    name = f"SLURM_ARRAY_TASK_{suffix}"
    text = os.environ.get(name, default)
    if not text.isdigit():
        option = {"ID": "--shard-index", "COUNT": "--num-shards"}.get(suffix, name)
        found = f"is {text!r}" if text else "is not set"
        raise typer.BadParameter(f"{name} {found}; expected a number, or give {option}")
    return int(text)
