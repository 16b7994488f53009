"""Measures the peak memory of `vocabfreq build` on parts of a corpus and on one huge document.

The corpus is JSON lines. The script counts its first tenth, its first three tenths and all of it
with the same options, and prints the highest sum over all processes (see memory.py). Then it does
the same with documents of 4, 16 and 64 MB on one line each.

    python benchmarks/make_corpus.py /usr/share /usr/lib/python3 --size-mb 300 -o text.jsonl
    python benchmarks/bench_memory.py text.jsonl --tokenizer path/to/tokenizer
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import memory

PARTS = (1, 3, 10)
HUGE_MB = (4, 16, 64)


def cut(corpus: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """The first tenths of a corpus, ending at a line."""
    size = corpus.stat().st_size
    for part in PARTS:
        path = folder / f"part{part}.jsonl"
        with corpus.open("rb") as source:
            data = source.read(size * part // max(PARTS))
        path.write_bytes(data[: data.rfind(b"\n") + 1])
        yield f"{part}x, {path.stat().st_size / 1e6:,.0f} MB", path


def huge(corpus: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Files of one document each, made from the corpus's texts."""
    for megabytes in HUGE_MB:
        path, text, size = folder / f"huge{megabytes}.jsonl", [], 0
        with corpus.open("rb") as source:
            while size < megabytes * 1_000_000:
                text.append(json.loads(next(source))["text"])
                size += len(text[-1].encode())
        path.write_text(json.dumps({"text": "\n\n".join(text)}) + "\n")
        yield f"one document of {size / 1e6:,.0f} MB", path


def build(path: Path, tokenizer: str, options: list[str], folder: Path) -> memory.Peak | None:
    """Builds once and returns the peak."""
    words = ["build", "-q", "-t", tokenizer, "-s", str(path), "-o", str(folder / "out"), *options]
    code = "from vocabfreq.cli import main; main()"
    process = subprocess.Popen([sys.executable, "-c", code, *words])
    peak = memory.watch(process)
    if process.returncode:
        raise SystemExit(f"build of {path} ended with {process.returncode}")
    return peak


def main() -> None:
    """Parses the command line, runs, prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("options", nargs="*", help="of build, after --")
    given = parser.parse_args()
    print("| corpus | peak memory, MB | times the first | processes |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for parts in (cut(given.corpus, folder), huge(given.corpus, folder)):
            first = None
            for label, path in parts:
                peak = build(path, given.tokenizer, given.options, folder)
                assert peak is not None
                first = first or peak.bytes
                ratio = f"{peak.bytes / first:.2f}"
                print(f"| {label} | {peak.bytes / 1e6:,.0f} | {ratio} | {peak.processes} |")


if __name__ == "__main__":
    main()
