"""`verify`: what can be checked of a frequency file or a published repo, said in words."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from vocabfreq.errors import FileFormatError, VocabfreqError
from vocabfreq.formats import read
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.hub.contents import CONFIG, map_name
from vocabfreq.hub.pulling import fetch, listing_of
from vocabfreq.storage.manifest import MANIFEST, is_published, read_manifest, sha256_of
from vocabfreq.storage.resolve import Folder, open_folder


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        what: that was checked.
        found: what came out.
        ok: whether it is as it should be.
    """

    what: str
    found: str
    ok: bool = True


class Size(msgspec.Struct):
    """What config.json says of a size."""

    size: int
    fingerprint: str


class Tokenizer(msgspec.Struct):
    """What config.json says of the tokenizer."""

    sha256: str


class Config(msgspec.Struct):
    """What config.json says that can be checked."""

    rows: int
    tokenizer: Tokenizer
    sizes: list[Size] = []


def verify(source: str | Path) -> list[Check]:
    """Checks a frequency file, a folder that `pull` made, or a repo on the Hub.

    Args:
        source: a file, a folder, or `owner/name[@revision]`.

    Returns:
        What was checked, in order; it ends at the first thing that fails.

    Raises:
        FileFormatError: there is no such file, folder or repo.
    """
    path = Path(source).expanduser()
    if not str(source):
        raise FileFormatError("no name", expected="a file, a folder, or owner/name[@revision]")
    if path.is_file():
        return _run(_file(path))
    folder = open_folder(str(source), FileFormatError)
    return _run(_folder(folder) if folder.root is not None else _repo(folder))


def _run(checks: Iterator[Check]) -> list[Check]:
    done: list[Check] = []
    try:
        for check in checks:
            done.append(check)  # noqa: PERF402 (what was done before an error counts)
    except VocabfreqError as error:
        done.append(Check("stopped", str(error).replace("\n", " "), ok=False))
    return done


def _file(path: Path) -> Iterator[Check]:
    table = FrequencyTable.load(path)
    tokens = sum(source.tokens for source in table.sources)
    yield Check(
        "structure",
        f"format {table.meta.format}, counts int64 [{len(table.sources)}, {table.rows:,}], "
        "ids in range and unique",
    )
    yield Check("sums", f"counts add up to the {tokens:,} tokens of the sources")
    yield Check("ranking", "ranked_ids follow from counts and weights")


def _repo(folder: Folder) -> Iterator[Check]:
    listing = listing_of(folder)
    yield Check("commit", f"{folder.name} at {folder.revision}")
    total = sum(listing.sizes.values())
    others = sorted(set(listing.sizes) - set(listing.sums) - {MANIFEST, ".gitattributes"})
    told = f"; not named by the manifest: {', '.join(others[:8])}" if others else ""
    stale = [name for name in others if is_published(name)]
    yield Check(
        "names and sizes",
        f"{len(listing.sizes)} files, {total:,} bytes{told}",
        ok=not stale,
    )
    paths = fetch(folder, listing)
    yield from _contents(paths[MANIFEST].parent, dict(listing.sums))


def _folder(folder: Folder) -> Iterator[Check]:
    root = folder.root
    assert root is not None
    if not (root / MANIFEST).is_file():
        raise FileFormatError(f"{folder.name} has no {MANIFEST}", expected="what pull made")
    sums = read_manifest(root / MANIFEST)
    stale = sorted(p.name for p in root.glob("freq_*.pt") if p.name not in sums)
    if stale:
        raise FileFormatError(f"{', '.join(stale)} beside a {MANIFEST} that does not name it")
    yield from _contents(root, sums)


def _contents(root: Path, sums: dict[str, str]) -> Iterator[Check]:
    for name, wanted in sums.items():
        found = sha256_of(root / name) if (root / name).is_file() else "no such file"
        if found != wanted:
            raise FileFormatError(f"{name}: {found}", expected=f"sha256 {wanted}")
    yield Check("sha256", f"{len(sums)} files as {MANIFEST} says")
    if FREQUENCIES not in sums:
        raise FileFormatError(f"{MANIFEST} does not name {FREQUENCIES}")
    yield from _file(root / FREQUENCIES)
    yield from _maps(root, FrequencyTable.load(root / FREQUENCIES), sums)


def _config(path: Path) -> Config:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Config)
    except (msgspec.DecodeError, UnicodeError, RecursionError, ValueError) as error:
        raise FileFormatError(f"{CONFIG}: {error}", expected="what vocabfreq push wrote") from None


def _maps(root: Path, table: FrequencyTable, sums: dict[str, str]) -> Iterator[Check]:
    """Each token map is what the counts select, and config.json says the same."""
    told = _config(root / CONFIG) if CONFIG in sums else Config(0, Tokenizer(""))
    if (told.rows, told.tokenizer.sha256) != (table.rows, table.tokenizer.sha256):
        raise FileFormatError(f"{CONFIG} is of another tokenizer than {FREQUENCIES}")
    maps = {name for name in sums if name.endswith(".pt")}
    if maps != {map_name(entry.size) for entry in told.sizes}:
        raise FileFormatError(f"{CONFIG} and {MANIFEST} name other token maps: {sorted(maps)}")
    for entry in told.sizes:
        size = entry.size
        vocab, name = table.select(size), map_name(size)
        listed = read(root / name, "token-map", rows=table.rows)
        same = isinstance(listed, DraftVocab) and listed.fingerprint == vocab.fingerprint
        if not same or entry.fingerprint != vocab.fingerprint:
            raise FileFormatError(f"{name} or {CONFIG} is not what the counts select")
        yield Check(
            name, f"{size:,} ids, as the counts select; fingerprint {vocab.fingerprint[:12]}"
        )
