"""How counting grows with workers and shards, and what merging real partial files costs.

One file is planned as so many shards (a compressed one is always one), and counted by so many
workers, each time in a fresh process and a fresh work directory, the combinations in turn. Seconds
are of `count` itself; "start" is the same on a hundred words, so the rate is of what lies beyond
the start of the workers.

    python benchmarks/make_corpus.py /usr/share /usr/lib/python3 --size-mb 300 -o text.jsonl
    python benchmarks/bench_cores.py text.jsonl --tokenizer path/to/tokenizer --runs 3
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from vocabfreq.corpus import sources
from vocabfreq.counting.build import count_part
from vocabfreq.counting.merging import merge_partials
from vocabfreq.counting.plan import CountOptions, make_plan
from vocabfreq.tokenizer.info import load_tokenizer


def step(corpus: str, tokenizer: str, shards: int, workers: int) -> dict[str, Any]:
    """Plans, counts and merges here; tells the seconds of each, and the size of partial files."""
    sources.SHARDS_PER_FILE, sources.MIN_SHARD_BYTES, sources.MAX_SHARD_BYTES = shards, 1, 1 << 62
    with tempfile.TemporaryDirectory() as folder:
        options = CountOptions(work_dir=Path(folder) / "parts", workers=workers)
        plan = make_plan([f"text={corpus}"], load_tokenizer(tokenizer), options)
        seconds = {}
        for name in ("count", "merge"):
            started = time.perf_counter()
            if name == "count":
                count_part(plan, 0, 1)
            else:
                merge_partials(plan, Path(folder) / "parts")
            seconds[name] = time.perf_counter() - started
        parts = [path.stat().st_size for path in Path(folder).rglob("*.part.safetensors")]
    return {"shards": len(parts), "part": statistics.mean(parts), **seconds}


def fresh(corpus: Path, tokenizer: str, shards: int, workers: int) -> dict[str, Any]:
    """The same in a process of its own."""
    words = [sys.executable, __file__, str(corpus), "--tokenizer", tokenizer]
    words += ["--shards", str(shards), "--workers", str(workers), "--step"]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


def run(given: argparse.Namespace) -> None:
    """Measures all, in turns, and prints the medians."""
    size = given.corpus.stat().st_size
    with tempfile.TemporaryDirectory() as folder:
        head = Path(folder) / "head.jsonl"
        head.write_text('{"text": "Start."}\n' * 100)
        combinations = list(itertools.product(given.workers, given.shards))
        found: dict[tuple[int, int], list[dict[str, Any]]] = {one: [] for one in combinations}
        starts: dict[int, list[float]] = {workers: [] for workers in given.workers}
        for _ in range(given.runs):
            for workers in given.workers:
                starts[workers].append(fresh(head, given.tokenizer, workers, workers)["count"])
            for workers, shards in combinations:
                found[workers, shards].append(fresh(given.corpus, given.tokenizer, shards, workers))
    print(f"{size / 1e6:,.0f} MB, medians of {given.runs}\n")
    print(
        "| workers | shards | start, s | count, s | MB/s | a worker | part, kB | merge, ms a part |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for (workers, _), rows in found.items():
        middle = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
        start = statistics.median(starts[workers])
        rate = size / 1e6 / (middle["count"] - start)
        print(
            f"| {workers} | {middle['shards']:.0f} | {start:.2f} | {middle['count']:.2f} "
            f"| {rate:.0f} | {rate / workers:.0f} | {middle['part'] / 1e3:,.0f} "
            f"| {middle['merge'] / middle['shards'] * 1e3:.1f} |"
        )


def main() -> None:
    """Parses and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 16, 128])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        seconds = step(str(given.corpus), given.tokenizer, given.shards[0], given.workers[0])
        print(json.dumps(seconds))
    else:
        run(given)


if __name__ == "__main__":
    main()
