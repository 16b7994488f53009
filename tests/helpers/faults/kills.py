"""SIGKILL at every step that writes, signals at random times, workers that die."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from faults.scene import Row, Scene

KINDS = ("mkdir", "mkstemp", "write", "fsync", "chmod", "replace", "sync folder", "unlink", "rmdir")


def each(function: Callable[..., Row], cases: Iterable[tuple[Any, ...]], together: int = 2) -> Row:
    """Tries the cases, a few at once, and adds up."""
    with ThreadPoolExecutor(together) as pool:
        return sum(pool.map(lambda case: function(*case), cases), Row())


def kill_at(scene: Scene, step: int, when: str, who: str = "group", workers: int = 0) -> Row:
    """A build that is killed at one step, then gone on with."""
    attempt = scene.attempt()
    done = attempt.build({"at": step, "when": when, "who": who}, workers)
    row = Row(tried=1, struck=attempt.struck(), children=done.children)
    row.expect(row.struck == 1, f"step {step} was never taken")
    row.expect(done.code == (0 if who == "self" and workers else -9), f"{step} gave {done.code}")
    return attempt.go_on(row, workers)


def missing_kinds(scene: Scene) -> list[str]:
    """Kinds of steps that the undisturbed build did not take; 5 files are 5 of most."""
    files = len(scene.names) + 2
    least = dict.fromkeys(KINDS, files) | {"mkdir": 1, "rmdir": 1}
    found = [kind for kind, _ in scene.steps]
    return [kind for kind in KINDS if found.count(kind) < least[kind]]


def every_step(scene: Scene, times: Iterable[str] = ("before", "after", "torn")) -> Row:
    """One process; all its steps, and writes also by half."""
    steps = list(enumerate(scene.steps, 1))
    cases = [
        (scene, number, when)
        for when in times
        for number, (kind, _) in steps
        if when != "torn" or kind == "write"
    ]
    row = each(kill_at, cases)
    row.expect(not missing_kinds(scene), f"no step of the kinds {missing_kinds(scene)}")
    return row


def steps_of_workers(scene: Scene, who: str, steps: Iterable[int]) -> Row:
    """Two workers; the group is killed, or (self) the worker that takes the step."""
    return each(kill_at, [(scene, step, "before", who, 2) for step in steps])


def worker_steps(scene: Scene) -> list[int]:
    """Steps that only workers take, whatever their order: those of partial files."""
    named = [number for number, (_, name) in enumerate(scene.steps, 1) if ".part.safet" in name]
    return [n for n in named if scene.steps[n - 1][0] != "unlink"]
