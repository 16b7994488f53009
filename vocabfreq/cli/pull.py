"""`vocabfreq pull`: fetches a published repo and checks every byte."""

from pathlib import Path
from typing import Annotated

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption, QuietOption, argument


def pull(
    repo: Annotated[str, argument("OWNER/NAME[@REVISION]", "Repo on the Hub.")],
    output: Annotated[
        Path | None,
        OUTPUT.option(
            "DIR", "Folder to fetch into. Default: the cache of huggingface_hub.", "--output", "-o"
        ),
    ] = None,
    force: Annotated[
        bool, OUTPUT.flag("Replace other files of the same names in DIR.", "--force")
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
