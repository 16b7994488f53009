"""Measures how many tokens a list needs, and what a list from one corpus costs on another.

    python benchmarks/bench_corpora.py own=data/chat.jsonl web=text.jsonl \
        --tokenizer llama3_1/tokenizer.json --sizes 2048,8192,32768 [--plot tokens.svg]

One document in ten of each corpus is held out. The first table counts growing parts of a corpus,
each twice as long as the one before, and measures on the corpus's held-out documents. The second
takes the K most frequent ids of each whole corpus and measures on the held-out documents of every
corpus.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from vocabfreq import CountOptions, FrequencyTable, Source, count, load_tokenizer
from vocabfreq.errors import require

HOLDOUT = 10
FIRST_DOCUMENTS = 25


def main() -> int:
    """Counts, prints both tables, and draws the first."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("corpora", nargs="+", metavar="NAME=FILE")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--sizes", default="2048,8192,32768", help="values of K")
    parser.add_argument("--plot", metavar="FILE", help="picture of the first table")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    sizes = [int(size) for size in args.sizes.split(",")]
    tokenizer = load_tokenizer(args.tokenizer)
    options = CountOptions(holdout=HOLDOUT, chat_template="off")

    def counted(name: str, documents: int | None = None) -> FrequencyTable:
        source = Source(name, files[name], max_documents=documents)
        return count([source], tokenizer, options)

    files = dict(corpus.split("=", 1) for corpus in args.corpora)
    whole = {name: counted(name) for name in files}
    growth: dict[str, list[tuple[int, list[float]]]] = {}
    for name, table in whole.items():
        documents, points = FIRST_DOCUMENTS, growth.setdefault(name, [])
        while documents < table.sources[0].documents:
            points.append(coverage(counted(name, documents), table, sizes))
            documents *= 2
        points.append(coverage(table, table, sizes))
    crossed = {
        (one, other): coverage(whole[one], whole[other], sizes)[1]
        for one in files
        for other in files
    }
    if args.plot:
        draw(growth, sizes, Path(args.plot))
    if args.json:
        pairs = [{"list": a, "text": b, "coverage": c} for (a, b), c in crossed.items()]
        print(json.dumps({"sizes": sizes, "growth": growth, "crossed": pairs}, indent=2))
    else:
        show(growth, crossed, sizes)
    return 0


def coverage(
    part: FrequencyTable, whole: FrequencyTable, sizes: list[int]
) -> tuple[int, list[float]]:
    """Tokens counted, and the share of the held-out tokens that the K most frequent ids cover."""
    tokens = int(part.total_counts.sum())
    return tokens, [whole.coverage_of(part.ranked_ids[:size]) for size in sizes]


def show(
    growth: dict[str, list[tuple[int, list[float]]]],
    crossed: dict[tuple[str, str], list[float]],
    sizes: list[int],
) -> None:
    """Prints both tables as Markdown."""
    heads = [f"K = {size:,}" for size in sizes]
    rule = "|".join("---" for _ in range(len(sizes) + 2))
    print(f"| corpus | tokens counted | {' | '.join(heads)} |\n|{rule}|")
    for name, points in growth.items():
        for tokens, shares in points:
            print(f"| {name} | {tokens:,} | {' | '.join(f'{100 * s:.2f} %' for s in shares)} |")
    print(f"\n| list from | held-out text | {' | '.join(heads)} |\n|{rule}|")
    for (one, other), shares in crossed.items():
        print(f"| {one} | {other} | {' | '.join(f'{100 * s:.2f} %' for s in shares)} |")


def draw(growth: dict[str, list[tuple[int, list[float]]]], sizes: list[int], path: Path) -> None:
    """Draws held-out coverage against tokens counted: a panel for each K, a line a corpus."""
    figure = require("matplotlib.figure", "plots").Figure(
        figsize=(4 * len(sizes), 3.6), dpi=150, layout="constrained"
    )
    panels: Any = figure.subplots(1, len(sizes), squeeze=False)[0]
    for index, (axes, size) in enumerate(zip(panels, sizes, strict=True)):
        for name, points in growth.items():
            tokens, shares = zip(*points, strict=True)
            axes.plot(tokens, [100 * s[index] for s in shares], marker="o", ms=3, label=name)
        axes.set(xscale="log", title=f"K = {size:,}", xlabel="tokens counted")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("held-out tokens covered, %")
    panels[0].legend(frameon=False)
    figure.savefig(str(path))


if __name__ == "__main__":
    sys.exit(main())
