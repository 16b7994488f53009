"""Options that choose ids: `export` and `prune` share them."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Annotated, Any

from vocabfreq.cli.options import SELECTION


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
        SELECTION.option("K|P%", "Number of ids, pins included, or a share of V such as 25%."),
    ] = None
    coverage: Annotated[
        float | None,
        SELECTION.option("C", "As many ids as cover this share of tokens, such as 0.95."),
    ] = None
    min_count: Annotated[
        int | None, SELECTION.option("N", "Every id that was counted at least N times.")
    ] = None
    multiple_of: Annotated[int, SELECTION.option("N", "Round K up to a multiple of N.", min=1)] = 1
    pins: Annotated[
        PinsChoice | None,
        SELECTION.option(
            "PINS",
            "Ids kept whatever their count. default: stop ids, BOS, EOS, tokens of the chat "
            "template, byte tokens; special: stop ids and all special tokens; none.",
        ),
    ] = None

    def criteria(self) -> dict[str, Any]:
        """The arguments of `select` that were given."""
        values = {field.name: getattr(self, field.name) for field in fields(SelectionOptions)}
        defaults = {field.name: field.default for field in fields(SelectionOptions)}
        return {name: value for name, value in values.items() if value != defaults[name]}
