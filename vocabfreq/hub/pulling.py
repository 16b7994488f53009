"""`pull`: downloads a published repo into the cache or a folder, and checks every byte.

Names and sizes are checked before anything is downloaded, then the bytes against `SHA256SUMS`, then
the structure of the frequency file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError, OverwriteError
from vocabfreq.frequencies.frequency_file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.manifest import (
    MANIFEST,
    is_published,
    leaves_folder,
    read_manifest,
    size_limit,
)
from vocabfreq.storage.resolve import Folder, open_folder, unreachable_error

MAX_FILES = 10_000


def pull(repo: str, out: str | Path | None = None, *, force: bool = False) -> Path:
    """Downloads a published repo; files that its manifest does not name are left out.

    The revision is resolved to a commit once.

    Args:
        repo: `owner/name[@revision]`.
        out: a folder to write into; None leaves the files in the client's cache.
        force: replace other files of the same names in `out`.

    Returns:
        The folder, `out` or in the cache.

    Raises:
        FileFormatError: there is no such repo, or its files do not match its manifest.
        OverwriteError: other files are in the way.
    """
    if Path(repo).exists():
        raise FileFormatError(f"{repo!r} is a local path", expected="owner/name[@revision]")
    folder = open_folder(repo, FileFormatError)
    if folder.repo is None:
        raise FileFormatError(f"{repo!r} is a local folder", expected="owner/name[@revision]")
    paths = fetch(folder, list_repo(folder))
    FrequencyTable.load(paths[FREQUENCIES])
    if out is None:
        return paths[FREQUENCIES].parent
    return _copy(paths, Path(out), force)


@dataclass(frozen=True)
class Listing:
    """Names, sizes and hashes of the files of a commit.

    Attributes:
        sizes: name → bytes, of every file.
        sums: name → sha256, of the files that the manifest names and that a push makes.
    """

    sizes: Mapping[str, int]
    sums: Mapping[str, str]


def list_repo(folder: Folder) -> Listing:
    """Lists a repo and reads its manifest.

    Raises:
        FileFormatError: no repo of ours, names that leave the folder, or sizes above the limits.
    """
    sizes = _file_sizes(folder)
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
        if sizes.get(name, 0) > size_limit(name):
            raise FileFormatError(
                f"{folder.name}/{name} has {sizes[name]:,} bytes",
                expected=f"at most {size_limit(name):,}; nothing was fetched",
            )
    return Listing(sizes, sums)


def _file_sizes(folder: Folder) -> dict[str, int]:
    """Name → bytes; from the cache where the client is offline."""
    from huggingface_hub import HfApi, constants

    try:
        if constants.HF_HUB_OFFLINE:
            sizes = _cached_sizes(folder)
        else:
            tree: Any = HfApi().list_repo_tree(
                str(folder.repo), revision=folder.revision, recursive=True
            )
            sizes = {entry.path: entry.size for entry in tree if hasattr(entry, "size")}
    except Exception as error:  # the client's errors share no base from version to version
        raise unreachable_error(folder.name, error, FileFormatError) from None
    bad = [name for name in sizes if leaves_folder(name)]
    if bad or len(sizes) > MAX_FILES:
        found = f"a file called {bad[0]!r}" if bad else f"{len(sizes):,} files"
        raise FileFormatError(
            f"{folder.name} has {found}",
            expected=f"names inside the folder, at most {MAX_FILES:,}; nothing was fetched",
        )
    return sizes


def _cached_sizes(folder: Folder) -> dict[str, int]:
    manifest = folder.file(MANIFEST)
    if manifest is None:
        return {}
    root = manifest.parent
    files = [path for path in root.rglob("*") if path.is_file()]
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in files}


def fetch(folder: Folder, listing: Listing) -> dict[str, Path]:
    """Downloads the manifest and the files that it names; name → local path.

    Raises:
        FileFormatError: bytes that differ from the manifest; names the file.
    """
    paths: dict[str, Path] = {}
    for name in (MANIFEST, *listing.sums):
        path = folder.file(name)
        if path is None:
            raise FileFormatError(f"{folder.name} has no file {name!r}, which {MANIFEST} names")
        paths[name] = path
    for name in listing.sums:
        folder.verify(paths[name], name)
    return paths


def _copy(paths: dict[str, Path], out: Path, force: bool) -> Path:
    """Copies into a folder; other files in the way are found before anything is written."""
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
