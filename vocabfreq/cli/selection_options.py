"""Options that choose ids: `export` and `prune` share them."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

import typer

SELECTION = "Which ids"


class PinsChoice(StrEnum):
    """Ids that are kept whatever their count."""

    default = "default"
    special = "special"
    none = "none"


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Arguments of `FrequencyTable.select`."""

    size: Annotated[
        str | None,
        typer.Option(
            metavar="K|P%",
            help="Number of ids, pins included, or a share of V such as 25%.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    coverage: Annotated[
        float | None,
        typer.Option(
            metavar="C",
            help="As many ids as cover this share of tokens, such as 0.95.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    min_count: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Every id that was counted at least N times.",
            rich_help_panel=SELECTION,
        ),
    ] = None
    multiple_of: Annotated[
        int,
        typer.Option(
            min=1, metavar="N", help="Round K up to a multiple of N.", rich_help_panel=SELECTION
        ),
    ] = 1
    pins: Annotated[
        PinsChoice | None,
        typer.Option(
            metavar="PINS",
            help="Ids kept whatever their count. default: stop ids, BOS, EOS, tokens of the chat "
            "template, byte tokens; special: stop ids and all special tokens; none.",
            rich_help_panel=SELECTION,
        ),
    ] = None

    def criteria(self) -> dict[str, Any]:
        """The arguments of `select` that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(SelectionOptions)}
        defaults = {field.name: field.default for field in fields(SelectionOptions)}
        return {name: value for name, value in values.items() if value != defaults[name]}
