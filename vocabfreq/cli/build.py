"""`vocabfreq build`: corpora in, one ranked frequency file out."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vocabfreq.planning import Plan

_INPUT, _COUNT, _OUTPUT = "What to count", "How to count", "Output"


class RolesChoice(StrEnum):
    """Whose turns of a chat count."""

    assistant = "assistant"
    all = "all"


class EncoderChoice(StrEnum):
    """Which engine encodes."""

    auto = "auto"
    gigatoken = "gigatoken"
    tokenizers = "tokenizers"


def build(
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer",
            "-t",
            metavar="TOK",
            help="Folder, tokenizer.json, or owner/name[@revision] on the Hub.",
            rich_help_panel=_INPUT,
        ),
    ],
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="[NAME=]SPEC",
            help="A file or glob (jsonl, json, parquet, arrow, txt; gz, zst), - for standard "
            "input, or a Hub data set org/name[:config][:split][@revision]. Repeat for more.",
            rich_help_panel=_INPUT,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", rich_help_panel=_OUTPUT)
    ] = Path("vocab_freq.safetensors"),
    model_config: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|REPO",
            help="Where config.json says how many rows the model has and which ids stop it. "
            "Default: beside the tokenizer, if it is there.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]COLUMN",
            help="Column to count, of every source or of one. Default: the obvious one.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    roles: Annotated[
        RolesChoice,
        typer.Option(help="Whose turns of a chat count.", rich_help_panel=_INPUT),
    ] = RolesChoice.assistant,
    separator: Annotated[
        str | None,
        typer.Option(
            help=r"Splits plain text into documents; \n, \t and \0 are understood. "
            "Default: a file is one document.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    max_documents: Annotated[
        int | None,
        typer.Option(
            min=1, help="Count only the first N documents of each source.", rich_help_panel=_INPUT
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=W",
            help="Rank by the sources' shares times these weights (others weigh 1). Default: by "
            "raw counts.",
            rich_help_panel=_COUNT,
        ),
    ] = None,
    holdout: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Hold out one document in N to measure coverage; 0 for none.",
            rich_help_panel=_COUNT,
        ),
    ] = 50,
    max_bad_rows: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Above so many skipped rows the exit code is 3 (the file is written).",
            rich_help_panel=_COUNT,
        ),
    ] = 1000,
    encoder: Annotated[
        EncoderChoice,
        typer.Option(
            help="auto takes gigatoken where it works, and checks a sample of it.",
            rich_help_panel=_COUNT,
        ),
    ] = EncoderChoice.auto,
    workers: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Worker processes; 0 counts in this process. Default: one a core.",
            rich_help_panel=_COUNT,
        ),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where partial files go, to be kept. Default: FILE.parts, removed when done.",
            rich_help_panel=_COUNT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace FILE even if it is no frequency file.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan (shards, bytes) and stop.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress, no remarks.", rich_help_panel=_OUTPUT),
    ] = False,
) -> None:
    """Count how often each token id occurs in text, and rank the ids.

    Every document is encoded as plain text, without BOS or EOS. The same command again continues
    where an interrupted one stopped.
    """
    from vocabfreq.cli.buildrun import Outcome, run_build, show_plan
    from vocabfreq.planning import CountOptions, make_plan
    from vocabfreq.tokenizer import load_tokenizer

    options = CountOptions(
        holdout=holdout,
        encoder=encoder.value,
        workers=workers,
        weights=_weights(weight),
        work_dir=work_dir or Path(f"{output}.parts"),
    )
    sources = _sources(
        source,
        column or [],
        roles=roles.value,
        separator=_unescaped(separator),
        max_documents=max_documents,
    )
    plan: Plan = make_plan(sources, load_tokenizer(tokenizer, model_config), options)
    if dry_run:
        show_plan(plan, as_json)
        return
    keep = work_dir is not None
    outcome: Outcome = run_build(plan, output, force=force, keep=keep, quiet=quiet or as_json)
    outcome.show(as_json=as_json, max_bad_rows=max_bad_rows, quiet=quiet)
    raise typer.Exit(outcome.exit_code(max_bad_rows))


def _sources(specs: list[str], columns: list[str], **options: Any) -> list[Any]:
    """Sources with their columns: `--column COL` for all, `--column NAME=COL` for one."""
    from dataclasses import replace

    from vocabfreq.sources.plan import parse_source

    sources = [parse_source(spec, **options) for spec in specs]
    for text in sorted(columns, key=lambda text: "=" in text):  # those for all sources first
        name, equals, column = text.rpartition("=")
        named = [s.name for s in sources]
        if equals and name not in named:
            raise typer.BadParameter(f"no source {name!r} among {', '.join(named)}")
        sources = [replace(s, column=column) if name in ("", s.name) else s for s in sources]
    return sources


def _weights(texts: list[str] | None) -> dict[str, float] | None:
    if not texts:
        return None
    weights = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            weights[name] = float(number)
        except ValueError:
            weights[name] = -1.0
        if not name or not 0 <= weights[name] < float("inf"):
            raise typer.BadParameter(f"--weight {text!r}; expected NAME=W with a number W ≥ 0")
    return weights


def _unescaped(separator: str | None) -> str | None:
    if separator is None:
        return None
    if not separator:
        raise typer.BadParameter("--separator is empty; expected at least one character")
    for written, meant in ((r"\n", "\n"), (r"\t", "\t"), (r"\r", "\r"), (r"\0", "\0")):
        separator = separator.replace(written, meant)
    return separator
