"""Renders the results of bench_build.py: the conditions, and the lines of the table."""

import hashlib
import json
import os
import platform
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from measure import Results, Setup
from report import Budget, Row

MB = 1_000_000
LARGE_MB = 200  # the budgets are for corpora of at least so much text
PACKAGES = ("vocabfreq", "gigatoken", "tokenizers", "numpy", "pyarrow")
TEXT_PEERS = ("fr-spec", "encode-batch", "gigatoken")
IDS_PEERS = ("unique-lists", "unique")
BUDGETS = {
    "fr-spec": Budget("≥", 45, "×"),
    "encode-batch": Budget("≥", 20, "×"),
    "gigatoken": Budget("≥", 0.8, "×"),
    "unique-lists": Budget("≥", 25, "×"),
    "unique": Budget("≥", 25, "×"),
}
BYTE_LEVEL_ONLY = ("fr-spec", "encode-batch")  # wanted of Llama-3, Qwen-3 and their like
STARTUP = Budget("≤", 3, " s")
PEAK = Budget("≤", 1500, " MB")
GROWTH = Budget("≤", 1.15, "×")


def rows(setup: Setup, results: Results) -> list[Row]:
    """The lines of the table; a peer that was left out is shown as not measured."""
    unit = "M ids/s" if "unique" in setup.parts else "MB/s"
    rates, cpu = ([getattr(p, a) / MB for p in results.pairs] for a in ("ours", "ours_cpu"))
    found = [Row("vocabfreq build, steady", rates, unit, per_cpu=cpu)]
    if unit == "MB/s":
        files = [p.ours_file / MB for p in results.pairs]
        found.append(Row("  in bytes of the file", files, unit))
    names = IDS_PEERS if "unique" in setup.parts else TEXT_PEERS
    found += [peer_row(setup, results, name, unit) for name in names]
    if setup.small:
        name = f"start-up: build of {setup.small.text / MB:.1f} MB"
        found.append(Row(name, results.startup, "s", budget=STARTUP, digits=2))
    return found + memory_rows(results)


def peer_row(setup: Setup, results: Results, name: str, unit: str) -> Row:
    """The line of one peer."""
    pairs = [p for p in results.pairs if p.peer == name]
    free = results.facts["sentencepiece"] and name in BYTE_LEVEL_ONLY
    return Row(
        label(setup, name),
        [p.theirs / MB for p in pairs],
        unit,
        ratios=[p.ratio for p in pairs],
        per_cpu=[p.theirs_cpu / MB for p in pairs],
        budget=None if free else BUDGETS[name],
    )


def label(setup: Setup, name: str) -> str:
    """The name of a peer with the part of the corpus that it read."""
    part = setup.parts.get(name)
    words = {
        "fr-spec": "FR-Spec's way, encode + Counter",
        "encode-batch": "encode_batch_fast + bincount",
        "gigatoken": "gigatoken alone, from memory",
        "unique-lists": "unique + Counter, rows as lists",
        "unique": "unique + Counter, rows as views",
    }[name]
    if part is None or part is setup.whole:
        return words
    return f"{words} (first {part.text / MB:.0f} MB)"


def memory_rows(results: Results) -> list[Row]:
    """Peak memory, and its growth from a tenth to the whole."""
    whole, tenth = results.peak, results.peak_tenth
    kind = f", {whole.kind} of {whole.processes} processes" if whole else ""
    peaks = [whole.bytes / MB] if whole else []
    growth = [whole.bytes / tenth.bytes] if whole and tenth else []
    return [
        Row(f"peak memory{kind}", peaks, "MB", budget=PEAK, digits=0),
        Row("  on a tenth", [tenth.bytes / MB] if tenth else [], "MB", digits=0),
        Row("  whole / tenth", growth, "×", budget=GROWTH, digits=2),
    ]


def facts_of(setup: Setup, checked: dict[str, Any]) -> dict[str, Any]:
    """The conditions of the measurement."""
    return {
        "corpus": setup.whole.path.name,
        "file_bytes": setup.whole.size,
        "text" if "unique" not in setup.parts else "ids": setup.whole.text,
        "documents": setup.whole.documents,
        "column": setup.whole.column,
        "tokenizer": str(setup.tokenizer),
        "tokenizer_sha256": hashlib.sha256(setup.tokenizer.read_bytes()).hexdigest(),
        "sentencepiece": is_sentencepiece(setup.tokenizer),
        "versions": {"python": platform.python_version()} | {p: version(p) for p in PACKAGES},
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "machine": f"{platform.system()} {platform.machine()}",
        "runs": setup.runs,
        "options": setup.options,
        "checked": checked,
    }


def is_sentencepiece(tokenizer: Path) -> bool:
    """Whether it spells unknown characters as <0xNN>, as SentencePiece does."""
    return bool(json.loads(tokenizer.read_bytes())["model"].get("byte_fallback"))


def heading(results: Results) -> str:
    """The conditions of the measurement, as text."""
    facts = results.facts
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    what, size = ("M ids", facts["ids"]) if "ids" in facts else ("MB of text", facts["text"])
    checked = facts["checked"]
    lines = [
        f"corpus     {facts['corpus']}, column {facts['column']}: {size / MB:.1f} {what} "
        f"in a file of {facts['file_bytes'] / MB:.1f} MB, {facts['documents']:,} documents",
        f"tokenizer  {facts['tokenizer']} (sha256 {facts['tokenizer_sha256'][:12]})",
        f"machine    {facts['machine']}, {facts['cores']} cores; {facts['runs']} runs; {versions}",
        f"counts     equal to those of {checked['peer']} on the first {checked['documents']:,} "
        f"documents, {checked['tokens']:,} tokens",
        *(
            f"encoder    {text}"
            for text in sorted({engine(p.encoder) for p in results.pairs} - {""})
        ),
    ]
    if results.others is not None:
        lines.append(f"others     kept {results.others:.2f} of the cores busy while this ran")
    if facts.get("text", LARGE_MB * MB) < LARGE_MB * MB:
        lines.append(f"note       the budgets are for corpora of at least {LARGE_MB} MB of text")
    return "\n".join(lines)


def engine(record: dict[str, Any]) -> str:
    """The engine that vocabfreq used and the result of its cross-check; nothing for ids."""
    if record["name"] == "none":
        return ""
    return (
        f"{record['name']} {record['version']}; {record['cross_checked_documents']:,} texts "
        f"cross-checked, {record['mismatched_documents']:,} differed"
    )
