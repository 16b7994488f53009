"""Drafting with a pruned head against other implementations, and against the budgets.

    python benchmarks/bench_sampler.py [--device auto] [--batch-sizes 1,8,64] [--runs 10]

Defaults are those of the budgets: V = 128,256, K = 32,768, bf16, B = 1, 8 and 64; H = 2,048 on a
CPU, 4,096 on a GPU. vocabfreq/measure/bench describes the method: all ids are checked first,
contenders take turns, a ratio is the median over turns. Ours is what a sampler takes by default.
Without a GPU its rows are missing; nothing is estimated.
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import load

from vocabfreq.errors import VocabfreqError
from vocabfreq.measure import bench
from vocabfreq.measure.bench import Cell, Result, Setup, Timing

FULL, SCATTER = "full head, argmax", "scatter to V, argmax"
OFFSET = "argmax, add offset", "argmax, add offset, compiled"
CPU = {(FULL, 1): 2.0, (FULL, 8): 2.8, (FULL, 64): 3.5}
CPU |= {(SCATTER, 1): 1.45, (SCATTER, 8): 1.7, (SCATTER, 64): 1.7}
MOST_ROWS = 64  # the budgets of a GPU end here
HIDDEN = {"cpu": 2048, "cuda": 4096}
SHARE = 0.85


@dataclass(frozen=True)
class Row:
    """A line of the table; `got` and `wanted` are ratios, or shares where `share` says so."""

    cell: Cell
    timing: Timing
    got: float | None
    wanted: float | None
    share: bool = False


def rows(result: Result) -> list[Row]:
    """All ratios, and the shares of the copy bandwidth of what `auto` takes."""
    setup, made = result.setup, []
    for cell in result.cells:
        for one in cell.timings:
            if one.contender != cell.auto:
                wanted = None if one.ours else wanted_ratio(setup, cell, one)
                made.append(Row(cell, one, one.ratios[cell.auto], wanted))
            else:
                made.append(Row(cell, one, one.share_of_copy, wanted_share(setup, cell, one), True))
    return made


def has_budgets(setup: Setup, cell: Cell) -> bool:
    """Whether DESIGN.md says what is wanted of this shape."""
    shape = setup.vocab_size, cell.size, setup.hidden_size, setup.dtype
    return (
        shape == (128_256, 32_768, HIDDEN[setup.device], "bfloat16")
        and cell.batch_size <= MOST_ROWS
    )


def wanted_ratio(setup: Setup, cell: Cell, one: Timing) -> float | None:
    """The budget, where there is one."""
    batch, greedy = cell.batch_size, one.task == "greedy"
    if not has_budgets(setup, cell):
        return None
    if setup.device == "cpu":
        return CPU.get((one.contender, batch)) if greedy else None
    if not greedy:
        return 1.5
    if one.mode == "graph" and one.contender == SCATTER:
        return 1.5
    if one.mode == "graph" and one.contender in OFFSET:
        return 1.25 if batch <= 8 else 1.15
    return None


def wanted_share(setup: Setup, cell: Cell, one: Timing) -> float | None:
    """Of the greedy sampler in a CUDA graph."""
    applies = setup.device == "cuda" and one.mode == "graph" and one.task == "greedy"
    return SHARE if applies and has_budgets(setup, cell) else None


def line(row: Row) -> str:
    """As Markdown."""
    cell, one = row.cell, row.timing
    ratio = "" if row.got is None else f"{row.got:.2f}" + ("" if not row.share else " of copying")
    verdict = ""
    if row.wanted is not None and row.got is not None:
        verdict = "met" if row.got >= row.wanted else "missed"
    cells = [
        one.task, one.mode, one.contender, f"{cell.size:,}", str(cell.batch_size),
        f"{one.median_us:,.0f}", f"{one.lowest_us:,.0f}-{one.highest_us:,.0f}", ratio,
        "" if row.wanted is None else f"≥ {row.wanted:g}", verdict,
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def report(result: Result, others: float | None) -> None:
    """The table, and where it was measured."""
    here, setup = result.machine, result.setup
    triton = f"triton {here.triton}" if here.triton else "no triton"
    print(f"{here.device}, torch {here.torch}, {triton}, {here.threads} threads;")
    print(f"V = {setup.vocab_size:,}, H = {setup.hidden_size:,}, {setup.dtype}, ", end="")
    print(f"{setup.runs} turns; all ids were checked first.\n")
    print("| task | mode | contender | K | B | median µs | range | its time / ours | wanted | |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---|")
    for row in rows(result):
        print(line(row))
    speeds = ", ".join(f"{cell.copy_gb_per_s:,.1f}" for cell in result.cells)
    print(f"\nCopies in the same turns: {speeds} GB/s, bytes read plus bytes written.")
    left_out = {name: why for cell in result.cells for name, why in cell.left_out.items()}
    for name, why in left_out.items():
        print(f"Left out: {name} ({why}).")
    if others is not None:
        print(f"Other programs kept {others:.2f} of {os.cpu_count()} cores busy meanwhile.")
    if setup.device == "cpu":
        print("Figures of a GPU are missing, and none is estimated.")


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    return tuple(int(part) for part in text.split(","))


def read_setup(given: dict[str, Any]) -> Setup:
    """The setup of the options; H is that of the budgets where it is not given."""
    setup = bench.usual(**given)
    if given["hidden_size"] is not None:
        return setup
    return replace(setup, hidden_size=HIDDEN[setup.device])


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--hidden-size", type=int)
    parser.add_argument("--vocab-size", type=int, default=128_256)
    parser.add_argument("--sizes", type=numbers)
    parser.add_argument("--batch-sizes", type=numbers, default=(1, 8, 64))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--runs", type=int)
    parser.add_argument("--json", type=Path, help="also write everything here")
    given = vars(parser.parse_args())
    path: Path | None = given.pop("json")
    before = load.now()
    try:
        result = bench.run(read_setup(given), lambda text: print(text, file=sys.stderr))
    except VocabfreqError as error:
        raise SystemExit(f"error: {error}") from None
    report(result, load.others(before, load.now()))
    if path is not None:
        path.write_text(json.dumps(result.as_dict(), indent=2) + "\n")


if __name__ == "__main__":
    main()
