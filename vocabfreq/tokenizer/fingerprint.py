"""Whether folders have the tokenizer that counted, by the sha256 of tokenizer.json."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from vocabfreq.errors import MismatchError

TOKENIZER = "tokenizer.json"


def local_folders(name: str, revision: str | None = None) -> list[Path]:
    """The folder of a model's tokenizer.json, if it is on this machine; nothing is downloaded.

    Args:
        name: folder, or repo on the Hub, `owner/name[@revision]`.
        revision: of the repo, where the name has none.
    """
    if Path(name).is_dir():
        return [Path(name)]
    repo, _, pinned = name.partition("@")
    try:
        cached = try_to_load_from_cache(repo, TOKENIZER, revision=pinned or revision)
    except ValueError:  # no name of a repo
        return []
    return [Path(cached).parent] if isinstance(cached, str) else []


def tokenizer_sha256(folder: Path) -> str | None:
    """sha256 of a folder's tokenizer.json in hex, None when it has none."""
    path = folder / TOKENIZER
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_tokenizers(
    counted: str | None, folders: Iterable[Path], allow_other: bool = False
) -> Iterator[str]:
    """Compares the tokenizer that counted with those of folders; what is not known passes.

    Args:
        counted: sha256 of the tokenizer.json that counted.
        folders: of drafter and target.
        allow_other: say that two differ, and go on.

    Yields:
        Remarks.

    Raises:
        MismatchError: two differ; shows both.
    """
    if counted is None:
        return
    for folder in folders:
        found = tokenizer_sha256(folder)
        if found is not None and found != counted:
            wrong = f"the tokenizer.json of {str(folder)!r} has sha256 {found}"
            if allow_other:
                yield f"{wrong}, {counted} counted: see that the same tokens have the same ids"
                continue
            raise MismatchError(
                wrong,
                expected=f"{counted}, the tokenizer that counted",
                hint="count with this tokenizer (vocabfreq build -t), so that ids mean the same; "
                "where the files differ and the ids do not, --allow-other-tokenizer "
                "(allow_other_tokenizer=True)",
            )
