"""`verify`: checks a frequency file, a pulled folder or a published repo, and lists each check."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from vocabfreq.errors import FileFormatError, VocabfreqError
from vocabfreq.formats import read
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.frequency_file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.hub.contents import CONFIG, map_name
from vocabfreq.hub.pulling import fetch, list_repo
from vocabfreq.storage.manifest import MANIFEST, file_sha256, is_published, read_manifest
from vocabfreq.storage.resolve import Folder, open_folder


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: of the check.
        detail: what was found.
        ok: whether it passed.
    """

    name: str
    detail: str
    ok: bool = True


class SizeEntry(msgspec.Struct):
    """A published size in config.json."""

    size: int
    fingerprint: str


class TokenizerEntry(msgspec.Struct):
    """The tokenizer in config.json."""

    sha256: str


class RepoConfig(msgspec.Struct):
    """The part of config.json that is checked."""

    rows: int
    tokenizer: TokenizerEntry
    sizes: list[SizeEntry] = []


def verify(source: str | Path) -> list[Check]:
    """Checks a frequency file, a folder that `pull` wrote, or a repo on the Hub.

    Args:
        source: a file, a folder, or `owner/name[@revision]`.

    Returns:
        The checks in order; the first that raises an error is the last.

    Raises:
        FileFormatError: there is no such file, folder or repo.
    """
    path = Path(source).expanduser()
    if not str(source):
        raise FileFormatError("no name", expected="a file, a folder, or owner/name[@revision]")
    if path.is_file():
        checks = _check_file(path)
    else:
        folder = open_folder(str(source), FileFormatError)
        checks = _check_repo(folder) if folder.root is None else _check_folder(folder.root)
    done: list[Check] = []
    try:
        for check in checks:
            done.append(check)  # noqa: PERF402 (checks before an error are kept)
    except VocabfreqError as error:
        done.append(Check("stopped", str(error).replace("\n", " "), ok=False))
    return done


def _check_file(path: Path) -> Iterator[Check]:
    table = FrequencyTable.load(path)
    tokens = sum(source.tokens for source in table.sources)
    yield Check(
        "structure",
        f"format {table.meta.format}, counts int64 [{len(table.sources)}, {table.rows:,}], "
        "ids in range and unique",
    )
    yield Check("sums", f"counts add up to the {tokens:,} tokens of the sources")
    yield Check("ranking", "ranked_ids follow from counts and weights")


def _check_repo(folder: Folder) -> Iterator[Check]:
    listing = list_repo(folder)
    yield Check("commit", f"{folder.name} at {folder.revision}")
    total = sum(listing.sizes.values())
    unlisted = sorted(set(listing.sizes) - set(listing.sums) - {MANIFEST, ".gitattributes"})
    note = f"; not named by the manifest: {', '.join(unlisted[:8])}" if unlisted else ""
    yield Check(
        "names and sizes",
        f"{len(listing.sizes)} files, {total:,} bytes{note}",
        ok=not any(map(is_published, unlisted)),
    )
    paths = fetch(folder, listing)
    yield from _check_contents(paths[MANIFEST].parent, dict(listing.sums))


def _check_folder(root: Path) -> Iterator[Check]:
    if not (root / MANIFEST).is_file():
        raise FileFormatError(
            f"{root.resolve().name} has no {MANIFEST}", expected="a folder that pull wrote"
        )
    sums = read_manifest(root / MANIFEST)
    stale = sorted(path.name for path in root.glob("freq_*.pt") if path.name not in sums)
    if stale:
        raise FileFormatError(
            f"{', '.join(stale)} next to a {MANIFEST} that does not name it",
            hint="delete it, or pull into an empty folder",
        )
    yield from _check_contents(root, sums)


def _check_contents(root: Path, sums: dict[str, str]) -> Iterator[Check]:
    for name, expected in sums.items():
        found = file_sha256(root / name) if (root / name).is_file() else "no such file"
        if found != expected:
            raise FileFormatError(f"{name}: {found}", expected=f"sha256 {expected}")
    yield Check("sha256", f"{len(sums)} files match {MANIFEST}")
    if FREQUENCIES not in sums:
        raise FileFormatError(f"{MANIFEST} does not name {FREQUENCIES}")
    yield from _check_file(root / FREQUENCIES)
    yield from _check_maps(root, FrequencyTable.load(root / FREQUENCIES), sums)


def _check_maps(root: Path, table: FrequencyTable, sums: dict[str, str]) -> Iterator[Check]:
    """Checks that the counts select the ids of each token map, and config.json agrees."""
    config = _read_config(root / CONFIG) if CONFIG in sums else RepoConfig(0, TokenizerEntry(""))
    if (config.rows, config.tokenizer.sha256) != (table.rows, table.tokenizer.sha256):
        raise FileFormatError(f"{CONFIG} is of another tokenizer than {FREQUENCIES}")
    maps = {name for name in sums if name.endswith(".pt")}
    if maps != {map_name(entry.size) for entry in config.sizes}:
        raise FileFormatError(f"{CONFIG} and {MANIFEST} name other token maps: {sorted(maps)}")
    for entry in config.sizes:
        selected, name = table.select(entry.size), map_name(entry.size)
        published = read(root / name, "token-map", rows=table.rows)
        same = isinstance(published, DraftVocab) and published.fingerprint == selected.fingerprint
        if not same or entry.fingerprint != selected.fingerprint:
            raise FileFormatError(f"{name} or {CONFIG} differs from what the counts select")
        fingerprint = selected.fingerprint[:12]
        yield Check(name, f"{entry.size:,} ids, as the counts select; fingerprint {fingerprint}")


def _read_config(path: Path) -> RepoConfig:
    try:
        return msgspec.json.decode(path.read_bytes(), type=RepoConfig)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise FileFormatError(f"{CONFIG}: {error}", expected="what vocabfreq push wrote") from None
