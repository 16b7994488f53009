"""What a user asks for in `additional_config["vocabfreq"]`, read and checked."""

from dataclasses import dataclass, fields
from typing import Any

from vocabfreq.errors import SelectionError

KEY = "vocabfreq"
METHODS = ("eagle", "eagle3", "mtp")
EXAMPLE = '{"vocabfreq": {"vocab": "PATH or OWNER/NAME", "size": 32768}}'


@dataclass(frozen=True)
class Asked:
    """What is asked for.

    Attributes:
        vocab: a frequency file or a file of ids, or a repo on the Hub.
        size: K, or a share of V such as "25%".
        coverage: K by coverage, instead of a size.
        multiple_of: K is rounded up to a multiple of this.
        allow_other_tokenizer: take ids that were counted with another tokenizer.json.
    """

    vocab: str
    size: int | str | None = None
    coverage: float | None = None
    multiple_of: int | None = None
    allow_other_tokenizer: bool = False

    @property
    def wish(self) -> dict[str, Any]:
        """How the ids are selected, as `FrequencyTable.select` takes it."""
        given = {name: getattr(self, name) for name in ("size", "coverage", "multiple_of")}
        return {name: value for name, value in given.items() if value is not None}


def asked_of(additional_config: Any) -> Asked | None:
    """What is asked for, None when vocabfreq is not mentioned.

    Raises:
        SelectionError: it is mentioned, but not as it should be.
    """
    if not isinstance(additional_config, dict) or KEY not in additional_config:
        return None
    told = additional_config[KEY]
    names = [field.name for field in fields(Asked)]
    if not isinstance(told, dict) or not isinstance(told.get("vocab"), str):
        raise SelectionError(f"additional_config[{KEY!r}] {told!r}", expected=EXAMPLE)
    unknown = sorted(set(map(str, told)) - set(names))
    if unknown:
        raise SelectionError(
            f"additional_config[{KEY!r}] has {', '.join(unknown)}",
            expected=f"only {', '.join(names)}",
        )
    return Asked(**told)
