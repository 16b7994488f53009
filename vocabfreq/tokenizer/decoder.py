"""Token ids → text that a person can read."""

from pathlib import Path
from typing import Any

from vocabfreq.errors import MismatchError, TokenizerError
from vocabfreq.tokenizer.encoders import load_reference
from vocabfreq.tokenizer.info import load_tokenizer


class TokenDecoder:
    """Shows token ids as text; without a tokenizer every text is empty."""

    def __init__(self, path: Path | None = None) -> None:
        self._tokenizer: Any = None if path is None else load_reference(path)

    def __call__(self, token_id: int) -> str:
        """Text of one id, quoted, with everything invisible escaped; "" when it is unknown."""
        if self._tokenizer is None:
            return ""
        text = self._tokenizer.decode([token_id], skip_special_tokens=False)
        if "\ufffd" in text or not text:  # part of a character, or a token that decodes to nothing
            text = self._tokenizer.id_to_token(token_id) or ""
        return repr(text) if text else ""

    @property
    def has_tokenizer(self) -> bool:
        """Whether texts can be shown."""
        return self._tokenizer is not None


def load_decoder(spec: str | None, folder: Path, *, sha256: str, name: str) -> TokenDecoder:
    """The decoder of a given tokenizer, or of the one in a folder if it is the right one.

    Args:
        spec: a tokenizer.json, a folder that has one, or `owner/name[@revision]`;
            None looks in `folder`.
        folder: where a tokenizer.json may lie.
        sha256: of the tokenizer.json that counted.
        name: of the tokenizer that counted, for messages.

    Raises:
        TokenizerError: `spec` names no tokenizer.
        MismatchError: the tokenizer of `spec` has another sha256.
    """
    if spec is None:
        try:
            info = load_tokenizer(str(folder / "tokenizer.json"))
        except TokenizerError:
            return TokenDecoder()
        return TokenDecoder(info.path if info.sha256 == sha256 else None)
    info = load_tokenizer(spec)
    if info.sha256 != sha256:
        raise MismatchError(
            f"{spec} has tokenizer.json {info.sha256}, the table was counted with {sha256}",
            expected=f"the tokenizer {name!r}",
        )
    return TokenDecoder(info.path)
