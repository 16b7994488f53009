"""`vocabfreq pull`: fetches a published repo and checks every byte."""

from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption, QuietOption, flag


def pull(
    repo: Annotated[str, typer.Argument(metavar="OWNER/NAME[@REVISION]", help="Repo on the Hub.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder to fetch into. Default: the cache of huggingface_hub.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Annotated[
        bool,
        flag("--force", help="Replace other files of the same names in DIR.", panel=OUTPUT),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fetch a published frequency file and token maps, and check them.

    Prints the folder on standard output.
    """
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.hub import pull as fetch

    folder = fetch(repo, output, force=force)
    table = FrequencyTable.load(folder / "vocab_freq.safetensors")
    if as_json:
        sha256 = table.tokenizer.sha256
        render.print_json({"folder": str(folder), "rows": table.rows, "tokenizer": sha256})
        return
    print(folder)
    tokens = sum(source.tokens for source in table.sources)
    counted = f"{tokens:,} tokens of {table.tokenizer.name}, V = {table.rows:,}"
    render.note(f"{counted}; every file matches SHA256SUMS", quiet=quiet)
