"""Thousands of small documents of every kind that an engine could split in its own way.

The same list in every run (of one Python version, whose standard library gives the code).
"""

import json
import random
import sysconfig
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from real.phrases import PHRASES

STEP = 500
LITERALS = 60
MODULES = ("argparse", "ast", "decimal", "json/decoder", "re/_parser", "statistics", "textwrap")
EMOJI = (
    *"😀😂🥲🫠🤖👻🎉🛝🪩🫨🧿⌚☎♥☀⚡✈",
    "❤️",
    "❤︎",
    "👍🏽",
    "🤝🏿",
    "👩🏾‍🚀",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🏴‍☠️",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "🇯🇵",
    "🇧🇷🇨🇭",
    "🇺",
    "1️⃣",
    "#️⃣",
    "🧑‍🦽‍➡️",
    "\u200d",
    "\ufe0f",
    "🏻",
)
SPACES = (
    " ", "  ", "   ", " " * 7, " " * 64, "\t", "\t\t", "\n", "\n\n", "\n\n\n\n", "\r\n", "\r",
    "\r\n\r\n", "\v", "\f", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f",
    "\u205f", "\u3000", "\u3000\u3000", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\x1c",
    "\u180e", " \n", "\n ", "\t \t", " \xa0 ",
)  # fmt: skip
WORDS = ("a", "word", "I'm", "42", "x_1", "été", "字", "कि", "...", "(", "'s", "'LL", "=>", "Ω")
COMBINING = "\u0300\u0301\u0308\u0323\u0327\u0334\u0345\u0489\u05b0\u064b\u093c\u0e49\u20dd\ufe20"
# What gigatoken 0.10 (Unicode 17) and tokenizers 0.23 know differently. Pre-tokenizers differ on
# what Unicode 17 added; normal form C on every mark since Unicode 10, which changes the order of
# stacked marks, and on some composed letters of Unicode 16.
NEWER_MARKS = "\u07fd\u089a\u08d3\u0eba\u1ac0\u1df6\U00010f83\U0001133b\U0001e130"
NEWER_LETTERS = "\U000113c2\U0001611e\U00016d67"
NEWER_BLOCKS = (
    range(0x88F, 0x890), range(0xC5C, 0xC5D), range(0x1ACF, 0x1AEC), range(0x20C1, 0x20C2),
    range(0xA7CE, 0xA7D0), range(0xFBC3, 0xFBD3), range(0x10940, 0x10960), range(0x11B60, 0x11B80),
    range(0x11DB0, 0x11DF0), range(0x16EA0, 0x16EE0), range(0x18D80, 0x18E00),
    range(0x1CEBA, 0x1CF00), range(0x1E6C0, 0x1E700), range(0x1F6D8, 0x1F6D9),
    range(0x1FA8A, 0x1FA8B), range(0x323B0, 0x33480),
)  # fmt: skip
MATH = "∑∫∂√∞≠≤≥∈∀∃∅⊂⊕⟨⟩→⇒αβγδ𝔸𝒻𝓍𝟘𝟙ℝℕℵ½⅓²³ⁿ₀₁Ⅳⅷ①⑳𝛑٣४๕"
PRIVATE = "\ue000\uf8ff\U000f0000\U0010fffd\ufdd0\ufffe\uffff\ufffd\ufffc"


def documents(literals: Sequence[str] = ()) -> list[str]:
    """All documents, and some that hold special tokens written out.

    Args:
        literals: contents of the added tokens of a tokenizer.
    """
    return [*_plain(), *with_literals(literals)]


