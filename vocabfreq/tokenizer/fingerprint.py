"""Compares tokenizers by the sha256 of tokenizer.json, so that ids mean the same everywhere."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from vocabfreq.errors import MismatchError
from vocabfreq.storage.manifest import file_sha256

TOKENIZER = "tokenizer.json"


def local_folders(name: str, revision: str | None = None) -> list[Path]:
    """The folder of a model's tokenizer.json if it is on this machine; nothing is downloaded.

    Args:
        name: folder, or repo on the Hub, `owner/name[@revision]`.
        revision: of the repo, where the name has none.

    Returns:
        The folder, or nothing when it is not on this machine.
    """
    if Path(name).is_dir():
        return [Path(name)]
    repo, _, pinned = name.partition("@")
    try:
        cached = try_to_load_from_cache(repo, TOKENIZER, revision=pinned or revision)
    except ValueError:  # not the name of a repo
        return []
    return [Path(cached).parent] if isinstance(cached, str) else []


def tokenizer_sha256(folder: Path) -> str | None:
    """sha256 of a folder's tokenizer.json in hex, None when it has none."""
    path = folder / TOKENIZER
    return file_sha256(path) if path.is_file() else None


def check_tokenizers(
    sha256: str | None, folders: Iterable[Path], allow_other: bool = False
) -> Iterator[str]:
    """Compares the tokenizer that counted with those of model folders; unknown ones pass.

    Args:
        sha256: of the tokenizer.json that counted, None when it is unknown.
        folders: of drafter and target.
        allow_other: yield a remark where two differ instead of raising.

    Yields:
        Remarks.

    Raises:
        MismatchError: two differ; names both checksums.
    """
    if sha256 is None:
        return
    for folder in folders:
        found = tokenizer_sha256(folder)
        if found is None or found == sha256:
            continue
        wrong = f"the tokenizer.json of {str(folder)!r} has sha256 {found}"
        if not allow_other:
            raise MismatchError(
                wrong,
                expected=f"{sha256}, the tokenizer that counted",
                hint="count with this tokenizer (vocabfreq build -t), so that ids mean the same; "
                "where the files differ and the ids do not, --allow-other-tokenizer "
                "(allow_other_tokenizer=True)",
            )
        yield f"{wrong}, {sha256} counted: see that the same tokens have the same ids"
