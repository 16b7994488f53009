"""Checks that no circle of files exists in the imports of vocabfreq; prints the graph's size.

Imports inside functions and under `TYPE_CHECKING` count. The order of the rooms is checked by
import-linter (`lint-imports`, contracts in pyproject.toml).

    python .ci/import_graph.py            check, exit 1 and print a circle if there is one
    python .ci/import_graph.py --rooms    files and lines of each room, too
"""

import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Returns 1 if files import each other in a circle, else 0."""
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph("vocabfreq", cache_dir=None)
    imports = {m: graph.find_modules_directly_imported_by(m) for m in graph.modules}
    if "--rooms" in sys.argv:
        print_rooms()
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        print("circle of imports: " + " <- ".join(error.args[1]))
        return 1
    print(f"{len(imports)} files, {sum(map(len, imports.values()))} imports, no circle")
    return 0


def print_rooms() -> None:
    """Prints files and lines of each room."""
    for room in sorted((ROOT / "vocabfreq").iterdir()):
        files = [room] if room.suffix == ".py" else sorted(room.rglob("*.py"))
        if files:
            lines = sum(len(file.read_text().splitlines()) for file in files)
            print(f"{room.name:<14}{len(files):>4} files {lines:>6} lines")


if __name__ == "__main__":
    sys.exit(main())
