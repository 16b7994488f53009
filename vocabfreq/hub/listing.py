"""What a repo says that it holds, looked at before anything is fetched."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.storage.manifest import (
    MANIFEST,
    is_published,
    leaves_folder,
    limit_of,
    read_manifest,
)
from vocabfreq.storage.resolve import Folder, unreachable

MAX_FILES = 10_000


@dataclass(frozen=True)
class Listing:
    """Names, sizes and sums.

    Attributes:
        sizes: name → bytes, of every file of the commit.
        sums: name → sha256, of the files that the manifest names and that a push makes.
    """

    sizes: Mapping[str, int]
    sums: Mapping[str, str]


def listing_of(folder: Folder) -> Listing:
    """Lists a repo and reads its manifest.

    Raises:
        FileFormatError: no repo of ours, names that leave the folder, sizes beyond reason.
    """
    sizes = _sizes(folder)
    for name in (MANIFEST, FREQUENCIES):
        if name not in sizes:
            raise FileFormatError(
                f"{folder.name} at {folder.revision} has no {name}",
                expected="a repo that vocabfreq push made",
            )
    path = folder.file(MANIFEST)
    assert path is not None
    sums = {name: sha for name, sha in read_manifest(path).items() if is_published(name)}
    if FREQUENCIES not in sums:
        raise FileFormatError(f"the {MANIFEST} of {folder.name} does not name {FREQUENCIES}")
    for name in sums:
        if sizes.get(name, 0) > limit_of(name):
            raise FileFormatError(
                f"{folder.name}/{name} has {sizes[name]:,} bytes",
                expected=f"at most {limit_of(name):,}; nothing was fetched",
            )
    return Listing(sizes, sums)


def _sizes(folder: Folder) -> dict[str, int]:
    try:
        entries = _entries(folder)
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable(folder.name, failure, FileFormatError) from None
    bad = [name for name in entries if leaves_folder(name)]
    if bad or len(entries) > MAX_FILES:
        told = f"a file called {bad[0]!r}" if bad else f"{len(entries):,} files"
        raise FileFormatError(
            f"{folder.name} has {told}",
            expected=f"names inside the folder, at most {MAX_FILES:,}; nothing was fetched",
        )
    return entries


def _entries(folder: Folder) -> dict[str, int]:
    """Name → size; from the cache where the client is told to stay offline."""
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return _cached(folder)
    tree: Any = HfApi().list_repo_tree(str(folder.repo), revision=folder.revision, recursive=True)
    return {entry.path: entry.size for entry in tree if hasattr(entry, "size")}


def _cached(folder: Folder) -> dict[str, int]:
    path = folder.file(MANIFEST)
    root = None if path is None else path.parent
    files = [] if root is None else [p for p in root.rglob("*") if p.is_file()]
    return {p.relative_to(root).as_posix(): p.stat().st_size for p in files if root is not None}
