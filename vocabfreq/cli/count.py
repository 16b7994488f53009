"""`vocabfreq count`: count one part of a plan."""

import os
from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.build_options import WorkersOption
from vocabfreq.cli.options import JsonOption, QuietOption

PlanOption = Annotated[Path, typer.Option("--plan", metavar="PLAN", help="From vocabfreq plan.")]


def count(
    plan: PlanOption,
    shard_index: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="I",
            help="Which part, from 0. Default: SLURM_ARRAY_TASK_ID, counted from the first task.",
        ),
    ] = None,
    num_shards: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Of how many. Default: SLURM_ARRAY_TASK_COUNT."),
    ] = None,
    workers: WorkersOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Count what is missing of one part of a plan; all of it without an index.

    Part I has every N-th shard, from the I-th on. Counting a part twice, even at the same time,
    counts nothing twice; a part that was interrupted goes on where it stopped.
    """
    from dataclasses import replace

    from vocabfreq.cli.build import listening
    from vocabfreq.counting.build import count_part
    from vocabfreq.counting.plan import load_plan

    index, number = _part(shard_index, num_shards)
    loaded = load_plan(plan)
    loaded = replace(loaded, options=replace(loaded.options, workers=workers))
    with listening(loaded, quiet or as_json) as heard:
        counted = count_part(loaded, index, number, progress=heard)
    if as_json:
        render.print_json({"part": index, "parts": number, "counted": counted})
    elif not quiet:
        print(f"Part {index} of {number}: {counted:,} shards counted now, none is missing.")


def _part(index: int | None, number: int | None) -> tuple[int, int]:
    """From the options, else from Slurm, else the whole plan."""
    if index is None and number is None and "SLURM_ARRAY_TASK_ID" not in os.environ:
        return 0, 1
    first = _slurm("MIN", 0) if index is None else 0
    index = _slurm("ID", None) - first if index is None else index
    number = _slurm("COUNT", None) if number is None else number
    if not 0 <= index < number:
        raise typer.BadParameter(f"part {index} of {number}; expected 0 to {number - 1}")
    return index, number


def _slurm(what: str, otherwise: int | None) -> int:
    name = f"SLURM_ARRAY_TASK_{what}"
    text = os.environ.get(name, "" if otherwise is None else str(otherwise))
    if not text.isdigit():
        option = {"ID": "--shard-index", "COUNT": "--num-shards"}.get(what, name)
        told = f"is {text!r}" if text else "is not set"
        raise typer.BadParameter(f"{name} {told}; expected a number, or give {option}")
    return int(text)
