"""Two commands at once in one work directory."""

import random
import time

from faults.processes import Command
from faults.scene import Row, Scene


def two_builds(scene: Scene, apart: float, workers: int = 0) -> Row:
    """One is done; the other is refused, or done too."""
    attempt = scene.attempt()
    first = attempt.start(workers=workers)
    time.sleep(apart)
    second = attempt.start(workers=workers)
    row = Row(tried=1, struck=int(first.alive()))
    done = [command.finish() for command in (first, second)]
    row.children = sum(result.children for result in done)
    codes = sorted(result.code for result in done)
    told = "; ".join(result.errors[-300:] for result in done)
    row.expect(codes in ([0, 0], [0, 4]), f"two builds gave {codes}: {told}")
    row.expect(codes[1] != 4 or "another build is writing into" in told, told)
    return attempt.go_on(row, workers)


def many_builds(scene: Scene, times: int, workers: int = 0) -> Row:
    """The second starts anywhere between the start and the end of the first."""
    draw = random.Random(5)
    spans = [0, *(draw.uniform(0, scene.seconds) for _ in range(times - 1))]
    return sum((two_builds(scene, span, workers) for span in spans), Row())


def two_counts(scene: Scene) -> Row:
    """The same part of a plan twice at once, then the other, then the merge."""
    attempt = scene.attempt()
    plan = attempt.folder / "plan.json"
    _run("plan", "-t", scene.folder / "tok", *attempt.sources, "-o", plan, "-q")
    counts = ["count", "--plan", plan, "--workers", 0, "-q", "--num-shards", 2, "--shard-index"]
    both = [Command([*counts, 0]) for _ in range(2)]
    codes = [command.finish().code for command in both]
    _run(*counts, 1)
    _run("merge", "--plan", plan, "-o", attempt.output, "-q")
    row = Row(tried=1, struck=1)
    row.expect(codes == [0, 0], f"two counts gave {codes}")
    row.differences += attempt.output.read_bytes() != scene.want
    row.litter += len(list(attempt.folder.rglob(".*.tmp")))
    return row


def _run(*words: object) -> None:
    done = Command(words).finish()
    assert done.code == 0, done.errors
