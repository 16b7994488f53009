"""docs/architecture.md names only files and names that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "vocabfreq"
PAGE = ROOT / "docs" / "architecture.md"


@pytest.mark.skipif(not PAGE.exists(), reason="no docs beside an installed wheel")
def test_the_architecture_page_names_what_exists() -> None:
    quoted = set(re.findall(r"`([\w./]+)`", PAGE.read_text()))
    files = {name for name in quoted if "/" in name or name.endswith(".py")}
    words = {word for p in PACKAGE.rglob("*.py") for word in re.findall(r"\w+", p.read_text())}
    missing = {
        name for name in files if not any((root / name).exists() for root in (ROOT, PACKAGE))
    }
    missing |= {name for name in quoted - files if not set(name.split(".")) <= words}
    assert len(files) > 30
    assert not missing
