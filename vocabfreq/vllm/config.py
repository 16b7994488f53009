"""The plugin's options, `additional_config["vocabfreq"]`, and the ids that they select.

The ids are selected twice: when the engine is configured, so that errors come before a weight is
read, and when the drafter is pruned.
"""

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
# Types of the optional values, and how an error names them.
VALUES: dict[str, tuple[tuple[type, ...], str]] = {
    "size": ((int, str), 'a number of ids, or a share such as "25%",'),
    "coverage": ((int, float), "a number such as 0.95"),
    "multiple_of": ((int,), "a number of ids"),
    "allow_other_tokenizer": ((bool,), "true or false"),
}


@dataclass(frozen=True)
class PluginConfig:
    """The options of the plugin.

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
    def selection(self) -> dict[str, Any]:
        """Arguments of `FrequencyTable.select`."""
        given = {name: getattr(self, name) for name in ("size", "coverage", "multiple_of")}
        return {name: value for name, value in given.items() if value is not None}


def read_plugin_config(additional_config: Any) -> PluginConfig | None:
    """Reads the options, None where vocabfreq is not mentioned.

    Raises:
        SelectionError: a key that is almost `KEY`, an unknown option, or a value of a wrong type.
    """
    if not isinstance(additional_config, dict):
        return None
    if KEY not in additional_config:
        _check_similar_keys(list(additional_config))
        return None
    options = additional_config[KEY]
    if not isinstance(options, dict) or not isinstance(options.get("vocab"), str):
        raise SelectionError(f"additional_config[{KEY!r}] {options!r}", expected=EXAMPLE)
    names = [field.name for field in fields(PluginConfig)]
    unknown = sorted(set(map(str, options)) - set(names))
    if unknown:
        raise SelectionError(
            f"additional_config[{KEY!r}] has {', '.join(unknown)}",
            expected=f"only {', '.join(names)}",
        )
    for name, (types, expected) in VALUES.items():
        value = options.get(name)
        fits = isinstance(value, types) and (bool in types or not isinstance(value, bool))
        if value is not None and not fits:
            raise SelectionError(
                f"additional_config[{KEY!r}] has {name} {value!r}", expected=f"{expected} as {name}"
            )
    return PluginConfig(**options)


def _check_similar_keys(names: list[Any]) -> None:
    """Refuses a mistyped key, which would leave the drafter unpruned in silence.

    Raises:
        SelectionError: a key is almost `KEY`.
    """
    similar = get_close_matches(KEY, [str(name).lower().replace("_", "") for name in names], 1, 0.8)
    if similar:
        raise SelectionError(
            f"additional_config has {', '.join(map(repr, names))}",
            expected=f"{KEY!r} for a pruned drafter",
        )


def select_ids(plugin_config: PluginConfig, model_config: Any) -> tuple[DraftVocab, list[str]]:
    """The ids that the drafter keeps, and remarks for the log.

    Args:
        plugin_config: the options.
        model_config: the target's `ModelConfig`.

    Raises:
        RefusedError: the vocabulary is for another number of rows.
        MismatchError: it was counted with another tokenizer.
        SelectionError: the selection is impossible.
        FileFormatError: the vocabulary cannot be read.
    """
    rows = int(model_config.get_vocab_size())
    vocab = load_vocab(plugin_config.vocab, plugin_config.selection, rows)
    if vocab.rows != rows:
        raise RefusedError(
            f"the vocabulary {plugin_config.vocab!r} is for V = {vocab.rows:,}, the target has "
            f"{rows:,}",
            expected="one number of rows",
            hint="take ids that were counted for this target",
        )
    revision = getattr(model_config, "tokenizer_revision", None)
    folders = local_folders(str(model_config.tokenizer), revision)
    allowed = plugin_config.allow_other_tokenizer
    return vocab, list(check_tokenizers(vocab.tokenizer, folders, allowed))
