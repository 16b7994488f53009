"""`vocabfreq merge`: several frequency files of one tokenizer into one."""

from functools import reduce
from operator import add
from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render


def merge(
    files: Annotated[list[Path], typer.Argument(help="Frequency files, two or more.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="OUT")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace OUT even if it is no frequency file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """Put the sources of several frequency files side by side in one.

    The tokenizers must be the same. A source that is in two files, by name and content, is refused.
    """
    from vocabfreq.cli.buildrun import check_output
    from vocabfreq.frequencies import FrequencyTable

    if len(files) < 2:
        raise typer.BadParameter("expected two or more files")
    check_output(output, force)
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
