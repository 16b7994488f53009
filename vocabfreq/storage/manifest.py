r"""SHA256SUMS: the files of a published folder and their checksums, in the format of `sha256sum`.

>>> make_manifest({"a.txt": b"hello"})
b'2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824  a.txt\n'
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from vocabfreq.errors import FileFormatError

MANIFEST = "SHA256SUMS"
MAX_BYTES = 1 << 20
_PUBLISHED = re.compile(
    r"vocab_freq\.safetensors|freq_\d+\.pt|config\.json|README\.md|coverage\.png"
)
_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64}) [ *](?P<name>.+)")


def leaves_folder(name: str) -> bool:
    """Whether a relative file name could point outside its folder."""
    path = PurePosixPath(name)
    odd = any(character in name for character in "\\:\0")
    return odd or not name or path.is_absolute() or ".." in path.parts


def make_manifest(files: Mapping[str, bytes]) -> bytes:
    """The manifest of files (name → content), sorted by name."""
    sums = {name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)}
    return "".join(f"{sha256}  {name}\n" for name, sha256 in sums.items()).encode()


def read_manifest(path: Path) -> dict[str, str]:
    """Reads a manifest as file name → sha256 in hex.

    Raises:
        FileFormatError: it is no manifest, too large, or names a file twice or outside the folder.
    """
    if path.stat().st_size > MAX_BYTES:
        raise FileFormatError(f"{path.name} is larger than {MAX_BYTES:,} bytes")
    sums: dict[str, str] = {}
    for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
        match = _LINE.fullmatch(line)
        if match is None or match["name"] in sums or not _is_plain(match["name"]):
            raise FileFormatError(
                f"{path.name}, line {number}: {line[:100]!r}",
                expected="a sha256 in hex, two spaces, a file name inside the folder, each once",
            )
        sums[match["name"]] = match["sha256"]
    return sums


def _is_plain(name: str) -> bool:
    """Whether a name is normalised (no `./x`, no `a//b`), and not the manifest itself."""
    return not leaves_folder(name) and PurePosixPath(name).as_posix() == name != MANIFEST


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_limit(name: str) -> int:
    """Largest accepted size of a file of this name in bytes."""
    if name == MANIFEST:
        return MAX_BYTES
    if name == "vocab_freq.safetensors":
        return 8 << 30
    return 1 << 62 if name.endswith((".safetensors", ".bin")) else 1 << 30


def is_published(name: str) -> bool:
    """Whether `vocabfreq push` makes files of this name."""
    return _PUBLISHED.fullmatch(name) is not None
