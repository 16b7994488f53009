"""Plans, counts and merges thousands of tiny shards: what the parts around counting cost.

Each step runs in a process of its own, as it would on a cluster; its seconds are of the step
itself, its memory is the highest resident size of the process, loading Python included. Beside the
merge stands a plain sum of as many full vectors read from .npy files, as a script would do it.

    python benchmarks/bench_shards.py --shards 5000 --tokenizer path/to/tokenizer
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.corpus import sources
from vocabfreq.corpus.sources import parse_source
from vocabfreq.counting.build import count_part
from vocabfreq.counting.merging import merge_partials
from vocabfreq.counting.plan import CountOptions, load_plan, make_plan, save_plan
from vocabfreq.counting.progress import plan_progress
from vocabfreq.tokenizer.info import load_tokenizer

STEPS = ("plan", "load", "count", "again", "status", "merge", "vectors", "naive merge")
WORDS = ("the", "draft", "model", "proposes", "tokens", "which", "its", "target", "verifies")


def make_corpus(folder: Path, shards: int) -> None:
    """One small file a shard, each different."""
    for n in range(shards):
        row = {"text": " ".join(WORDS[(n * 7 + i * i) % len(WORDS)] for i in range(200)) + str(n)}
        (folder / f"part-{n:06}.jsonl").write_text(json.dumps(row) + "\n")


def plan(folder: Path, tokenizer: str) -> int:
    """Writes the plan; returns its bytes."""
    # Small files are put together, and larger ones cut, by this: so each file is one shard.
    sources.MIN_SHARD_BYTES = max(path.stat().st_size for path in folder.glob("*.jsonl"))
    options = CountOptions(work_dir=folder / "parts")
    made = make_plan([parse_source(f"tiny={folder}/*.jsonl")], load_tokenizer(tokenizer), options)
    save_plan(made, folder / "plan.json")
    return (folder / "plan.json").stat().st_size


def naive_merge(folder: Path) -> int:
    """Adds full vectors; returns how many tokens there are."""
    total = sum(np.load(path) for path in sorted((folder / "vectors").glob("*.npy")))
    return int(np.sum(total))


def vectors(folder: Path) -> int:
    """Full vectors, one a shard, as scripts keep them; returns their bytes."""
    (folder / "vectors").mkdir()
    loaded = load_plan(folder / "plan.json")
    vector = np.zeros(loaded.tokenizer.rows, np.int64)
    for n in range(len(loaded.shards)):
        np.save(folder / "vectors" / f"{n}.npy", vector)
    return vector.nbytes * len(loaded.shards)


def step(name: str, folder: Path, tokenizer: str) -> dict[str, Any]:
    """Runs one step here; its result, its seconds, and the process's peak memory."""
    path = folder / "plan.json"
    loaded = load_plan(path) if name in ("count", "again", "status", "merge") else None
    work_dir = folder / "parts"
    steps: dict[str, Callable[[], Any]] = {
        "plan": lambda: plan(folder, tokenizer),
        "load": lambda: len(load_plan(path).shards),
        "count": lambda: count_part(loaded, 0, 1),  # type: ignore[arg-type]
        "again": lambda: count_part(loaded, 0, 1),  # type: ignore[arg-type]
        "status": lambda: len(plan_progress(loaded).missing),  # type: ignore[arg-type]
        "merge": lambda: merge_partials(loaded, work_dir).table.sources[0].tokens,  # type: ignore[arg-type]
        "vectors": lambda: vectors(folder),
        "naive merge": lambda: naive_merge(folder),
    }
    started = time.perf_counter()
    result = steps[name]()
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"step": name, "result": result, "seconds": seconds, "peak": peak}


def run(shards: int, tokenizer: str) -> None:
    """Each step in a fresh process; prints a table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_corpus(folder, shards)
        print(f"{shards:,} shards of one document each\n")
        print("| step | seconds | ms a shard | peak memory, MB | result |\n|---|---|---|---|---|")
        for one in STEPS:
            command = [sys.executable, __file__, "--step", one, name, "--tokenizer", tokenizer]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            milli = found["seconds"] / shards * 1e3
            peak = f"{found['peak'] / 1e6:,.0f}"
            print(
                f"| {one} | {found['seconds']:.2f} | {milli:.3f} | {peak} | {found['result']:,} |"
            )
        parts = list((folder / "parts").glob("*.safetensors"))
        size = sum(path.stat().st_size for path in parts)
        sizes = f"{size / 1e6:,.1f} MB, {size // len(parts):,} bytes each"
        print(f"\nPartial files: {len(parts):,}, {sizes}")


def main() -> None:
    """Parses and runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shards", type=int, default=5000)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--step", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(step(given.step[0], Path(given.step[1]), given.tokenizer)))
    else:
        run(given.shards, given.tokenizer)


if __name__ == "__main__":
    main()
