"""Measures the speed of `vocabfreq build` against its peers, on the same text, in one run.

    python benchmarks/bench_build.py CORPUS --tokenizer TOK
    python benchmarks/bench_build.py CORPUS --tokenizer TOK --ids   (on ids encoded beforehand)

CORPUS is JSONL or parquet with a column of text or chats, TOK a tokenizer.json or its folder.

Before it measures any speed, the script compares the counts of vocabfreq on the first part of the
corpus with those of `encode_batch_fast` and `bincount`. On a difference it exits with code 1.

- "Ours" is the whole command in a fresh process, with all its workers and an empty work folder. Its
  steady rate is extra bytes over extra seconds between the whole corpus and its first tenth.
- The peers (see peers.py) run in fresh processes too. fr-spec and encode-batch are slow and read
  only the first megabytes; their rate is that of their loop after its first tenth. gigatoken
  encodes from memory; its rate is computed like ours, between the whole and a tenth.
- Every peer run follows a run of ours, and a ratio compares two such neighbours. The table shows
  medians and ranges over all runs. Bytes are UTF-8 bytes of the counted text; 1 MB = 10^6.
- Start-up is the wall time of a build of 1 MB. Peak memory (memory.py) is measured in separate
  runs, since watching a process slows it down. All files are in the page cache.
"""

import argparse
import json
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import corpus
import ids
from build_table import IDS_PEERS, MB, TEXT_PEERS, facts_of, heading, rows
from corpus import Corpus
from measure import Results, Setup, check, note, run
from report import Row, table

TENTH = 0.1
SMALL_MB = 1.0


def text_setup(args: argparse.Namespace, whole: Corpus, folder: Path) -> Setup:
    """Cuts the corpus into the parts that are measured."""

    def first(megabytes: float, name: str) -> Corpus:
        return corpus.first_part(whole, megabytes * MB / whole.text, folder, name)

    tenth = corpus.first_part(whole, TENTH, folder, "tenth")
    parts = {"encode-batch": first(args.batch_mb, "batch"), "gigatoken": whole}
    if "fr-spec" in args.peers:
        parts["fr-spec"] = first(args.slow_mb, "slow")
    return Setup(args.tokenizer, whole, tenth, parts, first(SMALL_MB, "small"), folder,
                 args.runs, args.build_option)  # fmt: skip


def ids_setup(args: argparse.Namespace, text: Corpus, folder: Path) -> Setup:
    """Encodes the corpus into a parquet file of ids."""
    note("encoding the corpus ...")
    whole = ids.make_ids(text, args.tokenizer, folder / "ids.parquet")
    tenth = ids.first_ids(whole, TENTH, folder / "tenth.parquet")
    return Setup(args.tokenizer, whole, tenth, dict.fromkeys(IDS_PEERS, whole), None, folder,
                 args.runs, args.build_option)  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("corpus", type=Path, help="JSONL or parquet")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="TOK")
    parser.add_argument("--column", help="default: text, messages or conversations")
    parser.add_argument("--peers", type=peer_names, default=TEXT_PEERS, metavar="A,B")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size-mb", type=float, help="use only so much text of the corpus")
    parser.add_argument("--slow-mb", type=float, default=8, help="text for fr-spec")
    parser.add_argument("--batch-mb", type=float, default=24, help="text for encode-batch")
    parser.add_argument("--ids", action="store_true", help="measure on a column of ids instead")
    parser.add_argument("--no-memory", action="store_true", help="leave peak memory out")
    parser.add_argument("--build-option", action="append", default=[], metavar="=--workers=1")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    return parser.parse_args()


def peer_names(text: str) -> tuple[str, ...]:
    """Splits a comma-separated list of peers."""
    names = tuple(text.split(","))
    if not set(names) <= set(TEXT_PEERS):
        raise argparse.ArgumentTypeError(f"{text!r}; expected some of {','.join(TEXT_PEERS)}")
    return names


def as_json(results: Results, shown: list[Row]) -> str:
    """All measurements and the table, as JSON."""
    judged = [asdict(row) | {"judged": row.judged, "verdict": row.verdict} for row in shown]
    return json.dumps(asdict(results) | {"table": judged}, indent=2, ensure_ascii=False)


def checked_setup(args: argparse.Namespace, folder: Path) -> tuple[Setup, dict[str, object]]:
    """The files to measure on; checks the counts on one of them first."""
    note("reading the corpus ...")
    whole = corpus.measure(args.corpus, args.column)
    if args.size_mb:
        whole = corpus.first_part(whole, args.size_mb * MB / whole.text, folder, "whole")
    setup = (ids_setup if args.ids else text_setup)(args, whole, folder)
    checked = check(setup, "unique" if args.ids else "encode-batch")
    wanted = IDS_PEERS if args.ids else args.peers
    return replace(setup, parts={name: setup.parts[name] for name in wanted}), checked


def main() -> None:
    """Checks the counts, measures, prints the table."""
    args = parse_arguments()
    if args.tokenizer.is_dir():
        args.tokenizer /= "tokenizer.json"
    with tempfile.TemporaryDirectory(prefix="vocabfreq-bench-") as name:
        setup, checked = checked_setup(args, Path(name))
        results = run(setup, facts_of(setup, checked), watch_memory=not args.no_memory)
        shown = rows(setup, results)
    print(as_json(results, shown) if args.json else f"{heading(results)}\n\n{table(shown)}")


if __name__ == "__main__":
    main()
