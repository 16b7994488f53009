"""Measures the peak memory of a process and everything that it started.

Every 20 ms the script walks the tree through /proc/<pid>/task/<tid>/children and adds up the
proportional set sizes of its processes (PSS: a shared page counts once, split among those who
share it). If the kernel does not report PSS, resident sizes are used, which count shared pages
many times. Open memory files (memfd) are added, since pages that no process maps belong to no PSS.

Reading PSS pauses the watched process for a moment, so never time such a run.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INTERVAL = 0.02
PROC = Path("/proc")


@dataclass(frozen=True)
class Peak:
    """The highest sum seen.

    Attributes:
        bytes: the sum.
        kind: "PSS" or "RSS".
        processes: the most processes seen at once.
        samples: number of samples.
    """

    bytes: int
    kind: str
    processes: int
    samples: int


def watch(process: "subprocess.Popen[bytes]") -> Peak | None:
    """Waits for a process and returns the peak of its tree; None where there is no /proc."""
    highest = processes = samples = 0
    kind = "PSS" if (PROC / "self/smaps_rollup").exists() else "RSS"
    while process.poll() is None:
        pids = list(tree(process.pid))
        total = sum(used(pid, kind) for pid in pids) + memory_files(pids)
        highest, processes = max(highest, total), max(processes, len(pids))
        samples += 1
        time.sleep(INTERVAL)
    return Peak(highest, kind, processes, samples) if highest else None


def tree(pid: int) -> Iterator[int]:
    """A process and all its descendants that still live."""
    yield pid
    for file in PROC.glob(f"{pid}/task/*/children"):
        for child in _read(file).split():
            yield from tree(int(child))


def used(pid: int, kind: str) -> int:
    """Bytes of one process; 0 when it has just ended."""
    if kind == "RSS":
        fields = _read(PROC / f"{pid}/statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0
    for line in _read(PROC / f"{pid}/smaps_rollup").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_files(pids: list[int]) -> int:
    """Bytes of the memory files that the processes hold open, each counted once."""
    sizes: dict[int, int] = {}
    for pid in pids:
        for link in _descriptors(pid):
            try:
                if os.readlink(link).startswith("/memfd:"):
                    status = os.stat(link)
                    sizes[status.st_ino] = status.st_blocks * 512
            except OSError:
                continue
    return sum(sizes.values())


def _descriptors(pid: int) -> list[str]:
    try:
        return [entry.path for entry in os.scandir(PROC / f"{pid}/fd")]
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
