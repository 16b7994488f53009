"""Pruning a drafter against loading the full head and slicing it, and against plain copying.

    python benchmarks/bench_prune.py [--rows 128256] [--hidden 4096] [--size 32768] [--runs 5]

A drafter without a head is pruned with a synthetic target whose bf16 head lies in one of four
shards. Each contender runs in a fresh process, in turn: ours (`prune_drafter`: rows read, written,
synced, read back and compared), the peer (the full head by safetensors and torch, sliced, saved,
synced), and the plain copying of as many neighbouring bytes (read, written, synced), the limit.
Seconds are without imports. Peak memory is VmHWM; `over` is what came on top of the imports.
`--cold` drops the source from the page cache before each run. The heads must be equal, or no
number is printed.
"""

import argparse
import hashlib
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
from typing import Any

import numpy as np

SHARDS, BLOCK = 4, 2 << 20
CONTENDERS = ("ours", "full head", "plain copy")


def make(folder: Path, rows: int, hidden: int, size: int) -> None:
    """The drafter, the target in four shards with an index, and the ids, spread evenly."""
    drafter, target = folder / "drafter", folder / "target"
    drafter.mkdir()
    target.mkdir()
    sizes = {"vocab_size": rows, "hidden_size": hidden, "tie_word_embeddings": False}
    own = {"architectures": ["LlamaForCausalLMEagle3"], "norm_before_residual": True, **sizes}
    (drafter / "config.json").write_text(json.dumps(own))
    (target / "config.json").write_text(json.dumps(sizes))
    _save(drafter / "model.safetensors", {"fc.weight": (hidden, 3 * hidden)})
    shapes: dict[str, tuple[int, int]] = {f"layer.{n}.weight": (hidden, hidden) for n in range(3)}
    shapes["lm_head.weight"] = (rows, hidden)
    where = {name: f"model-{n + 1}-of-{SHARDS}.safetensors" for n, name in enumerate(shapes)}
    for name, shape in shapes.items():
        _save(target / where[name], {name: shape})
    index = {"weight_map": where}
    (target / "model.safetensors.index.json").write_text(json.dumps(index))
    ids = np.random.default_rng(0).choice(rows, size, replace=False)
    np.save(folder / "ids.npy", np.sort(ids))


def _save(path: Path, shapes: dict[str, tuple[int, int]]) -> None:
    """Random bf16 tensors, a block at a time."""
    random, place, header = np.random.default_rng(len(path.name)), 0, {}
    for name, (rows, columns) in shapes.items():
        end = place + 2 * rows * columns
        header[name] = {"dtype": "BF16", "shape": [rows, columns], "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, place, BLOCK):
            file.write(random.bytes(min(BLOCK, place - start)))
        file.flush()
        os.fsync(file.fileno())


def prepare_ours(folder: Path) -> Callable[[Path], None]:
    """Ours, with its imports done."""
    from vocabfreq.checkpoints.pruning import prune_drafter
    from vocabfreq.frequencies.draft_vocab import DraftVocab

    def prune(out: Path) -> None:
        rows = json.loads((folder / "target/config.json").read_bytes())["vocab_size"]
        vocab = DraftVocab.from_ids(np.load(folder / "ids.npy"), rows=rows)
        prune_drafter(folder / "drafter", vocab, out, folder / "target")

    return prune


def prepare_full(folder: Path) -> Callable[[Path], None]:
    """The full head by safetensors and torch."""
    import torch
    from safetensors import safe_open
    from safetensors.torch import save_file

    def load_and_slice(out: Path) -> None:
        out.mkdir()
        index = json.loads((folder / "target/model.safetensors.index.json").read_bytes())
        ids = torch.from_numpy(np.load(folder / "ids.npy"))
        file = folder / "target" / index["weight_map"]["lm_head.weight"]
        with safe_open(str(file), "pt") as opened:
            head = opened.get_tensor("lm_head.weight")
        with safe_open(str(folder / "drafter/model.safetensors"), "pt") as opened:
            others = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        save_file({"lm_head.weight": head[ids], **others}, str(out / "model.safetensors"))
        _sync(out / "model.safetensors")

    return load_and_slice


def prepare_plain(folder: Path) -> Callable[[Path], None]:
    """As many bytes as ours writes, from one place."""
    size = len(np.load(folder / "ids.npy"))
    hidden = json.loads((folder / "target/config.json").read_bytes())["hidden_size"]
    source = folder / f"target/model-{SHARDS}-of-{SHARDS}.safetensors"
    wanted = 2 * size * hidden + (folder / "drafter/model.safetensors").stat().st_size

    def copy(out: Path) -> None:
        out.mkdir()
        buffer, left = memoryview(bytearray(BLOCK)), wanted
        with source.open("rb", buffering=0) as old, (out / "plain").open("wb", buffering=0) as new:
            while left > 0:
                left -= new.write(buffer[: min(old.readinto(buffer) or 0, left)])
            os.fsync(new.fileno())

    return copy


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


PREPARE = dict(zip(CONTENDERS, (prepare_ours, prepare_full, prepare_plain), strict=True))


def run_here(contender: str, folder: Path, out: Path) -> None:
    """In the fresh process: imports, then the clock."""
    work = PREPARE[contender](folder)
    before, start = peak(), time.perf_counter()
    work(out)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "peak": peak(), "over": peak() - before}))


