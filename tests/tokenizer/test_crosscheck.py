"""Texts that the engines are known to take differently are told apart, and cheaply."""

import sys
import unicodedata

import pytest

from vocabfreq.tokenizer.crosscheck import rare_texts as _rare_texts

ORDINARY = [
    *("", "plain", "naïve ’quotes’", "Привет", "Ελληνικά", "שלום", "مرحبا", "नमस्ते", "สวัสดี"),
    *(
        "한국어",
        "日本語",
        "中文",
        "👨‍👩‍👧 🇩🇪 👍🏽",
        "e\u0301",
        "ệ",
        "\u2028\u00a0\u3000",
        "𝒳",
        "\U0001f9cc",
    ),
]
YOUNG = ["\U000323b0", "\u0378", "\U00050000", "\ufdd0", "\u08ca", "\U00010f83"]


def rare_texts(texts: list[str]) -> list[int]:
    return _rare_texts(texts, [text.encode() for text in texts])


def test_ordinary_text_is_not_rare() -> None:
    assert rare_texts(ORDINARY) == []


@pytest.mark.parametrize("char", YOUNG)
def test_a_young_code_point_makes_its_text_rare(char: str) -> None:
    texts = [*ORDINARY, f"x{char}", *ORDINARY, char, f"é{char}é"]
    first = len(ORDINARY)
    assert rare_texts(texts) == [first, 2 * first + 1, 2 * first + 2]


def test_every_code_point_is_read_right() -> None:
    points = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
    found = set(rare_texts([chr(c) for c in points]))
    unknown = {n for n, c in enumerate(points) if unicodedata.category(chr(c)) == "Cn"}
    # The last two planes are for private use and end in two noncharacters each.
    private = {n for n, c in enumerate(points) if c >= 0xF0000}
    assert unknown - private <= found
    for char in (chr(points[n]) for n in found - unknown):
        assert unicodedata.combining(char) or unicodedata.decomposition(char)
