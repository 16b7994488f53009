"""Runs `vocabfreq build` as a user would, in a fresh process, and reads what it wrote."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import load
import memory
import numpy as np
import numpy.typing as npt
from corpus import Corpus
from safetensors import safe_open

# The console script does no more than this.
PROGRAM = (sys.executable, "-c", "from vocabfreq.cli import main; main()")


@dataclass(frozen=True)
class Build:
    """One build.

    Attributes:
        text: bytes of text counted (or the number of ids).
        size: bytes of the file read.
        seconds: from the start of the first process to the end of the last.
        cpu: CPU seconds of all its processes.
        counts: int64 [V], held-out documents included.
        encoder: the engine that ran, from the file.
        peak: memory, if it was watched.
    """

    text: int
    size: int
    seconds: float
    cpu: float
    counts: npt.NDArray[np.int64]
    encoder: dict[str, Any]
    peak: memory.Peak | None = None


def build(corpus: Corpus, tokenizer: Path, *, options: list[str], watched: bool = False) -> Build:
    """Builds into an empty folder, so that nothing can be resumed."""
    folder = Path(tempfile.mkdtemp(prefix="vocabfreq-bench-"))
    try:
        output = folder / "vocab_freq.safetensors"
        cpu = load.children()
        seconds, peak = _run(command(corpus, tokenizer, output, options), folder, watched)
        cpu = load.children() - cpu
        counts, encoder = read(output)
        return Build(corpus.text, corpus.size, seconds, cpu, counts, encoder, peak)
    finally:
        shutil.rmtree(folder)


def command(corpus: Corpus, tokenizer: Path, output: Path, options: list[str]) -> list[str]:
    """The command line of a build."""
    chosen = ["--tokenizer", str(tokenizer), "--source", f"corpus={corpus.path}"]
    chosen += ["--column", corpus.column, "-o", str(output), "--quiet"]
    return [*PROGRAM, "build", *chosen, *options]


def _run(arguments: list[str], folder: Path, watched: bool) -> tuple[float, memory.Peak | None]:
    errors = folder / "stderr"
    with errors.open("wb") as stderr:
        started = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=stderr)
        peak = memory.watch(process) if watched else None
        process.wait()
        seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)}\n{errors.read_text()}")
    return seconds, peak


def read(path: Path) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
    """The counts of a frequency file, held-out documents included, and its encoder record."""
    with safe_open(path, framework="numpy") as file:
        counts = file.get_tensor("counts").sum(axis=0) + file.get_tensor("heldout").sum(axis=0)
        return counts, json.loads(file.metadata()["vocabfreq"])["encoder"]
