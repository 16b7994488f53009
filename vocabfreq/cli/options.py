"""Options that several verbs share, written once.

Names that several verbs take as options; they mirror those of the library, and load nothing.
"""

from enum import StrEnum
from typing import Annotated

import typer


class FormatChoice(StrEnum):
    """What to write."""

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
    """What a file is."""

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


class PinsChoice(StrEnum):
    """What is kept whatever its count."""

    default = "default"
    special = "special"
    none = "none"


WHICH, INPUT, OUTPUT = "Which ids", "Input", "Output"

SizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="K|P%",
        help="How many ids, pins included, or a share of V such as 25%.",
        rich_help_panel=WHICH,
    ),
]
CoverageOption = Annotated[
    float | None,
    typer.Option(metavar="C", help="As many as cover this share of tokens.", rich_help_panel=WHICH),
]
MinCountOption = Annotated[
    int | None,
    typer.Option(metavar="N", help="Every id counted at least so often.", rich_help_panel=WHICH),
]
PinsOption = Annotated[
    PinsChoice | None,
    typer.Option(
        help="What is kept whatever its count. Default: default, that is stop ids, the chat "
        "template's tokens, BOS, EOS, byte tokens; special: stop ids and every special token.",
        rich_help_panel=WHICH,
    ),
]
MultipleOfOption = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Round K up to a multiple of N.", rich_help_panel=WHICH),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No summary, no remarks.", rich_help_panel=OUTPUT)
]
