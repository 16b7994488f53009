"""Makes a JSONL corpus of about N megabytes from text on this machine.

Text files under the given roots (sources, documentation, web pages) are cut into paragraphs at
empty lines; so are the messages of chat files. Repeated paragraphs are kept once, and the rest is
shuffled with a fixed seed. Each document joins 1 to 14 of them, so that documents differ in length
and subject as in a training corpus. The same roots and seed give the same file.

    python benchmarks/make_corpus.py /usr/share /usr/lib/python3 --size-mb 250 -o text.jsonl
    python benchmarks/make_corpus.py /usr/share --chat answers.jsonl --shape messages -o chat.jsonl
"""

import argparse
import hashlib
import html
import json
import os
import random
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

SUFFIXES = (".py", ".txt", ".md", ".rst", ".html", ".rs", ".js", ".pod")
FILE_CHARS = 400_000  # of a longer file only the beginning, or a few files would fill the corpus
PARAGRAPH_CHARS = 40  # shorter ones are mostly headings and closing brackets
PARAGRAPHS = (1, 14)
PROMPT_CHARS = 200
SEED = 0
MB = 1_000_000

_HTML_CODE = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL | re.IGNORECASE)
_HTML_TAG = re.compile(r"<[^>]+>")
_EMPTY_LINES = re.compile(r"\n[ \t\r]*\n\s*\n*")


def text_files(roots: Iterable[Path]) -> list[Path]:
    """Every text file under the roots, in an order that does not depend on the file system."""
    found: set[Path] = set()
    for root in roots:
        for folder, _, names in os.walk(root):
            found.update(Path(folder, name) for name in names if name.endswith(SUFFIXES))
    return sorted(found)


def file_text(path: Path) -> str:
    """The beginning of a file as text; empty if it is not UTF-8 or cannot be read."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(FILE_CHARS)
    except (OSError, UnicodeDecodeError):
        return ""
    if path.suffix == ".html":
        return html.unescape(_HTML_TAG.sub("", _HTML_CODE.sub("", text)))
    return text


def chat_text(path: Path) -> Iterator[str]:
    """The messages of a chat file: JSONL, or a JSON array of rows."""
    text = path.read_text(encoding="utf-8")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    for row in rows if isinstance(rows, list) else [rows]:
        yield from row_text(row)


def row_text(row: Any) -> Iterator[str]:
    """The strings of a row: of `messages`, of `conversations`, and its other string values."""
    if isinstance(row, str):
        yield row
        return
    for key in ("messages", "conversations"):
        for message in row.get(key) or ():
            content = message.get("content", message.get("value"))
            yield content if isinstance(content, str) else ""
    yield from (row[key] for key in ("prompt", "response") if isinstance(row.get(key), str))


def paragraphs(texts: Iterable[str], seen: set[bytes]) -> Iterator[str]:
    """The paragraphs of texts, each at its first occurrence only."""
    for text in texts:
        for paragraph in _EMPTY_LINES.split(text):
            data = paragraph.encode("utf-8", "replace")
            digest = hashlib.blake2b(data, digest_size=16).digest()
            if len(paragraph) >= PARAGRAPH_CHARS and digest not in seen:
                seen.add(digest)
                yield data.decode()


def gather(roots: list[Path], chats: list[Path], size: int, rng: random.Random) -> list[str]:
    """Shuffled paragraphs of about `size` bytes; chat files are used whole and come first."""
    seen: set[bytes] = set()
    kept = [p for path in chats for p in paragraphs(chat_text(path), seen)]
    total = sum(len(p.encode()) for p in kept)
    files = text_files(roots)
    rng.shuffle(files)
    for path in files:
        if total >= size:
            break
        fresh = list(paragraphs([file_text(path)], seen))
        total += sum(len(p.encode()) for p in fresh)
        kept += fresh
    rng.shuffle(kept)
    return kept


def documents(parts: list[str], rng: random.Random) -> Iterator[str]:
    """Documents of a random number of paragraphs."""
    start = 0
    while start < len(parts):
        stop = start + rng.randint(*PARAGRAPHS)
        yield "\n\n".join(parts[start:stop])
        start = stop


def as_row(number: int, document: str, shape: str) -> dict[str, Any]:
    """A document as a row of the corpus."""
    if shape == "text":
        return {"id": number, "text": document}
    asked = {"role": "user", "content": document[:PROMPT_CHARS]}
    return {"id": number, "messages": [asked, {"role": "assistant", "content": document}]}


def write(rows: Iterable[dict[str, Any]], output: Path, size: int) -> tuple[int, int]:
    """Writes rows until the file has `size` bytes; returns rows and bytes written."""
    number = written = 0
    with output.open("wb") as file:
        for row in rows:
            if written >= size:
                break
            written += file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
            number += 1
    return number, written


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("roots", nargs="+", type=Path, help="folders to search for text")
    parser.add_argument("--chat", nargs="+", action="extend", type=Path, default=[],
                        help="JSONL or JSON chat files, taken whole")  # fmt: skip
    parser.add_argument("--shape", choices=("text", "messages"), default="text")
    parser.add_argument("--size-mb", type=float, default=250)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("-o", "--output", type=Path, required=True)
    return parser.parse_args()


def main() -> None:
    """Writes the corpus and prints its size."""
    args = parse_arguments()
    size = int(args.size_mb * MB)
    rng = random.Random(args.seed)  # noqa: S311 (a shuffle, no secret)
    parts = gather(args.roots, args.chat, size, rng)
    rows = (as_row(n, text, args.shape) for n, text in enumerate(documents(parts, rng)))
    number, written = write(rows, args.output, size)
    print(f"{args.output}: {number:,} documents, {written / MB:.1f} MB", file=sys.stderr)
    if written < size:
        print("that is less than asked for: name more roots", file=sys.stderr)


if __name__ == "__main__":
    main()