def added_tokens(tokenizer: Path) -> list[str]:
    """Contents of the added tokens of a tokenizer.json, at most `LITERALS`, spread evenly."""
    added: list[dict[str, Any]] = json.loads(tokenizer.read_bytes())["added_tokens"]
    step = max(1, len(added) // LITERALS)
    return [str(token["content"]) for token in added[::step]][:LITERALS]


def training_texts() -> list[str]:
    """Texts to train a small tokenizer on: prose and code, no rare characters."""
    rng = random.Random(7)
    return [*prose(rng), *code(rng)]


@cache
def _plain() -> tuple[str, ...]:
    rng = random.Random(20_250)
    kinds: tuple[Callable[[random.Random], Iterator[str]], ...] = (
        prose, code, emoji, whitespace, numbers, long_words, addresses, combining, symbols,
        tiny, controls, code_points,
    )  # fmt: skip
    texts = [text for kind in kinds for text in kind(rng)]
    rng.shuffle(texts)
    return tuple(texts)


def prose(rng: random.Random) -> Iterator[str]:
    """Sentences of each language alone, then of several in one document."""
    for phrases in PHRASES.values():
        yield from phrases
        for _ in range(10):
            yield " ".join(rng.choices(phrases, k=rng.randint(1, 5)))
    everything = [phrase for phrases in PHRASES.values() for phrase in phrases]
    for _ in range(300):
        yield rng.choice(("\n", " ", "\n\n- ", "")).join(rng.choices(everything, k=4))


def code(rng: random.Random) -> Iterator[str]:
    """Pieces of the standard library, cut anywhere, with their indentation; some as JSON or C."""
    library = Path(sysconfig.get_path("stdlib"))
    for module in MODULES:
        lines = (library / f"{module}.py").read_text("utf-8").splitlines(keepends=True)
        for _ in range(50):
            start = rng.randrange(len(lines))
            yield "".join(lines[start : start + rng.randint(1, 40)])
    for n in range(40):
        yield json.dumps({"id": n, "tags": ["a", None, 1e-9], "nested": {"é": "\t"}}, indent=n % 5)
        yield f"for(int i={n};i<{n * n};++i){{ a[i]+=b[i]*0x{n:04X}; /* {n} */ }}\n\t\treturn!*p;"


def emoji(rng: random.Random) -> Iterator[str]:
    """Emoji alone, in rows, and in words."""
    yield from EMOJI
    for _ in range(150):
        yield rng.choice(("", " ", "a", " ok ")).join(rng.choices(EMOJI, k=rng.randint(2, 9)))


def whitespace(rng: random.Random) -> Iterator[str]:
    """Runs of every kind of space: alone, at both ends, between words."""
    yield from SPACES
    yield from (f"{space}word{space}" for space in SPACES)
    for _ in range(200):
        parts = (rng.choice(SPACES) + rng.choice(WORDS) for _ in range(rng.randint(2, 12)))
        yield "".join(parts) + rng.choice(SPACES)


def numbers(rng: random.Random) -> Iterator[str]:
    """Digits in rows of 1 to 40, and numbers as people write them."""
    for length in range(1, 41):
        yield "".join(rng.choices("0123456789", k=length))
    for _ in range(60):
        n = rng.randrange(10 ** rng.randint(1, 12))
        yield f"{n:,} {n:e} -{n}.{n} 0x{n:x} {n}% €{n} {n}th v{n}.0.{n} {n}km²"


def long_words(rng: random.Random) -> Iterator[str]:
    """Words without a break, up to 20,000 characters."""
    for length in (50, 500, 5_000, 20_000):
        yield "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=length))
        yield "".join(rng.choices("абвгдежзийклмн", k=length // 4))
        yield "ab" * (length // 2)
        yield "=" * length
        yield "漢字" * (length // 8)
        yield " " * length


def addresses(rng: random.Random) -> Iterator[str]:
    """URLs, mail addresses, paths."""
    for _ in range(60):
        word = "".join(rng.choices("abcdefghij-_%20", k=rng.randint(3, 20)))
        yield f"https://{word}.example.com:8080/{word}/ü?q={word}&n={len(word)}#§{word}"
        yield f"{word}@mail.example.org, C:\\Users\\{word}\\x.py ~/{word}/../.git/"


def combining(rng: random.Random) -> Iterator[str]:
    """Stacked marks, both normal forms of accented text, Hangul in pieces."""
    for _ in range(80):
        yield "".join(
            letter + "".join(rng.choices(COMBINING, k=rng.randint(0, 4)))
            for letter in rng.choices("aeiou Zñक字ש", k=12)
        )
    for phrases in PHRASES.values():
        yield from (unicodedata.normalize("NFD", phrase) for phrase in phrases)
        yield from (unicodedata.normalize("NFKC", phrase) for phrase in phrases)


def symbols(rng: random.Random) -> Iterator[str]:
    """Mathematics, private use, noncharacters, in any order."""
    for alphabet in (MATH, PRIVATE, MATH + PRIVATE + " a1"):
        for _ in range(40):
            yield "".join(rng.choices(alphabet, k=rng.randint(1, 30)))


def tiny(_: random.Random) -> Iterator[str]:
    """Nothing, and every printable ASCII and Latin-1 character alone, doubled, after a space."""
    yield from [""] * 5
    for code_point in range(32, 256):
        char = chr(code_point)
        yield from (char, char * 2, f" {char}", f"a{char}b")


def controls(_: random.Random) -> Iterator[str]:
    """Control and format characters."""
    for code_point in (*range(32), 127, 0xAD, *range(0x202A, 0x202F), 0x2066, 0xFFF9, 0xE0001):
        yield f"a{chr(code_point)}b {chr(code_point)}{chr(code_point)} 1"


def code_points(_: random.Random) -> Iterator[str]:
    """Every 500th code point of all planes, assigned or not, but for the newest."""
    for code_point in range(0, 0x110000, STEP):
        if not 0xD800 <= code_point <= 0xDFFF and not is_newer(code_point):
            yield _around(chr(code_point))


def is_newer(code_point: int) -> bool:
    """Whether engines know it differently, for one of them has newer Unicode tables."""
    if chr(code_point) in NEWER_MARKS + NEWER_LETTERS:
        return True
    return any(code_point in block for block in NEWER_BLOCKS)


def newer_documents() -> list[str]:
    """Documents on which engines with Unicode tables of different ages differ."""
    picked = [chr(block[n]) for block in NEWER_BLOCKS for n in range(0, len(block), 25)]
    stacked = [f"q\u0301{mark}\u0334 a{mark}\u0323" for mark in NEWER_MARKS]
    return [*stacked, *map(_around, [*picked, *NEWER_LETTERS])]


def _around(char: str) -> str:
    """A character next to letters, digits, spaces and itself."""
    return f"a{char}b {char}{char} {char}1\n{char}'s"


def with_literals(literals: Sequence[str]) -> Iterator[str]:
    """Special tokens written out in text: whole, broken, changed, in rows."""
    rng = random.Random(len(literals))
    for token in literals:
        yield token
        yield f"{token}{token}"
        yield f"before{token}after"
        yield f" {token} and\n{token}\n "
        yield f"{token[:-1]} {token[1:]} {token.upper()} {token}'s"
    for _ in range(40 if literals else 0):
        yield "".join(rng.choice(literals) + rng.choice(SPACES[:8]) for _ in range(5))
