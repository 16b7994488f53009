"""`pull`: a published repo into the local cache or a folder, every byte checked.

What a repo says that it holds, looked at before anything is fetched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError, OverwriteError
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.manifest import (
    MANIFEST,
    is_published,
    leaves_folder,
    limit_of,
    read_manifest,
)
from vocabfreq.storage.resolve import Folder, open_folder, unreachable

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


def pull(repo: str, out: str | Path | None = None, *, force: bool = False) -> Path:
    """Fetches a published repo.

    The revision is resolved to a commit once. Names and sizes are looked at before anything is
    fetched, then the bytes against `SHA256SUMS`, then the frequency file against itself. Files that
    the manifest does not name are not fetched.

    Args:
        repo: `owner/name[@revision]`.
        out: a folder to write into; None leaves the files in the client's cache.
        force: replace other files of the same names in `out`.

    Returns:
        The folder, `out` or in the cache.

    Raises:
        FileFormatError: there is no such repo, or its files are not what it says.
        OverwriteError: other files are in the way.
    """
    if Path(repo).exists():
        raise FileFormatError(f"{repo!r} is a local path", expected="owner/name[@revision]")
    folder = open_folder(repo, FileFormatError)
    if folder.repo is None:
        raise FileFormatError(f"{repo!r} is a local folder", expected="owner/name[@revision]")
    paths = fetch(folder, listing_of(folder))
    FrequencyTable.load(paths[FREQUENCIES])
    if out is None:
        return paths[FREQUENCIES].parent
    return _copied(paths, Path(out), force)


def fetch(folder: Folder, listing: Listing) -> dict[str, Path]:
    """Local paths of the files of a manifest, and of the manifest; each is what it says.

    Raises:
        FileFormatError: bytes that differ from the manifest; names the file.
    """
    paths = {name: folder.file(name) for name in (MANIFEST, *listing.sums)}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise FileFormatError(f"{folder.name} has no file {missing[0]!r}, which {MANIFEST} names")
    found = {name: path for name, path in paths.items() if path is not None}
    for name in listing.sums:
        folder.compare(found[name], name)
    return found


def _copied(paths: dict[str, Path], out: Path, force: bool) -> Path:
    """Copies into a folder; looks for what is in the way before it writes."""
    for name, path in paths.items():
        there = out / name
        if there.exists() and not force and there.read_bytes() != path.read_bytes():
            raise OverwriteError(
                f"{there} is in the way", expected="the same file, or none", hint="--force replaces"
            )
    out.mkdir(parents=True, exist_ok=True)
    for name, path in sorted(paths.items(), key=lambda item: item[0] == MANIFEST):
        write_atomically(out / name, path.read_bytes())  # the manifest last: then all is there
    return out
