"""Whether folders have the tokenizer that counted, by the sha256 of tokenizer.json."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from vocabfreq.errors import MismatchError

TOKENIZER = "tokenizer.json"


def tokenizer_sha256(folder: Path) -> str | None:
    """sha256 of a folder's tokenizer.json in hex, None when it has none."""
    path = folder / TOKENIZER
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_tokenizers(counted: str | None, folders: Iterable[Path]) -> None:
    """Compares the tokenizer that counted with those of folders; what is not known passes.

    Raises:
        MismatchError: two differ; shows both.
    """
    if counted is None:
        return
    for folder in folders:
        found = tokenizer_sha256(folder)
        if found is not None and found != counted:
            raise MismatchError(
                f"the tokenizer.json of {str(folder)!r} has sha256 {found}",
                expected=f"{counted}, the tokenizer that counted",
                hint="count with this tokenizer (vocabfreq build -t), so that ids mean the same",
            )
