"""`vocabfreq merge`: frequency files, or the partial files of a plan, into one."""

from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render

if TYPE_CHECKING:
    from vocabfreq.cli.build import Outcome


def merge(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Frequency files, two or more.")
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="PLAN", help="Instead of files: the counted shards of a plan."
        ),
    ] = None,
    max_bad_rows: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="With --plan: above so many skipped rows the exit code is 3."
        ),
    ] = 1000,
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUT even if it is no frequency file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """Put the sources of several frequency files side by side in one, or finish a plan.

    Of files, the tokenizers must be the same, and a source that is in two of them, by name and
    content, is refused. Of a plan, every shard must have been counted: OUT has the bytes that one
    build would have written. Partial files are kept.
    """
    from vocabfreq.cli.build import check_output

    if plan is None and len(files or []) < 2:
        raise typer.BadParameter("expected two or more files, or --plan PLAN")
    if plan is not None and files:
        raise typer.BadParameter("expected files or --plan PLAN, not both")
    check_output(output, force)
    if plan is not None:
        outcome = _finish(plan, output)
        outcome.show(as_json=as_json, max_bad_rows=max_bad_rows, quiet=quiet)
        raise typer.Exit(outcome.exit_code(max_bad_rows))
    _side_by_side(files or [], output, as_json, quiet)


def _finish(path: Path, output: Path) -> "Outcome":
    from vocabfreq.cli.build import save_report
    from vocabfreq.counting.merging import merge_partials
    from vocabfreq.counting.plan import load_plan

    plan = load_plan(path)
    assert plan.options.work_dir is not None
    return save_report(merge_partials(plan, plan.options.work_dir), output)


def _side_by_side(files: list[Path], output: Path, as_json: bool, quiet: bool) -> None:
    from vocabfreq.frequencies.table import FrequencyTable

    table = reduce(add, [FrequencyTable.load(file) for file in files])
    table.save(output)
    if as_json:
        names = [source.name for source in table.sources]
        render.print_json(
            {"file": str(output), "sources": names, "coverage": render.coverage(table)}
        )
    elif not quiet:
        render.print_coverage(table)
        print(f"Wrote {output}. Next: vocabfreq show {output}")
