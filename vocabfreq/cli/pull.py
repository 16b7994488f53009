"""`vocabfreq pull`: a published repo, every byte checked."""

from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import JsonOption, QuietOption


def pull(
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME[@REVISION]", help="A repo.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where to. Default: the cache of the Hub's client.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace other files of the same names in DIR.")
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fetch a published frequency file and its token maps, and check them.

    Prints the folder.
    """
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.hub import pull as fetch

    folder = fetch(repo, output, force=force)
    table = FrequencyTable.load(folder / "vocab_freq.safetensors")
    if as_json:
        told = {"folder": str(folder), "rows": table.rows, "tokenizer": table.tokenizer.sha256}
        render.print_json(told)
        return
    print(folder)
    tokens = sum(source.tokens for source in table.sources)
    counted = f"{tokens:,} tokens of {table.tokenizer.name}, V = {table.rows:,}"
    render.note(f"{counted}; every file is as its sums say", quiet=quiet)
