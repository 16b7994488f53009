"""Texts that engines of different Unicode versions may encode differently are found."""

import sys
import unicodedata

import pytest

from vocabfreq.tokenizer.crosscheck import find_texts_with_new_code_points

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
NEW = ["\U000323b0", "\u0378", "\U00050000", "\ufdd0", "\u08ca", "\U00010f83"]


def find(texts: list[str]) -> list[int]:
    return find_texts_with_new_code_points(texts, [text.encode() for text in texts])


def test_ordinary_text_has_no_new_code_points() -> None:
    assert find(ORDINARY) == []


@pytest.mark.parametrize("char", NEW)
def test_a_text_with_a_new_code_point_is_found(char: str) -> None:
    texts = [*ORDINARY, f"x{char}", *ORDINARY, char, f"é{char}é"]
    first = len(ORDINARY)
    assert find(texts) == [first, 2 * first + 1, 2 * first + 2]


def test_every_code_point_is_decoded() -> None:
    points = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
    found = set(find([chr(c) for c in points]))
    unknown = {n for n, c in enumerate(points) if unicodedata.category(chr(c)) == "Cn"}
    # The last two planes are for private use and end in two noncharacters each.
    private = {n for n, c in enumerate(points) if c >= 0xF0000}
    assert unknown - private <= found
    for char in (chr(points[n]) for n in found - unknown):
        assert unicodedata.combining(char) or unicodedata.decomposition(char)
