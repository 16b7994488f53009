"""Guards the fast engine with the reference: by Unicode version, and by a sample of every shard.

An engine splits and normalises text by the Unicode tables that it was built with. A code point that
is newer than the tables of one engine is a letter to the other only. (Measured with gigatoken
0.10.0 and tokenizers 0.23.3: some 4,700 code points, nearly all of them new in Unicode 17, and
with NFC also combining marks newer than the older engine's tables.) Texts with such code points are
so rare that the reference encodes all of them; `find_texts_with_new_code_points` finds them before
anything is encoded.

`CrossCheck` looks for differences that nobody knows yet: it encodes a sample of each shard again,
texts beyond ASCII first, and one difference raises `EncoderMismatchError`.
"""

import unicodedata
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from vocabfreq.tokenizer.encoders import Encoded, TokenizersEncoder

SAMPLE_SHARE = 0.0005
FIRST_SHARD_BYTES = 256 << 10  # checked of the first shard of a source, whatever its size
_MAX_CANDIDATES = 1024
_MAX_CODE_POINTS = 8

_UNICODE_3_2 = unicodedata.ucd_3_2_0
_FIRST_CODE_POINT = 0x340  # below it none is new
_FIRST_LEAD_BYTE = 0xCD  # of U+0340 in UTF-8
_DENSE = 0.1
_EMPTY_PLANES = range(4, 14)  # without an assigned character


class EncoderMismatchError(Exception):
    """The fast engine and the reference disagree on a text.

    Attributes:
        code_points: where they differ, such as `U+1F6DD`.
        checked: texts checked, this one included.
    """

    def __init__(self, code_points: list[str], checked: int) -> None:
        super().__init__(", ".join(code_points))
        self.code_points, self.checked = code_points, checked


@dataclass
class CrossCheck:
    """Encodes samples again by the reference and compares.

    Attributes:
        reference: the engine that is right.
        budget: bytes that may be checked now; grows with the text that is encoded.
        checked: texts checked so far.
    """

    reference: TokenizersEncoder
    budget: float = 0.0
    checked: int = field(default=0, init=False)

    def check(self, texts: list[str], encoded: Encoded) -> None:
        """Checks as much of a batch as the budget allows.

        Raises:
            EncoderMismatchError: naming the code points on which the engines differ.
        """
        self.budget += sum(map(len, texts)) * SAMPLE_SHARE
        sample = self._sample(texts)
        if not sample:
            return
        expected = self.reference.encode([texts[index] for index in sample])
        for number, index in enumerate(sample):
            if not np.array_equal(encoded[index], expected[number]):
                points = self._differing_code_points(texts[index], encoded[index])
                raise EncoderMismatchError(points, self.checked + number + 1)
        self.checked += len(sample)

    def _sample(self, texts: list[str]) -> list[int]:
        """Indices of texts that fit the budget, those beyond ASCII first, and takes their bytes."""
        candidates = range(min(len(texts), _MAX_CANDIDATES))
        sample = []
        for index in sorted(candidates, key=lambda i: texts[i].isascii()):
            if len(texts[index]) > self.budget:
                continue
            size = len(texts[index].encode())
            if size <= self.budget:
                self.budget -= size
                sample.append(index)
        return sorted(sample)

    def _differing_code_points(self, text: str, ids: npt.NDArray[np.uint32]) -> list[str]:
        """The characters around the first difference, only those beyond ASCII if there are any."""
        encoding = self.reference.tokenizer.encode(text, add_special_tokens=False)
        expected = np.asarray(encoding.ids, np.uint32)
        common = min(len(expected), len(ids))
        differs = np.flatnonzero(expected[:common] != ids[:common])
        first = int(differs[0]) if len(differs) else max(common - 1, 0)
        around = encoding.offsets[max(first - 1, 0) : first + 3] or [(0, len(text))]
        span = text[around[0][0] : around[-1][1]] or text
        characters = [c for c in span if not c.isascii()] or list(span)
        return [f"U+{ord(c):04X}" for c in dict.fromkeys(characters)][:_MAX_CODE_POINTS]


def find_texts_with_new_code_points(texts: list[str], utf8: list[bytes]) -> list[int]:
    """Indices of the texts that engines of different age may encode differently, ascending.

    New is what Python's Unicode tables do not assign, and a combining mark or composed character
    that Unicode 3.2 did not assign.

    Args:
        texts: the texts.
        utf8: the same in UTF-8.
    """
    candidates = [n for n, text in enumerate(texts) if not text.isascii()]
    if not candidates:
        return []
    parts = [utf8[n] for n in candidates]
    data = np.frombuffer(b"".join(parts) + b"\0\0\0", np.uint8)
    leads = np.flatnonzero(data >= _FIRST_LEAD_BYTE)
    if len(leads) <= len(data) * _DENSE:
        positions = leads[_are_new(_decode(data, leads))]
    else:  # most characters have to be looked at: let Python decode them
        parts = [texts[n].encode("utf-32-le") for n in candidates]
        code_points = np.frombuffer(b"".join(parts), np.uint32)
        positions = 4 * np.flatnonzero(_are_new(code_points))
    found = np.searchsorted(np.cumsum([len(part) for part in parts]), positions, side="right")
    return [candidates[n] for n in np.unique(found).tolist()]


def _decode(data: npt.NDArray[np.uint8], leads: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """The code points whose UTF-8, of two to four bytes, starts at the given positions."""
    lead = data[leads].astype(np.int32)
    second, third = (data[leads + n].astype(np.int32) & 0x3F for n in (1, 2))
    points = (lead & 0x1F) << 6 | second
    three = lead >= 0xE0
    points[three] = (lead[three] & 0x0F) << 12 | second[three] << 6 | third[three]
    four = np.flatnonzero(lead >= 0xF0)
    last = data[leads[four] + 3].astype(np.int32) & 0x3F
    points[four] = (lead[four] & 0x07) << 18 | second[four] << 12 | third[four] << 6 | last
    return points


def _are_new(points: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    planes = (int(points.max()) >> 16) + 1 if len(points) else 1
    new: npt.NDArray[np.bool_] = _new_code_points(planes)[points]
    return new


@cache
def _new_code_points(planes: int) -> npt.NDArray[np.bool_]:
    """Which code points of the first planes are new, bool [0x10000 * planes]."""
    return np.concatenate([_plane(number) for number in range(planes)])


@cache
def _plane(number: int) -> npt.NDArray[np.bool_]:
    if number in _EMPTY_PLANES:
        return np.ones(0x10000, bool)
    points = range(number << 16, number + 1 << 16)
    return np.fromiter((p >= _FIRST_CODE_POINT and _is_new(chr(p)) for p in points), bool)


def _is_new(char: str) -> bool:
    if unicodedata.category(char) == "Cn":
        return True
    composes = unicodedata.combining(char) or unicodedata.decomposition(char)[:1].isalnum()
    return bool(composes) and _UNICODE_3_2.category(char) == "Cn"
