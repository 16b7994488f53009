"""`vocabfreq status`: how far a plan is counted."""

from typing import TYPE_CHECKING

import typer

from vocabfreq.cli import render
from vocabfreq.cli.count import PlanOption
from vocabfreq.cli.options import JsonOption

if TYPE_CHECKING:
    from vocabfreq.counting.progress import PlanProgress

NAMED = 10


def status(plan: PlanOption, as_json: JsonOption = False) -> None:
    """Tell which shards of a plan are counted; the exit code is 1 while some are missing."""
    from vocabfreq.counting.plan import load_plan
    from vocabfreq.counting.progress import plan_progress

    found = plan_progress(load_plan(plan))
    if as_json:
        render.print_json(found.as_dict())
    else:
        _print(found, str(plan))
    raise typer.Exit(1 if found.missing else 0)


def _print(found: "PlanProgress", plan: str) -> None:
    rows = [
        [
            source.name,
            f"{source.counted:,} of {source.shards:,}",
            f"{render.megabytes(source.counted_bytes)} of {render.megabytes(source.bytes)}",
        ]
        for source in found.sources
    ]
    render.print_table("Counted so far", ["source", "shards", "size"], rows)
    for name in found.missing[:NAMED]:
        print(render.clean(f"missing: {name}"))
    if len(found.missing) > NAMED:
        print(f"… and {len(found.missing) - NAMED:,} more (--json lists all)")
    following = f"count --plan {plan}" if found.missing else f"merge --plan {plan} -o FILE"
    print(f"Next: vocabfreq {following}")
