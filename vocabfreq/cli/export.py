"""`vocabfreq export`: a frequency file in, the file of any tool out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.choices import FormatChoice, KindChoice
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    WHICH,
    CoverageOption,
    JsonOption,
    MinCountOption,
    MultipleOfOption,
    PinsOption,
    QuietOption,
    SizeOption,
)


def export(
    file: Annotated[
        str,
        typer.Argument(help="A frequency file, or counts of another tool; or owner/repo/file."),
    ],
    form: Annotated[
        FormatChoice,
        typer.Option(
            "--format", "-f", help="What to write: docs/formats.md.", rich_help_panel=OUTPUT
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="For npy a folder.", rich_help_panel=OUTPUT
        ),
    ],
    size: SizeOption = None,
    coverage: CoverageOption = None,
    min_count: MinCountOption = None,
    pins: PinsOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID|TOKEN",
            help="One more id to keep (digits are an id); a token's text needs --tokenizer. "
            "Repeat for more.",
            rich_help_panel=WHICH,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=W",
            help="Rank by the sources' shares times these weights (others weigh 1).",
            rich_help_panel=WHICH,
        ),
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=C",
            help="Grow until so much of a source is covered. Repeat for more.",
            rich_help_panel=WHICH,
        ),
    ] = None,
    multiple_of: MultipleOfOption = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            "-t",
            metavar="TOK",
            help="The tokenizer that counted, for --keep TOKEN.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    kind: Annotated[
        KindChoice,
        typer.Option(help="What FILE is, where it does not say.", rich_help_panel=INPUT),
    ] = KindChoice.auto,
    rows: Annotated[
        int | None,
        typer.Option(metavar="V", help="Rows, where FILE does not say.", rich_help_panel=INPUT),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace OUT, a file, whatever it is; take freq_K.pt for another number of ids.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Choose which ids to keep, and write them as the file that a tool expects.

    token-freq and vocab-freq hold the counts of all ids and take no size.
    """
    from vocabfreq.cli.exportrun import Export, run_export

    asked = Export(
        form=form.value,
        kind=kind.value,
        rows=rows,
        pins=pins.value if pins else "default",
        keep=tuple(keep or ()),
        tokenizer=tokenizer,
        wish={
            "size": size,
            "coverage": coverage,
            "min_count": min_count,
            "floors": _numbers(floor, "--floor"),
            "weights": _numbers(weight, "--weight"),
            "multiple_of": multiple_of or 1,
        },
    )
    if form in (FormatChoice.token_freq, FormatChoice.vocab_freq):
        _check_nothing_chosen(asked.wish | {"keep": keep, "pins": pins}, form)
    written = run_export(
        file, output, asked, force=force, note=lambda text: render.note(text, quiet=quiet)
    )
    written.show(as_json=as_json, quiet=quiet)


def _check_nothing_chosen(wish: dict[str, Any], form: str) -> None:
    """The formats of counts hold all ids: who reads them chooses."""
    unset = {"multiple_of": 1}
    given = [name for name, value in wish.items() if value != unset.get(name)]
    if given:
        names = {"floors": "floor", "weights": "weight"}
        option = names.get(given[0], given[0].replace("_", "-"))
        raise typer.BadParameter(
            f"--{option} with --format {form}, which holds the raw counts of all ids: the tool "
            "that reads it chooses among them; leave it out"
        )


def _numbers(texts: list[str] | None, option: str) -> dict[str, float] | None:
    """NAME=NUMBER, repeated; what numbers make sense is for the library to say."""
    numbers: dict[str, float] = {}
    for text in texts or []:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            name = ""
        if not name:
            raise typer.BadParameter(f"{option} {text!r}; expected NAME=NUMBER")
        if name in numbers:
            raise typer.BadParameter(f"{option} {name!r} twice; expected one number for it")
        numbers[name] = value
    return numbers or None
