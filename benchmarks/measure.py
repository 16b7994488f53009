"""Measures `vocabfreq build` and its peers in turn; see bench_build.py for what and why."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import load
import memory
import numpy as np
import numpy.typing as npt
import ours
from corpus import Corpus

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setup:
    """The inputs of a measurement.

    Attributes:
        tokenizer: path of tokenizer.json.
        whole: the corpus.
        tenth: its first tenth.
        parts: the part that each peer reads.
        small: the first megabyte, for start-up.
        folder: for temporary files.
        runs: number of runs.
        options: further options of `vocabfreq build`.
    """

    tokenizer: Path
    whole: Corpus
    tenth: Corpus
    parts: dict[str, Corpus]
    small: Corpus | None
    folder: Path
    runs: int
    options: list[str]


@dataclass(frozen=True)
class Pair:
    """A run of ours and the run of a peer after it.

    Attributes:
        peer: its name.
        ours: steady rate of ours, bytes (or ids) per second.
        ours_file: the same in bytes of the file.
        ours_seconds: wall seconds of the whole corpus and of the tenth.
        ours_cpu: bytes of text per CPU second of ours.
        theirs: steady rate of the peer.
        theirs_cpu: bytes per CPU second of the peer.
        loops: the loops that the peer reported.
        encoder: the engine of ours, from its file.
    """

    peer: str
    ours: float
    ours_file: float
    ours_seconds: tuple[float, float]
    ours_cpu: float
    theirs: float
    theirs_cpu: float
    loops: list[dict[str, Any]]
    encoder: dict[str, Any]

    @property
    def ratio(self) -> float:
        """Ours to theirs."""
        return self.ours / self.theirs


@dataclass
class Results:
    """All measurements; `others` is how many cores other programs used meanwhile."""

    facts: dict[str, Any]
    pairs: list[Pair] = field(default_factory=list)
    startup: list[float] = field(default_factory=list)
    peak: memory.Peak | None = None
    peak_tenth: memory.Peak | None = None
    others: float | None = None


def note(text: str) -> None:
    """Prints progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def run_peer(setup: Setup, name: str, part: Corpus) -> tuple[dict[str, Any], Counts]:
    """Runs a peer in a fresh process; returns its report and its counts."""
    counts = setup.folder / f"{name}.npy"
    script = str(Path(__file__).with_name("peers.py"))
    arguments = [script, name, part.path, part.column, part.text, setup.tokenizer, counts]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout), np.load(counts)


def build(setup: Setup, part: Corpus, *, watched: bool = False) -> ours.Build:
    """Runs ours on a part of the corpus."""
    return ours.build(part, setup.tokenizer, options=setup.options, watched=watched)


def check(setup: Setup, name: str) -> dict[str, Any]:
    """Compares the counts of ours and of an exact peer on the same part of the corpus.

    Raises:
        SystemExit: they differ.
    """
    part = setup.parts[name]
    note(f"checking the counts against {name} on {part.documents:,} documents ...")
    _, theirs = run_peer(setup, name, part)
    mine = build(setup, part)
    wrong = differing(mine.counts, theirs)
    if wrong:
        raise SystemExit(
            f"the counts of {wrong:,} ids differ from those of {name}; no speed is measured"
        )
    return {"peer": name, "documents": part.documents, "tokens": int(theirs.sum()), "equal": True}


def differing(one: Counts, other: Counts) -> int:
    """How many ids have different counts; ids beyond the end of a vector count as zero."""
    size = max(len(one), len(other))
    padded = [np.pad(counts, (0, size - len(counts))) for counts in (one, other)]
    return int(np.count_nonzero(padded[0] != padded[1]))


def pairs(setup: Setup) -> Iterator[Pair]:
    """Ours and each peer in turn, once per run."""
    for number in range(setup.runs):
        for name in setup.parts:
            note(f"run {number + 1} of {setup.runs}: ours, then {name} ...")
            yield pair(setup, name)


def pair(setup: Setup, name: str) -> Pair:
    """A run of ours (the tenth, then the whole) and one of a peer."""
    tenth, whole = build(setup, setup.tenth), build(setup, setup.whole)
    seconds = whole.seconds - tenth.seconds
    (theirs, theirs_cpu), loops = peer_rate(setup, name)
    return Pair(
        peer=name,
        ours=(whole.text - tenth.text) / seconds,
        ours_file=(whole.size - tenth.size) / seconds,
        ours_seconds=(whole.seconds, tenth.seconds),
        ours_cpu=(whole.text - tenth.text) / (whole.cpu - tenth.cpu),
        theirs=theirs,
        theirs_cpu=theirs_cpu,
        loops=loops,
        encoder=whole.encoder,
    )


def peer_rate(setup: Setup, name: str) -> tuple[tuple[float, float], list[dict[str, Any]]]:
    """The steady rate of a peer, by wall clock and by CPU seconds, and its report."""
    loop, _ = run_peer(setup, name, setup.parts[name])
    if name != "gigatoken":
        return (loop["rest"] / loop["rest_seconds"], loop["rest"] / loop["rest_cpu"]), [loop]
    tenth, _ = run_peer(setup, name, setup.tenth)
    extra = loop["done"] - tenth["done"]
    wall, cpu = loop["seconds"] - tenth["seconds"], loop["cpu"] - tenth["cpu"]
    return (extra / wall, extra / cpu), [loop, tenth]


def run(setup: Setup, facts: dict[str, Any], watch_memory: bool) -> Results:
    """Measures everything; the counts have been checked before."""
    results, before = Results(facts), load.now()
    results.pairs = list(pairs(setup))
    if setup.small:
        note("start-up ...")
        results.startup = [build(setup, setup.small).seconds for _ in range(setup.runs)]
    results.others = load.others(before, load.now())
    if watch_memory:
        note("peak memory ...")
        results.peak_tenth = build(setup, setup.tenth, watched=True).peak
        results.peak = build(setup, setup.whole, watched=True).peak
    return results
