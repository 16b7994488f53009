"""`vocabfreq convert`: from one tool's file to another's."""

from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import FormatChoice, KindChoice


def convert(
    file: Annotated[
        str,
        typer.Argument(
            metavar="IN",
            help="A file or folder of ids or counts, or owner/repo/file[@revision] on the Hub.",
        ),
    ],
    output: Annotated[Path, typer.Argument(metavar="OUT", help="For npy a folder.")],
    form: Annotated[
        FormatChoice, typer.Option("--format", "-f", help="What to write: docs/formats.md.")
    ],
    kind: Annotated[
        KindChoice, typer.Option("--kind", help="What IN is, where that can be more than one.")
    ] = KindChoice.auto,
    rows: Annotated[
        int | None,
        typer.Option(metavar="V", help="Rows of the target, where IN does not say."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Drop repeated ids of a list, and say so.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace OUT, a file, whatever it is; take all-zero offsets, or another length "
            "than a name says, as they are.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary, no remarks.")] = False,
) -> None:
    """Write the ids or counts of one tool's file in the format of another.

    Counts do not become ids, which takes a size (vocabfreq export), nor ids counts.
    """
    from vocabfreq.cli.export import run_convert

    written = run_convert(
        file,
        output,
        form.value,
        force=force,
        kind=kind.value,
        rows=rows,
        repair=repair,
        note=lambda text: render.note(text, quiet=quiet),
    )
    written.show(as_json=as_json, quiet=quiet)
