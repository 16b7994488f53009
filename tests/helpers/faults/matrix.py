"""Prints what each kind of fault did to builds: `python tests/helpers/faults/matrix.py [--quick]`.

Exits with 1 when anything came of one: other bytes, a child left, a file left, a wrong exit code.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import disks, kills, pairs, parts, reads, signals
from faults.scene import Row, Scene

CHANGES = [way for way in reads.WAYS if way != "kill"]
COLUMNS = ("tried", "struck", "resumes", "differences", "children", "litter", "wrong", "seconds")
Scenario = tuple[str, Callable[[], Row]]


def scenarios(scene: Scene, quick: bool) -> Iterator[Scenario]:
    """Everything that is tried, in order of the table."""
    yield from _kills(scene, quick)
    yield from _signals(scene, 4 if quick else 12)
    yield from _disks(scene, quick)
    yield from _files(scene, quick)
    yield "two builds at once", partial(pairs.many_builds, scene, 3 if quick else 10)
    yield "two builds at once, 2 workers", partial(pairs.many_builds, scene, 2 if quick else 5, 2)
    yield "one part counted twice at once", partial(pairs.two_counts, scene)


def _kills(scene: Scene, quick: bool) -> Iterator[Scenario]:
    some = kills.worker_steps(scene)[:: 6 if quick else 1]
    times = ["before"] if quick else ["before", "after", "torn"]
    yield "SIGKILL at every step", partial(kills.every_step, scene, times)
    yield "SIGKILL of 2 workers and parent", partial(kills.steps_of_workers, scene, "group", some)
    yield "SIGKILL of a worker at a step", partial(kills.steps_of_workers, scene, "self", some)


def _signals(scene: Scene, times: int) -> Iterator[Scenario]:
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        for jobs in (0, 2):
            send = partial(signals.random_signals, scene, number, times, jobs=jobs)
            yield f"{number.name} to the parent, {jobs} workers", send
    for number in (signal.SIGINT, signal.SIGTERM):
        send = partial(signals.random_signals, scene, number, times, to_all=True)
        yield f"{number.name} to the whole group", send
    yield "SIGKILL to one worker", partial(signals.random_worker_kills, scene, times)
    yield "orphan that holds Python's lock", partial(signals.worker_holds_the_lock, scene)
    yield "orphan in a 30 MB document", partial(signals.busy_worker, scene)


def _disks(scene: Scene, quick: bool) -> Iterator[Scenario]:
    some = [n for n in disks.need_room(scene) if n in kills.worker_steps(scene)]
    yield "disk full from a step on", partial(disks.full_steps, scene, disks.need_room(scene))
    yield (
        "disk full, 2 workers",
        partial(disks.full_steps, scene, some[:: 4 if quick else 1], 2),
    )
    for what, size in (("work dir", "8k"), ("work dir", "12k"), ("output", "8k")):
        if disks.can_mount():
            yield f"tmpfs of {size} full: {what}", partial(disks.small, scene, what, size)


def _files(scene: Scene, quick: bool) -> Iterator[Scenario]:
    yield "EIO, file changed under way", partial(reads.bad_reads, scene, CHANGES)
    some = CHANGES[: 1 if quick else None]
    yield "the same, 2 workers", partial(reads.bad_reads, scene, some, 2)
    yield "EIO while planning", partial(reads.bad_plans, scene)
    yield "OOM: a file kills its worker", partial(reads.bad_reads, scene, ["kill"], 2)
    yield "every bit of a partial file", partial(parts.all_bits, scene)
    yield "harmed partial files", partial(parts.all_harms, scene)


def main() -> int:
    """Tries all, prints a line each."""
    print(f"{'':34}" + "".join(f"{name:>12}" for name in COLUMNS))
    total, wrong = Row(), []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        scene = Scene(Path(folder))
        for name, scenario in scenarios(scene, "--quick" in sys.argv):
            started = time.monotonic()
            row = scenario()
            _print(name, row, time.monotonic() - started)
            total += row
            if not row.good:
                wrong += [name, *(f"    {told}" for told in row.wrong)]
    _print("all", total, time.monotonic() - began)
    print("\n".join(wrong))
    return 1 if wrong else 0


def _print(name: str, row: Row, seconds: float) -> None:
    numbers = [*(vars(row)[column] for column in COLUMNS[:-2]), len(row.wrong)]
    print(f"{name:34}" + "".join(f"{n:>12,}" for n in numbers) + f"{seconds:>12.1f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
