"""Ids that `export --keep` names, as numbers or as the text of a token."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vocabfreq.errors import MismatchError, SelectionError
from vocabfreq.formats import Counts
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.tokenizer.encoders import load_reference
from vocabfreq.tokenizer.info import load_tokenizer


def ids_to_keep(
    keep: Sequence[str], counts: FrequencyTable | Counts, tokenizer: str | None
) -> list[int]:
    """Ids, ascending; text is encoded by the tokenizer.

    Args:
        keep: ids as decimal digits, or texts of one token each.
        counts: a table must have been counted with `tokenizer`.
        tokenizer: as `load_tokenizer` takes it, needed for texts.

    Raises:
        SelectionError: a text without a tokenizer, or one that is not one token.
        MismatchError: the table was counted with another tokenizer.
    """
    texts = [text for text in keep if not (text.isascii() and text.isdecimal())]
    ids = {text: int(text) for text in keep if text not in texts}
    if texts and tokenizer is None:
        raise SelectionError(
            f"--keep {texts[0]!r} is no id",
            expected="a number, or the text of a token and --tokenizer TOK",
        )
    if texts and tokenizer is not None:
        reference = load_reference(_tokenizer_path(tokenizer, counts))
        ids |= {text: _token_id(text, reference, tokenizer) for text in texts}
    return sorted(set(ids.values()))


def _tokenizer_path(tokenizer: str, counts: FrequencyTable | Counts) -> Path:
    info = load_tokenizer(tokenizer)
    if isinstance(counts, FrequencyTable) and info.sha256 != counts.tokenizer.sha256:
        raise MismatchError(
            f"{tokenizer} has tokenizer.json {info.sha256}, "
            f"the table was counted with {counts.tokenizer.sha256}",
            expected=f"the tokenizer {counts.tokenizer.name!r}",
        )
    return info.path


def _token_id(text: str, reference: Any, tokenizer: str) -> int:
    """The id of a token by its name in the tokenizer, or of text that encodes to it alone."""
    by_name = reference.token_to_id(text)
    ids = reference.encode(text, add_special_tokens=False).ids if by_name is None else [by_name]
    if len(ids) != 1:
        raise SelectionError(
            f"--keep {text!r} is {len(ids)} tokens of {tokenizer}: {', '.join(map(str, ids[:8]))}",
            expected="one token",
            hint="name the ids, each with --keep",
        )
    return int(ids[0])
