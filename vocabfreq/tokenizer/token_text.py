"""Token ids as text that a person can read."""

from pathlib import Path
from typing import Any

from vocabfreq.errors import MismatchError, TokenizerError
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.tokenizer.encoders import load_reference
from vocabfreq.tokenizer.info import load_tokenizer


class TokenText:
    """Writes ids as text; without a tokenizer, as bare numbers."""

    def __init__(self, path: Path | None = None) -> None:
        self._tokenizer: Any = None if path is None else load_reference(path)

    def __call__(self, token_id: int) -> str:
        """Text of one id, quoted, with everything invisible escaped; "" when it is not known."""
        if self._tokenizer is None:
            return ""
        text = self._tokenizer.decode([token_id], skip_special_tokens=False)
        if "\ufffd" in text or not text:  # part of a character, or a token that decodes to nothing
            text = self._tokenizer.id_to_token(token_id) or ""
        return repr(text) if text else ""

    @property
    def known(self) -> bool:
        """Whether there is a tokenizer."""
        return self._tokenizer is not None


def token_text(table: FrequencyTable, spec: str | None, beside: Path) -> TokenText:
    """The tokenizer of a table: the one given, or one beside the file.

    Raises:
        MismatchError: the one given has another fingerprint.
    """
    if spec is not None:
        info = load_tokenizer(spec)
        if info.sha256 != table.tokenizer.sha256:
            raise MismatchError(
                f"{spec} has tokenizer.json {info.sha256}, the table was counted with "
                f"{table.tokenizer.sha256}",
                expected=f"the tokenizer {table.tokenizer.name!r}",
            )
        return TokenText(info.path)
    local = beside.parent / "tokenizer.json"
    if not local.is_file():
        return TokenText()
    try:
        found = load_tokenizer(str(local))
    except TokenizerError:
        return TokenText()
    return TokenText(found.path if found.sha256 == table.tokenizer.sha256 else None)
