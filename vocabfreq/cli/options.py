"""Options that several verbs share, and `with_options`, which makes a command of a dataclass.

Everything here is imported by `vocabfreq --help`: choices mirror those of the library as enums, so
that nothing of the library is loaded.
"""

from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

INPUT, COUNTED, OUTPUT, RUN = "Input", "What counts", "Output", "How it runs"

Options = TypeVar("Options")


def with_options(cls: type[Options]) -> Callable[[Callable[[Options], None]], Callable[..., None]]:
    """Makes a Typer command of a function that takes one dataclass of options.

    Args:
        cls: a dataclass; the annotation of a field says how the option is parsed, the default of
            the field is the default of the option.
    """

    def decorate(verb: Callable[[Options], None]) -> Callable[..., None]:
        @wraps(verb)
        def command(**values: Any) -> None:
            verb(cls(**values))

        hints = get_type_hints(cls, include_extras=True)
        parameters = [
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=Parameter.empty if field.default is MISSING else field.default,
                annotation=hints[field.name],
            )
            for field in fields(cls)  # type: ignore[arg-type]
        ]
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = hints
        return command

    return decorate


def flag(*names: str, help: str, panel: str | None = None) -> Any:  # noqa: A002 (as in Typer)
    """An option without a value; Typer would show `<bool>` beside it."""
    return typer.Option(*names, metavar="", help=help, rich_help_panel=panel)


def parse_integers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers from 1, separated by commas, each once.

    Raises:
        typer.BadParameter: a part is something else.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers from 1, separated by commas: {option} 1,8"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def parse_named_numbers(texts: list[str] | None, option: str) -> dict[str, float] | None:
    """NAME=NUMBER, repeated; the library checks the range of the numbers.

    Raises:
        typer.BadParameter: no name, no number, or the same name twice.
    """
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


def input_arguments(kind: "KindChoice", rows: int | None) -> list[str]:
    """`--kind` and `--rows` as they were given, for a command in a hint."""
    given = [] if kind == KindChoice.auto else ["--kind", kind.value]
    return given if rows is None else [*given, "--rows", str(rows)]


class FormatChoice(StrEnum):
    """File formats that can be written."""

    draft_vocab = "draft-vocab"
    token_map = "token-map"  # noqa: S105 (no password)
    token_freq = "token-freq"  # noqa: S105 (no password)
    vocab_freq = "vocab-freq"
    npy = "npy"
    mapping = "mapping"
    modelopt = "modelopt"
    nemo = "nemo"
    json = "json"


class KindChoice(StrEnum):
    """File formats that can be read."""

    auto = "auto"
    token_map = "token-map"  # noqa: S105 (no password)
    vocab_freq = "vocab-freq"
    token_freq = "token-freq"  # noqa: S105 (no password)
    npy = "npy"
    mapping = "mapping"
    modelopt = "modelopt"
    nemo = "nemo"
    checkpoint = "checkpoint"
    json = "json"
    text = "text"
    draft_vocab = "draft-vocab"
    frequency = "frequency"


class DtypeChoice(StrEnum):
    """Dtype of weights and activations."""

    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"


FormatOption = Annotated[
    FormatChoice,
    typer.Option(
        "--format",
        "-f",
        metavar="FORMAT",
        help=f"Format to write, see docs/formats.md: {', '.join(FormatChoice)}.",
        rich_help_panel=OUTPUT,
    ),
]
KindOption = Annotated[
    KindChoice,
    typer.Option(
        metavar="KIND",
        help=f"Format of the input, if the file is ambiguous: {', '.join(KindChoice)}.",
        rich_help_panel=INPUT,
    ),
]
RowsOption = Annotated[
    int | None,
    typer.Option(
        metavar="V",
        help="Rows of the target's head, if the input does not say.",
        rich_help_panel=INPUT,
    ),
]
PlanOption = Annotated[
    Path, typer.Option("--plan", metavar="PLAN", help="Plan file, written by vocabfreq plan.")
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Worker processes; 0 counts in this process. Default: one per core.",
        rich_help_panel=RUN,
    ),
]
TokenTextOption = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        "-t",
        metavar="TOK",
        help="Tokenizer that shows ids as text. Default: tokenizer.json next to the file.",
    ),
]
OtherTokenizerOption = Annotated[
    bool,
    flag(
        "--allow-other-tokenizer",
        help="Accept ids that were counted with another tokenizer.json than the model's.",
        panel=INPUT,
    ),
]
JsonOption = Annotated[bool, flag("--json", help="Print the result as JSON.", panel=OUTPUT)]
QuietOption = Annotated[
    bool, flag("--quiet", "-q", help="Print no summary, no progress and no remarks.", panel=OUTPUT)
]
NoRemarksOption = Annotated[
    bool, flag("--quiet", "-q", help="Print no progress and no remarks.", panel=OUTPUT)
]
