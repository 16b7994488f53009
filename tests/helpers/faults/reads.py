"""Files of the corpus that cannot be read, change under way, or kill who opens them."""

import os
import shutil
from collections.abc import Iterable

from faults.kills import each
from faults.scene import Row, Scene

WAYS = ("eio", "truncate", "overwrite", "replace", "kill")
TOLD = {
    "eio": os.strerror(5),
    "truncate": "is no longer what was planned",
    "overwrite": "is no longer what was planned",
    "replace": "is no longer what was planned",
    "kill": "the worker that counted it was killed, twice",
}


def bad_read(scene: Scene, how: str, name: str, workers: int = 0, at: int | None = None) -> Row:
    """One file fails as it is counted: it is named, the others are kept; then it is mended."""
    attempt = scene.attempt()
    at = at or scene.opened[name]
    faults = {"read": how, "read_name": name, "read_at": at}
    done = attempt.build(faults, workers)
    row = Row(tried=1, struck=attempt.struck(), children=done.children)
    named = name in done.errors and (TOLD[how] in done.errors or _ends_early(how, name))
    right = done.code == 1 and named and "Traceback" not in done.errors
    row.expect(right, f"{how} of {name} gave {done.code}: {done.errors[-500:]}")
    if at == scene.opened[name]:
        kept = len(attempt.parts)
        row.expect(kept == len(scene.names) - 1, f"{how} of {name}: {kept} partial files kept")
    row.expect(not attempt.output.exists(), f"{how} of {name}: a file was written")
    shutil.copy2(scene.folder / "data" / name, attempt.folder / "data" / name)
    return attempt.go_on(row, workers)


def _ends_early(how: str, name: str) -> bool:
    """A table that loses its end under way cannot even be read to the end."""
    return how in ("truncate", "overwrite") and name.endswith(".parquet")


def bad_reads(scene: Scene, ways: Iterable[str], workers: int = 0) -> Row:
    """Every way with every file."""
    return each(bad_read, [(scene, how, name, workers) for how in ways for name in scene.names])


def bad_plans(scene: Scene) -> Row:
    """A file that cannot be read fails already while the build is planned."""
    cases = [(scene, "eio", name, 0, at) for name in scene.names for at in (1, 2)]
    return each(bad_read, cases)
