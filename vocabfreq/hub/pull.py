"""`pull`: a published repo into the local cache or a folder, every byte checked."""

from pathlib import Path

from vocabfreq.errors import FileFormatError, OverwriteError
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.hub.listing import Listing, listing_of
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.storage.manifest import MANIFEST
from vocabfreq.storage.resolve import Folder, open_folder


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
