"""Measures `select` and both mappings against the list-membership method of other tools.

    python benchmarks/bench_select.py [--rows 262144] [--size 65536] [--json]

"Ours" is `FrequencyTable.select(size)` on a fresh table (ranking included), then `d2t` and `t2d`.
The peers build the mask by testing `i in used_ids` on a list for every row, and the map from the
sorted list. As that takes minutes, it is timed over an evenly spread share of the rows (--share)
and scaled up. The masks are compared before any time is printed.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vocabfreq.frequencies.metadata import EncoderRecord, Metadata, SourceRecord, TokenizerRecord
from vocabfreq.frequencies.table import FrequencyTable


def made_table(rows: int) -> FrequencyTable:
    """Makes a table of Zipf-like counts with many ties."""
    counts = np.random.default_rng(0).zipf(1.3, rows).clip(max=10**9).astype(np.int64)[None]
    source = SourceRecord(
        name="zipf", files=(), sha256="0" * 64, weight=None, documents=1, heldout_documents=0,
        tokens=int(counts.sum()), bytes=0,
    )  # fmt: skip
    encoder = EncoderRecord(
        name="none", version="", cross_checked_documents=0, mismatched_documents=0
    )
    tokenizer = TokenizerRecord(name="made", revision=None, sha256="0" * 64, size=rows, rows=rows)
    meta = Metadata(
        format=1, vocabfreq="", tokenizer=tokenizer, special_ids=(), stop_ids=(0,), byte_ids=(),
        sources=(source,), options={}, encoder=encoder,
    )  # fmt: skip
    return FrequencyTable(counts, np.zeros_like(counts), meta)


def timed(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """The median seconds, and the last result."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


def ours(rows: int, size: int) -> Callable[[], Any]:
    """Selects and makes both mappings; a fresh table each time, so that nothing is cached."""
    first = made_table(rows)

    def work() -> Any:
        vocab = FrequencyTable(first.counts, first.heldout, first.meta).select(size)
        return vocab.target_ids, vocab.d2t, vocab.t2d

    return work


def membership(used: list[int], rows: range) -> list[bool]:
    """The mask by list membership, as other tools make it."""
    return [i in used for i in rows]


def main() -> int:
    """Measures, compares, prints."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=262_144)
    parser.add_argument("--size", type=int, default=65_536)
    parser.add_argument("--share", type=int, default=256, help="time one row in so many")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    fast, (ids, _, mask) = timed(ours(args.rows, args.size), args.runs)
    some = range(0, args.rows, args.share)
    slow, listed = timed(lambda: membership(ids.tolist(), some), 1)
    if listed != mask[:: args.share].tolist():
        print("the masks differ", file=sys.stderr)
        return 1
    scaled = slow * args.rows / len(some)
    found = {"rows": args.rows, "size": args.size, "ours_s": fast, "membership_s": scaled,
             "ratio": scaled / fast, "timed_rows": len(some)}  # fmt: skip
    if args.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"V = {args.rows:,}, K = {args.size:,}")
    print(f"select, d2t and t2d       {1000 * fast:10.1f} ms   (wanted: under 100 ms)")
    print(f"the mask by membership    {scaled:10.1f} s    (scaled from {len(some):,} rows)")
    print(f"ratio                     {scaled / fast:10,.0f} ×    (wanted: ≥ 1,000 ×)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
