"""What is to be counted, and how: options of `build` and of `plan`, and the plan they make."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from vocabfreq.corpus.sources import Source
    from vocabfreq.counting.plan import Plan

INPUT, COUNT, OUTPUT = "What to count", "How to count", "Output"


class RolesChoice(StrEnum):
    """Whose turns of a chat count."""

    assistant = "assistant"
    all = "all"


class EngineChoice(StrEnum):
    """Where shards run."""

    local = "local"
    ray = "ray"


class EncoderChoice(StrEnum):
    """Which engine encodes."""

    auto = "auto"
    gigatoken = "gigatoken"
    tokenizers = "tokenizers"


TokenizerOption = Annotated[
    str,
    typer.Option(
        "--tokenizer",
        "-t",
        metavar="TOK",
        help="Folder, tokenizer.json, or owner/name[@revision] on the Hub.",
        rich_help_panel=INPUT,
    ),
]
SourceOption = Annotated[
    list[str],
    typer.Option(
        "--source",
        "-s",
        metavar="[NAME=]SPEC",
        help="A file or glob (jsonl, json, parquet, arrow, txt; gz, zst), - for standard "
        "input, or a Hub data set org/name[:config][:split][@revision]. Repeat for more.",
        rich_help_panel=INPUT,
    ),
]
ModelConfigOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIR|REPO",
        help="Where config.json says how many rows the model has and which ids stop it. "
        "Default: beside the tokenizer, if it is there.",
        rich_help_panel=INPUT,
    ),
]
ColumnOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]COLUMN",
        help="Column to count, of every source or of one. Default: the obvious one.",
        rich_help_panel=INPUT,
    ),
]
RolesOption = Annotated[
    RolesChoice,
    typer.Option(help="Whose turns of a chat count.", rich_help_panel=INPUT),
]
SeparatorOption = Annotated[
    str | None,
    typer.Option(
        help=r"Splits plain text into documents; \n, \t and \0 are understood. "
        "Default: a file is one document.",
        rich_help_panel=INPUT,
    ),
]
MaxDocumentsOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Count only the first N documents of each source.", rich_help_panel=INPUT
    ),
]
WeightOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=W",
        help="Rank by the sources' shares times these weights (others weigh 1). Default: by "
        "raw counts.",
        rich_help_panel=COUNT,
    ),
]
HoldoutOption = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="Hold out one document in N to measure coverage; 0 for none.",
        rich_help_panel=COUNT,
    ),
]
EncoderOption = Annotated[
    EncoderChoice,
    typer.Option(
        help="auto takes gigatoken where it works, and checks a sample of it.",
        rich_help_panel=COUNT,
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Worker processes; 0 counts in this process. Default: one a core.",
        rich_help_panel=COUNT,
    ),
]
EngineOption = Annotated[
    EngineChoice,
    typer.Option(help="Worker processes, or tasks of a Ray cluster.", rich_help_panel=COUNT),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDR",
        help="Of a Ray cluster (auto, HOST:6379). Default: one on this machine.",
        rich_help_panel=COUNT,
    ),
]


def planned(
    tokenizer: str, model_config: str | None, sources: "list[Source]", **options: Any
) -> "Plan":
    """The plan of these sources; options as `CountOptions` has them."""
    from vocabfreq.counting.plan import CountOptions, make_plan

    return make_plan(sources, tokenizer, CountOptions(model_config=model_config, **options))


def asked_sources(
    specs: list[str],
    columns: list[str] | None,
    roles: RolesChoice,
    separator: str | None,
    max_documents: int | None,
) -> "list[Source]":
    """Sources with their columns: `--column COL` for all, `--column NAME=COL` for one."""
    from dataclasses import replace

    from vocabfreq.corpus.sources import parse_source

    options: dict[str, Any] = {"roles": roles.value, "max_documents": max_documents}
    sources = [parse_source(spec, separator=_unescaped(separator), **options) for spec in specs]
    for text in sorted(columns or [], key=lambda text: "=" in text):  # those for all sources first
        name, equals, column = text.rpartition("=")
        named = [s.name for s in sources]
        if equals and name not in named:
            raise typer.BadParameter(f"no source {name!r} among {', '.join(named)}")
        sources = [replace(s, column=column) if name in ("", s.name) else s for s in sources]
    return sources


def asked_weights(texts: list[str] | None) -> dict[str, float] | None:
    """`--weight NAME=W` as a mapping."""
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
