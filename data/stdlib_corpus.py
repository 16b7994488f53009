"""Writes the Python standard library as JSON lines, a module a row: real text on every machine.

Usage: python data/stdlib_corpus.py > stdlib.jsonl

Tests and installed packages are left out, since machines differ in them.
"""

import json
import sys
import sysconfig
from pathlib import Path

LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}


def modules(root: Path) -> list[Path]:
    """Source files of the library, sorted."""
    found = (path for path in root.rglob("*.py") if path.is_file())
    return sorted(path for path in found if not LEFT_OUT & set(path.relative_to(root).parts))


def main() -> None:
    """Writes one row a module; the few that are not UTF-8 are left out."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in modules(root):
        try:
            row = {"file": str(path.relative_to(root)), "text": path.read_text("utf-8")}
        except UnicodeDecodeError:
            continue
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