def peak() -> int:
    """VmHWM in bytes."""
    text = Path("/proc/self/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def run(contender: str, folder: Path, cold: bool) -> dict[str, Any]:
    """One contender in a fresh process; returns its numbers and the hash of its head."""
    out = folder / "out"
    for path in folder.glob("*/*.safetensors") if cold else ():
        drop(path)
    arguments = [sys.executable, __file__, "--run", contender, "--folder", str(folder)]
    done = subprocess.run([*arguments, "--out", str(out)], stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    result["head"] = None if contender == "plain copy" else head_hash(out / "model.safetensors")
    for path in out.iterdir():
        path.unlink()
    out.rmdir()
    return result


def drop(path: Path) -> None:
    """Drops a file from the page cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def head_hash(path: Path) -> str:
    """Of the bytes of the new head."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        start, end = json.loads(file.read(length))["lm_head.weight"]["data_offsets"]
        file.seek(8 + length + start)
        return hashlib.sha256(file.read(end - start)).hexdigest()


def report(results: dict[str, list[dict[str, Any]]]) -> None:
    """The table."""
    ours = {key: _median(results["ours"], key) for key in ("seconds", "peak", "over")}
    print(f"{'':12}{'seconds':>9}{'min to max':>16}{'peak MB':>9}{'over MB':>9}  ours / it")
    for contender, runs in results.items():
        seconds = [one["seconds"] for one in runs]
        mine = {key: _median(runs, key) for key in ours}
        ratios = ", ".join(f"{key} {ours[key] / max(mine[key], 1e-9):.2f}" for key in ours)
        print(
            f"{contender:12}{mine['seconds']:9.3f}{min(seconds):9.3f}-{max(seconds):.3f}"
            f"{mine['peak'] / 1e6:11.0f}{mine['over'] / 1e6:9.0f}  {ratios}"
        )


def _median(runs: list[dict[str, Any]], key: str) -> float:
    return float(statistics.median(one[key] for one in runs))


def main() -> None:
    """Makes the folders, runs all in turn, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name, number in (("rows", 128_256), ("hidden", 4096), ("size", 32_768), ("runs", 5)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--cold", action="store_true", help="drop the source from the cache")
    for name in ("run", "folder", "out"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        run_here(given.run, Path(given.folder), Path(given.out))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        make(folder, given.rows, given.hidden, given.size)
        results: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS}
        for _ in range(given.runs):
            for contender in CONTENDERS:
                results[contender].append(run(contender, folder, given.cold))
    heads = {one["head"] for name in CONTENDERS[:2] for one in results[name]}
    assert len(heads) == 1, "the heads differ"
    print(
        f"{given.rows:,} x {given.hidden:,} bf16 to {given.size:,} rows, {given.runs} runs, ",
        end="",
    )
    print(f"{'cold' if given.cold else 'warm'}, {platform.machine()}, {os.cpu_count()} cores")
    report(results)


if __name__ == "__main__":
    main()
