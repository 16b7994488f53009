"""`vocabfreq merge`: frequency files, or the partial files of a plan, into one."""

from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import INPUT, OUTPUT, JsonOption, QuietOption, argument, with_options


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """Options of `merge`."""

    files: Annotated[list[Path] | None, argument("FILES", "Two or more frequency files.")] = None
    plan: Annotated[
        Path | None, INPUT.option("PLAN", "Instead of files: the counted shards of a plan.")
    ] = None
    max_bad_rows: Annotated[
        int, OUTPUT.option("N", "With --plan: exit code 3 if more than N rows were skipped.", min=0)
    ] = 1000
    output: Annotated[Path, OUTPUT.option("OUT", "File to write.", "--output", "-o")]
    force: Annotated[
        bool, OUTPUT.flag("Replace OUT even if it is no frequency file.", "--force")
    ] = False
    as_json: JsonOption = False
    quiet: QuietOption = False


@with_options(MergeOptions)
def merge(options: MergeOptions) -> None:
    """Merge the sources of frequency files, or the shards of a plan.

    Files must have the same tokenizer; a source that is in two of them, by name and content, is
    refused. Every shard of a plan must be counted: OUT has the bytes that one build would write.
    Partial files are kept.
    """
    from vocabfreq.cli.build_result import check_output

    files = options.files or []
    if options.plan is None and len(files) < 2:
        raise typer.BadParameter("expected two or more files, or --plan PLAN")
    if options.plan is not None and files:
        raise typer.BadParameter("expected files or --plan PLAN, not both")
    check_output(options.output, options.force)
    if options.plan is not None:
        _merge_plan(options.plan, options)
    else:
        _merge_files(files, options)


def _merge_plan(path: Path, options: MergeOptions) -> None:
    from vocabfreq.cli.build_result import save_report
    from vocabfreq.counting.merging import merge_partials
    from vocabfreq.counting.plan import load_plan

    plan = load_plan(path)
    assert plan.options.work_dir is not None
    result = save_report(merge_partials(plan, plan.options.work_dir), options.output)
    result.finish(as_json=options.as_json, max_bad_rows=options.max_bad_rows, quiet=options.quiet)


def _merge_files(files: list[Path], options: MergeOptions) -> None:
    from vocabfreq.frequencies.table import FrequencyTable

    table = reduce(add, [FrequencyTable.load(file) for file in files])
    table.save(options.output)
    if options.as_json:
        names = [source.name for source in table.sources]
        coverage = render.coverage(table)
        render.print_json({"file": str(options.output), "sources": names, "coverage": coverage})
    elif not options.quiet:
        render.print_coverage(table)
        print(f"Wrote {options.output}. Next: vocabfreq show {options.output}")
