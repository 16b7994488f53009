"""Measures loading the kept rows of a head against loading the full head and slicing it.

    python benchmarks/bench_load.py [--rows 128256] [--hidden 4096] [--runs 5] [--cold]

The model is synthetic: four shards with an index, its bf16 lm_head in the last; K is V / 4, ids
spread evenly. Each variant runs in a fresh process, in turn: `load_pruned_head`; the full head
loaded into a parameter, as engines do, and sliced; the full head indexed while safetensors only
maps it, which reads no other page where the file is cached; and `get_slice`, row by row.

Seconds exclude imports. Peak memory is VmHWM of the process; `over` is its rise above the value
after the imports. Pages of a file that a process has mapped count in it. `--cold` drops the model
from the page cache before each run. The script prints no number unless all rows are equal.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import load
import numpy as np
from bench_prune import drop, make, peak

if TYPE_CHECKING:
    import torch

OURS, FULL, MAPPED, SLICES = "ours", "full head", "mapped", "get_slice"
WANTED = {"over": 0.35, "seconds": 0.5}
NAME = "lm_head.weight"


def prepare_ours(folder: Path) -> Callable[[], "torch.Tensor"]:
    """`load_pruned_head`, its imports done."""
    from vocabfreq.frequencies.draft_vocab import DraftVocab
    from vocabfreq.runtime import load_pruned_head

    def rows() -> "torch.Tensor":
        config = json.loads((folder / "target/config.json").read_bytes())
        vocab = DraftVocab.from_ids(np.load(folder / "ids.npy"), rows=config["vocab_size"])
        return load_pruned_head(folder / "target", vocab).weight

    return rows


def prepare_full(folder: Path) -> Callable[[], "torch.Tensor"]:
    """The full head copied into a parameter, then sliced."""
    import torch
    from safetensors import safe_open

    def rows() -> "torch.Tensor":
        ids = torch.from_numpy(np.load(folder / "ids.npy"))
        with safe_open(str(_file(folder)), "pt") as opened:
            stored = opened.get_tensor(NAME)
            head = torch.nn.Parameter(torch.empty_like(stored), requires_grad=False)
            head.copy_(stored)
        return head[ids]

    return rows


def prepare_mapped(folder: Path) -> Callable[[], "torch.Tensor"]:
    """The full head as safetensors maps it, then sliced."""
    import torch
    from safetensors import safe_open

    def rows() -> "torch.Tensor":
        ids = torch.from_numpy(np.load(folder / "ids.npy"))
        with safe_open(str(_file(folder)), "pt") as opened:
            sliced: torch.Tensor = opened.get_tensor(NAME)[ids]
            return sliced

    return rows


def prepare_slices(folder: Path) -> Callable[[], "torch.Tensor"]:
    """Each kept row by `get_slice`, into an existing tensor."""
    import torch
    from safetensors import safe_open

    def rows() -> "torch.Tensor":
        ids = np.load(folder / "ids.npy").tolist()
        with safe_open(str(_file(folder)), "pt") as opened:
            stored = opened.get_slice(NAME)
            made = torch.empty((len(ids), stored.get_shape()[1]), dtype=torch.bfloat16)
            for place, row in enumerate(ids):
                made[place] = stored[row]
        return made

    return rows


def _file(folder: Path) -> Path:
    index = json.loads((folder / "target/model.safetensors.index.json").read_bytes())
    return folder / "target" / str(index["weight_map"][NAME])


PREPARE = {OURS: prepare_ours, FULL: prepare_full, MAPPED: prepare_mapped, SLICES: prepare_slices}


def run_here(way: str, folder: Path) -> None:
    """In the fresh process: imports, then measures; hashes the rows after the last measurement."""
    work = PREPARE[way](folder)
    reset_peak()
    before, start = peak(), time.perf_counter()
    rows = work()
    seconds, highest = time.perf_counter() - start, peak()
    result = {"seconds": seconds, "peak": highest, "over": highest - before, "rows": digest(rows)}
    print(json.dumps(result))


def reset_peak() -> None:
    """Resets VmHWM, so that imports do not hide what comes after them."""
    Path("/proc/self/clear_refs").write_text("5")


def digest(rows: "torch.Tensor") -> str:
    """A hash of shape, dtype and bytes."""
    import hashlib

    held = rows.detach().contiguous()
    data = (ctypes.c_char * held.nbytes).from_address(held.data_ptr())
    return f"{held.dtype} {list(held.shape)} {hashlib.sha256(data).hexdigest()}"


def run(way: str, folder: Path, cold: bool) -> dict[str, Any]:
    """Runs one variant in a fresh process."""
    for path in folder.glob("target/*.safetensors") if cold else ():
        drop(path)
    arguments = [sys.executable, __file__, "--run", way, "--folder", str(folder)]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def report(results: dict[str, list[dict[str, Any]]], head_bytes: int) -> None:
    """Prints the table as Markdown, and the budgets."""
    print("| way | median s | range | peak MB | over imports MB | ours / it: s | peak | over |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    ours = {key: median(results[OURS], key) for key in ("seconds", "peak", "over")}
    for way, runs in results.items():
        seconds = sorted(one["seconds"] for one in runs)
        mine = {key: median(runs, key) for key in ours}
        ratios = " | ".join(f"{ours[key] / max(mine[key], 1e-9):.2f}" for key in ours)
        print(
            f"| {way} | {mine['seconds']:.3f} | {seconds[0]:.3f}-{seconds[-1]:.3f} | "
            f"{mine['peak'] / 1e6:,.0f} | {mine['over'] / 1e6:,.0f} | {ratios} |"
        )
    print(f"\nThe rows are equal; they are {head_bytes / 1e6:,.0f} MB.")
    for key, wanted in WANTED.items():
        got = ours[key] / median(results[FULL], key)
        verdict = "met" if got <= wanted else "missed"
        label = "peak memory over imports" if key == "over" else key
        print(f"{label}, ours / full head: {got:.2f}, wanted ≤ {wanted}: {verdict}")


def median(runs: list[dict[str, Any]], key: str) -> float:
    """The median over the runs."""
    return float(statistics.median(one[key] for one in runs))


def main() -> None:
    """Makes the model, runs all variants in turn, prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, number in (("rows", 128_256), ("hidden", 4096), ("runs", 5)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--cold", action="store_true", help="drop the model from the cache")
    parser.add_argument("--folder", help="where the temporary folder goes")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run_here(given.run, Path(given.folder))
        return
    size, before = given.rows // 4, load.now()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        make(Path(name), given.rows, given.hidden, size)
        results: dict[str, list[dict[str, Any]]] = {way: [] for way in PREPARE}
        for _ in range(given.runs):
            for way in PREPARE:
                results[way].append(run(way, Path(name), given.cold))
    if len({one["rows"] for runs in results.values() for one in runs}) != 1:
        raise SystemExit("error: the rows differ; no number is printed")
    print(
        f"V = {given.rows:,}, H = {given.hidden:,}, bf16, K = {size:,}, {given.runs} runs, ", end=""
    )
    print(f"{'cold' if given.cold else 'warm'}, {platform.machine()}, {os.cpu_count()} cores\n")
    report(results, 2 * size * given.hidden)
    others = load.others(before, load.now())
    if others is not None:
        print(f"Other programs kept {others:.2f} of {os.cpu_count()} cores busy meanwhile.")


if __name__ == "__main__":
    main()
