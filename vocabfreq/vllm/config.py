"""What a user asks for in `additional_config["vocabfreq"]`, read and checked.

Which ids a target's drafter keeps: what is asked for, held against the target's configuration.

Asked twice: when the engine is configured, before a weight is read, and by whoever prunes.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from vocabfreq.errors import RefusedError, SelectionError
from vocabfreq.formats.reading import load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.tokenizer.fingerprint import check_tokenizers, local_folders

KEY = "vocabfreq"
METHODS = ("eagle", "eagle3", "mtp")
EXAMPLE = '{"vocabfreq": {"vocab": "PATH or OWNER/NAME", "size": 32768}}'
VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "size": (lambda value: _number(value, int, str), 'a number of ids, or a share such as "25%",'),
    "coverage": (lambda value: _number(value, int, float), "a number such as 0.95"),
    "multiple_of": (lambda value: _number(value, int), "a number of ids"),
    "allow_other_tokenizer": (lambda value: isinstance(value, bool), "true or false"),
}


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
        SelectionError: it is mentioned, but not as it should be; a key that is nearly `KEY` counts.
    """
    if not isinstance(additional_config, dict):
        return None
    if KEY not in additional_config:
        _check_similar(list(additional_config))
        return None
    told = additional_config[KEY]
    if not isinstance(told, dict) or not isinstance(told.get("vocab"), str):
        raise SelectionError(f"additional_config[{KEY!r}] {told!r}", expected=EXAMPLE)
    names = [field.name for field in fields(Asked)]
    unknown = sorted(set(map(str, told)) - set(names))
    if unknown:
        raise SelectionError(
            f"additional_config[{KEY!r}] has {', '.join(unknown)}",
            expected=f"only {', '.join(names)}",
        )
    _check_values(told)
    return Asked(**told)


def _check_similar(names: list[Any]) -> None:
    """A mistyped key would be a drafter that nobody prunes.

    Raises:
        SelectionError: one is nearly `KEY`.
    """
    similar = get_close_matches(KEY, [str(name).lower().replace("_", "") for name in names], 1, 0.8)
    if similar:
        raise SelectionError(
            f"additional_config has {', '.join(map(repr, names))}",
            expected=f"{KEY!r} for a pruned drafter",
        )


def _check_values(told: dict[str, Any]) -> None:
    """JSON's types are what a user typed: "true" is a text.

    Raises:
        SelectionError: a value of another kind.
    """
    for name, (fits, expected) in VALUES.items():
        value = told.get(name)
        if value is not None and not fits(value):
            raise SelectionError(
                f"additional_config[{KEY!r}] has {name} {value!r}", expected=f"{expected} as {name}"
            )


def _number(value: Any, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def kept_ids(asked: Asked, config: Any) -> tuple[DraftVocab, list[str]]:
    """The ids, and remarks for the log.

    Args:
        asked: which ids.
        config: the target's `ModelConfig`.

    Raises:
        RefusedError: they are for another number of rows.
        MismatchError: they were counted with another tokenizer.
        SelectionError: the wish cannot be met.
        FileFormatError: the vocabulary cannot be read.
    """
    rows = int(config.get_vocab_size())
    vocab = load_vocab(asked.vocab, asked.wish, rows)
    if vocab.rows != rows:
        raise RefusedError(
            f"the vocabulary {asked.vocab!r} is for V = {vocab.rows:,}, the target has {rows:,}",
            expected="one number of rows",
            hint="take ids that were counted for this target",
        )
    folders = local_folders(str(config.tokenizer), getattr(config, "tokenizer_revision", None))
    return vocab, list(check_tokenizers(vocab.tokenizer, folders, asked.allow_other_tokenizer))
