"""Measures what else the machine did during a measurement: CPU time of other programs, in cores.

Wall times on a busy machine are worth little; this shows how busy it was.
"""

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

STAT = Path("/proc/stat")
BUSY = (1, 2, 3, 6, 7, 8)  # user, nice, system, irq, softirq, steal (proc_stat(5))


@dataclass(frozen=True)
class Moment:
    """Clocks at one time, in seconds.

    Attributes:
        wall: a monotonic clock.
        own: CPU time of this process and of its children that have ended.
        all: CPU time of the whole machine, None where there is no /proc/stat.
    """

    wall: float
    own: float
    all: float | None


def now() -> Moment:
    """The clocks."""
    return Moment(time.perf_counter(), spent(resource.RUSAGE_SELF) + children(), busy())


def children() -> float:
    """CPU seconds of all descendants that have ended and were waited for."""
    return spent(resource.RUSAGE_CHILDREN)


def spent(whose: int) -> float:
    """CPU seconds, user and system."""
    usage = resource.getrusage(whose)
    return usage.ru_utime + usage.ru_stime


def busy() -> float | None:
    """CPU seconds of the whole machine, including those that a hypervisor took away."""
    if not STAT.exists():
        return None
    fields = STAT.read_text().split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in BUSY) / os.sysconf("SC_CLK_TCK")


def others(before: Moment, after: Moment) -> float | None:
    """How many cores other programs kept busy between two moments, on average."""
    if before.all is None or after.all is None:
        return None
    foreign = (after.all - before.all) - (after.own - before.own)
    return max(foreign, 0.0) / (after.wall - before.wall)
