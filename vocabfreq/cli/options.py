"""Options that several verbs share, and `with_options`, which makes a command of a dataclass.

Everything here is imported by `vocabfreq --help`: choices mirror those of the library as enums, so
that nothing of the library is loaded.
"""

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")


@dataclass(frozen=True)
class Panel:
    """A panel of `--help` and the options in it."""

    title: str

    def option(self, metavar: str | None, help: str, *names: str, **limits: Any) -> Any:  # noqa: A002
        r"""An option with a value.

        Args:
            metavar: the value in `--help`; None lists the choices of an enum.
            help: the text in `--help`, which Rich reads as markup: `[` is written as `\[`.
            *names: default: the name of the parameter.
            **limits: `min` and `max` of a number.
        """
        return typer.Option(
            *names, metavar=metavar, help=help, rich_help_panel=self.title, **limits
        )

    def flag(self, help: str, *names: str) -> Any:  # noqa: A002
        """An option without a value; Typer would show `<bool>` as its metavar."""
        return self.option("", help, *names)


def argument(metavar: str, help: str) -> Any:  # noqa: A002
    """A positional argument."""
    return typer.Argument(metavar=metavar, help=help)


GENERAL = Panel("Options")
INPUT, OUTPUT = Panel("Input"), Panel("Output")
COUNTED, RUN = Panel("What counts"), Panel("How it runs")
SELECTION = Panel("Which ids")


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
    OUTPUT.option(
        "FORMAT",
        f"Format to write, see docs/formats.md: {', '.join(FormatChoice)}.",
        "--format",
        "-f",
    ),
]
KindOption = Annotated[
    KindChoice,
    INPUT.option(
        "KIND", f"Format of the input, if the file is ambiguous: {', '.join(KindChoice)}."
    ),
]
RowsOption = Annotated[
    int | None, INPUT.option("V", "Rows of the target's head, if the input does not say.")
]
FileArgument = Annotated[Path, argument("FILE", "Frequency file.")]
PlanOption = Annotated[
    Path, GENERAL.option("PLAN", "Plan file, written by vocabfreq plan.", "--plan")
]
WorkersOption = Annotated[
    int | None,
    RUN.option("N", "Worker processes; 0 counts in this process. Default: one per core.", min=0),
]
TokenTextOption = Annotated[
    str | None,
    GENERAL.option(
        "TOK",
        "Tokenizer that shows ids as text. Default: tokenizer.json next to the file.",
        "--tokenizer",
        "-t",
    ),
]
OtherTokenizerOption = Annotated[
    bool,
    INPUT.flag(
        "Accept ids that were counted with another tokenizer.json than the model's.",
        "--allow-other-tokenizer",
    ),
]
JsonOption = Annotated[bool, OUTPUT.flag("Print the result as JSON.", "--json")]
QuietOption = Annotated[
    bool, OUTPUT.flag("Print no summary, no progress and no remarks.", "--quiet", "-q")
]
NoRemarksOption = Annotated[bool, OUTPUT.flag("Print no progress and no remarks.", "--quiet", "-q")]
