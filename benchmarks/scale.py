"""Estimates the time of a corpus on a number of machines from figures measured elsewhere.

Nothing is measured here. The defaults of --core-mb-s, --start-s, --part-mb and --merge-ms come from
bench_cores.py, that of --shard-ms from bench_shards.py; cores, network and storage are assumptions.
docs/scale.md explains each term.

    python benchmarks/scale.py --storage-gb-s 20
"""

import argparse
import math
from dataclasses import dataclass

TERABYTES, MACHINES = (1, 10), (1, 16, 256)


@dataclass(frozen=True)
class Cost:
    """Seconds of each part; reading and encoding overlap."""

    shards: int
    reading: float
    encoding: float
    merging: float
    rest: float
    reader: str

    @property
    def total(self) -> float:
        """Wall seconds."""
        return max(self.reading, self.encoding) + self.merging + self.rest

    @property
    def bottleneck(self) -> str:
        """The part that takes longest."""
        parts = {self.reader: self.reading, "cores": self.encoding, "the merge": self.merging}
        return max(parts, key=lambda name: parts[name])


def cost(given: argparse.Namespace, terabytes: int, machines: int) -> Cost:
    """Computes the cost of one corpus on a number of machines."""
    megabytes = terabytes * 1e6
    shards = math.ceil(megabytes / given.shard_mb)
    rounds = math.ceil(shards / (machines * given.cores))
    links = machines * given.network_gb_s
    each = given.shard_mb / given.core_mb_s + given.shard_ms / 1e3
    return Cost(
        shards=shards,
        reading=megabytes / given.ratio / 1e3 / min(links, given.storage_gb_s),
        encoding=rounds * each,
        merging=shards * (given.merge_ms / 1e3 + given.part_mb / 1e3 / given.network_gb_s),
        rest=given.start_s,
        reader="the network of a machine" if links < given.storage_gb_s else "the storage",
    )


def told(seconds: float) -> str:
    """Formats seconds for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def main() -> None:
    """Parses the command line, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    measured = parser.add_argument_group("measured")
    for name, value in (("core-mb-s", 82), ("start-s", 1.2), ("shard-ms", 1.6)):
        measured.add_argument(f"--{name}", type=float, default=value)
    for name, value in (("part-mb", 0.9), ("merge-ms", 2.7)):
        measured.add_argument(f"--{name}", type=float, default=value)
    assumed = parser.add_argument_group("assumed")
    assumed.add_argument("--cores", type=int, default=16, help="of a machine")
    assumed.add_argument(
        "--shard-mb", type=float, default=256, help="of large files that can be cut"
    )
    assumed.add_argument("--network-gb-s", type=float, default=1.25, help="of a machine")
    assumed.add_argument("--storage-gb-s", type=float, default=20, help="of all together")
    assumed.add_argument("--ratio", type=float, default=1, help="text bytes a byte that is read")
    given = parser.parse_args()
    heads = ("text", "machines", "shards", "reading", "encoding", "merging", "in all", "longest")
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    for terabytes in TERABYTES:
        for machines in MACHINES:
            c = cost(given, terabytes, machines)
            parts = " | ".join(told(s) for s in (c.reading, c.encoding, c.merging, c.total))
            print(f"| {terabytes} TB | {machines} | {c.shards:,} | {parts} | {c.bottleneck} |")


if __name__ == "__main__":
    main()
