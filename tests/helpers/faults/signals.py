"""Signals at random times: to the build, to all its processes, to one worker, to its parent."""

import os
import random
import signal
import time
from collections.abc import Callable

from faults.kills import each
from faults.processes import Command, is_worker, members, processor_seconds, workers
from faults.scene import Row, Scene

CODES = {signal.SIGKILL: -9, signal.SIGINT: 130, signal.SIGTERM: 143}


def signal_at(scene: Scene, number: signal.Signals, at: float, to_all: bool, jobs: int) -> Row:
    """A build that gets a signal after so many seconds, then is gone on with."""
    attempt = scene.attempt()
    command = attempt.start(workers=jobs)
    time.sleep(at)
    begun = bool(attempt.steps())
    row = Row(tried=1, struck=int(command.send(number, to_all)))
    done = command.finish()
    row.children = done.children
    if begun and row.struck and not attempt.output.exists():
        right = done.code == CODES[number]
        row.expect(right, f"{number.name} gave {done.code}: {done.errors[-300:]}")
        told = number == signal.SIGKILL or "To resume: vocabfreq build" in done.errors
        row.expect(told, f"{number.name}: no command to resume in {done.errors[-300:]!r}")
        row.expect("Traceback" not in done.errors, done.errors[-500:])
    return attempt.go_on(row, jobs)


def random_signals(
    scene: Scene, number: signal.Signals, times: int, to_all: bool = False, jobs: int = 2
) -> Row:
    """Signals all over the time that a build takes; some come too late."""
    draw = random.Random(f"{number.name} {to_all} {jobs}")
    span = scene.seconds * (1.3 if jobs else 1)
    cases = [(scene, number, draw.uniform(0.1, 1) * span, to_all, jobs) for _ in range(times)]
    return each(signal_at, cases)


def kill_worker(scene: Scene, seconds: float) -> Row:
    """SIGKILL to one worker: its shard is counted by another, and the build ends well."""
    attempt = scene.attempt()
    command = attempt.start(workers=2)
    found: list[int] = []
    while not found and command.alive():
        found = workers(command.session)
    time.sleep(seconds)
    row = Row(tried=1)
    if found and is_worker(found[0]):
        os.kill(found[0], signal.SIGKILL)
        row.struck = 1
    done = command.finish()
    row.children = done.children
    row.expect(done.code == 0, f"a killed worker gave {done.code}: {done.errors[-300:]}")
    return attempt.go_on(row, 2)


def random_worker_kills(scene: Scene, times: int) -> Row:
    """From a worker's first moment to its first shard."""
    draw = random.Random(3)
    return each(kill_worker, [(scene, draw.uniform(0, 0.5)) for _ in range(times)])


def worker_holds_the_lock(scene: Scene) -> Row:
    """The parent is killed while a worker runs C code that lets no other thread run."""
    attempt, name = scene.attempt(), scene.names[0]
    faults = {"read": "hold", "read_name": name, "read_at": scene.opened[name]}
    return attempt.go_on(_orphaned(attempt.start(faults, workers=2), attempt.struck), 2)


def busy_worker(scene: Scene, megabytes: int = 30) -> Row:
    """The parent is killed while a worker encodes one document of many MB."""
    attempt = scene.attempt()
    big = attempt.folder / "data" / scene.names[0]
    right = big.read_bytes()
    big.write_text('{"text": "' + "abc the hello é, " * (megabytes * 10**6 // 18) + '"}\n')
    attempt.extra = ["--encoder", "tokenizers"]
    command = attempt.start(workers=2)
    row = _orphaned(command, lambda: _encodes(command))
    big.write_bytes(right)
    attempt.extra = []
    return attempt.go_on(row, 2)


def _encodes(command: Command) -> bool:
    """Whether a worker has had more processor time than its start and reading take."""
    return any(processor_seconds(pid) > 1.5 for pid in workers(command.session))


def _orphaned(command: Command, ready: Callable[[], object]) -> Row:
    """Kills the parent when the worker is ready for it."""
    deadline = time.monotonic() + 60
    while not ready() and command.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    row = Row(tried=1)
    row.expect(len(members(command.session)) > 1, "no worker was alive")
    row.struck = int(command.send(signal.SIGKILL))
    row.children = command.finish().children
    return row
