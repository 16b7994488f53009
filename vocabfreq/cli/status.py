"""`vocabfreq status`: the progress of a plan."""

from typing import TYPE_CHECKING

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import JsonOption, PlanOption

if TYPE_CHECKING:
    from vocabfreq.counting.progress import PlanProgress

LISTED = 10


def status(plan: PlanOption, as_json: JsonOption = False) -> None:
    """Print the progress of a plan: shards counted and missing.

    The exit code is 1 while shards are missing.
    """
    from vocabfreq.counting.plan import load_plan
    from vocabfreq.counting.progress import plan_progress

    progress = plan_progress(load_plan(plan))
    if as_json:
        render.print_json(progress.as_dict())
    else:
        _print(progress, str(plan))
    raise typer.Exit(1 if progress.missing else 0)


def _print(progress: "PlanProgress", plan: str) -> None:
    rows = [
        [
            source.name,
            f"{source.counted:,} of {source.shards:,}",
            f"{render.megabytes(source.counted_bytes)} of {render.megabytes(source.bytes)}",
        ]
        for source in progress.sources
    ]
    render.print_table("Counted so far", ["source", "shards", "size"], rows)
    for name in progress.missing[:LISTED]:
        print(render.clean(f"missing: {name}"))
    if len(progress.missing) > LISTED:
        print(f"… and {len(progress.missing) - LISTED:,} more (--json lists all)")
    if progress.missing:
        print(f"Next: {render.command('count', '--plan', plan)}")
    else:
        print(f"Next: {render.command('merge', '--plan', plan)} -o FILE")
