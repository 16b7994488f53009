"""Measures counting one corpus with local workers and as Ray tasks, in one run.

The table has the wall seconds of `vocabfreq build`, start-up included, in turns, and whether the
bytes are the same. `--kill` also kills a worker of each.

    python benchmarks/bench_ray.py text.jsonl --tokenizer path/to/tokenizer --runs 3 --kill
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import memory

ENGINES = ("local", "ray")
AFTER = {"local": 1.0, "ray": 6.0}  # seconds from the start until a worker is killed
NAMES = {"local": "vocabfreq.counting.workers", "ray": "ray::count_on_node"}


def kill_worker(process: "subprocess.Popen[bytes]", engine: str, killed: list[int]) -> None:
    """Kills one counting process as soon as there is one."""
    time.sleep(AFTER[engine])
    while process.poll() is None and not killed:
        for pid in _counting(process.pid, engine):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)
            break
        time.sleep(0.01)


def _counting(parent: int, engine: str) -> list[int]:
    found = []
    for path in memory.PROC.glob("[0-9]*"):  # Ray's workers are no children of ours
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if NAMES[engine] in command and int(path.name) != parent:
            found.append(int(path.name))
    return found


def build(engine: str, corpus: Path, tokenizer: str, folder: Path, kill: bool) -> tuple[float, int]:
    """Builds once; returns the seconds and how many workers were killed."""
    words = ["build", "-q", "-t", tokenizer, "-s", f"text={corpus}", "-o", str(folder / engine)]
    code = "from vocabfreq.cli import main; main()"
    killed: list[int] = []
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, *words, "--engine", engine])
    if kill:
        thread = threading.Thread(target=kill_worker, args=(process, engine, killed), daemon=True)
        thread.start()
    if process.wait():
        raise SystemExit(f"the build by {engine} ended with {process.returncode}")
    return time.perf_counter() - started, len(killed)


def main() -> None:
    """Parses the command line, runs, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--kill", action="store_true", help="once more, a worker killed in each")
    given = parser.parse_args()
    print(f"{given.corpus.stat().st_size / 1e6:,.0f} MB\n")
    print("| engine | seconds, median | range | workers killed | bytes |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder, want = Path(name), None
        for kill in (False, True) if given.kill else (False,):
            seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
            deaths = dict.fromkeys(ENGINES, 0)
            for _ in range(1 if kill else given.runs):
                for engine in ENGINES:
                    took, died = build(engine, given.corpus, given.tokenizer, folder, kill)
                    seconds[engine].append(took)
                    deaths[engine] += died
            for engine in ENGINES:
                data = (folder / engine).read_bytes()
                want = want or data
                spread = f"{min(seconds[engine]):.1f} to {max(seconds[engine]):.1f}"
                median = f"{statistics.median(seconds[engine]):.1f}"
                same = "the same" if data == want else "DIFFERENT"
                print(f"| {engine} | {median} | {spread} | {deaths[engine]} | {same} |")


if __name__ == "__main__":
    main()
