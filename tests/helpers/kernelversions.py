"""Compiles the kernels with several versions of Triton: registers, spills and shared memory.

    python tests/helpers/kernelversions.py [3.2.0 3.7.1 …] [--folder build/kernels]

Without versions: the oldest supported one, the one pinned in constraints.txt and the newest on
PyPI. Each is installed by pip into a folder of its own, which comes first on the path of the
process that compiles (`kernelcases.py`). Prints a Markdown table, a line for each compilation and
target, and fails where one does not compile, spills registers or needs too much shared memory.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

# The Triton of torch 2.6. Triton 3.1 cannot compile heads in float8 for sm_80, and spills.
OLDEST = "3.2.0"
HELPERS = Path(__file__).parent
ROOT = HELPERS.parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def supported_versions() -> list[str]:
    """The oldest, the pinned and the newest, each once."""
    pinned = re.search(r"^triton==(\S+)", CONSTRAINTS.read_text(), re.MULTILINE)
    listed = run_pip("index", "versions", "triton")
    newest = re.search(r"Available versions: ([^,\s]+)", listed)
    if pinned is None or newest is None:
        raise SystemExit("error: no triton== in constraints.txt, or none listed by the registry")
    return list(dict.fromkeys([OLDEST, pinned[1], newest[1]]))


def run_pip(*arguments: str) -> str:
    """Its output; a pin of Triton in the environment would forbid the other versions."""
    environment = {k: v for k, v in os.environ.items() if k != "PIP_CONSTRAINT"}
    command = [*PIP, *arguments]
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def install(version: str, folder: Path) -> Path:
    """A folder with this Triton alone."""
    path = folder / f"triton-{version}"
    if not (path / f"triton-{version}.dist-info").is_dir():
        run_pip("install", "-q", "--no-deps", "-t", str(path), f"triton=={version}")
    return path


def compile_kernels(path: Path) -> list[dict[str, Any]]:
    """The report of `kernelcases.py` with the Triton in a folder."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    search = [str(path), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, search))
    command = [sys.executable, str(HELPERS / "kernelcases.py"), "--json"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def table(reports: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Markdown; a cell holds registers / spilled bytes / shared bytes."""
    cells: dict[tuple[int, str], dict[str, str]] = {}
    for version, rows in reports.items():
        for row in rows:
            numbers = (str(row.get(key)) for key in ("registers", "spilled", "shared"))
            cell = row["problem"] if "error" in row else " / ".join(numbers)
            cells.setdefault((row["target"], row["case"]), {})[version] = cell
    lines = [f"| target | compilation | {' | '.join(reports)} |", "|---" * (2 + len(reports)) + "|"]
    for (target, case), found in sorted(cells.items()):
        columns = " | ".join(found.get(version, "no such target") for version in reports)
        lines.append(f"| sm_{target} | {case} | {columns} |")
    return lines


def main() -> None:
    """Installs, compiles, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--folder", type=Path, default=ROOT / "build/kernels")
    given = parser.parse_args()
    reports = {}
    for version in given.versions or supported_versions():
        print(f"triton {version} …", file=sys.stderr)
        reports[version] = compile_kernels(install(version, given.folder))
    print("Registers / spilled bytes / bytes of shared memory, by version of Triton.\n")
    print(*table(reports), sep="\n")
    wrong = [
        f"triton {version}, sm_{row['target']}, {row['case']}: {row['problem']}"
        for version, rows in reports.items()
        for row in rows
        if row["problem"]
    ]
    if wrong:
        raise SystemExit("\n".join(["error: kernels that cannot be used as they are", *wrong]))


if __name__ == "__main__":
    main()
