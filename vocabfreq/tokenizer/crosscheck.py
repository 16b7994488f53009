"""A sample of every shard is encoded again by the reference; one difference raises the alarm.

What is known to differ never gets here: `rare` sends it to the reference beforehand. The sample is
for what nobody knows yet, and takes texts beyond ASCII first.

Texts on which two engines of different age may disagree, told apart before anyone encodes them.

An engine splits and normalises by the Unicode tables that it was built with. A code point that is
newer than one engine's tables is a letter to one and nothing to the other. (Seen with gigatoken
0.10.0 and tokenizers 0.23.3: some 4,700 code points, nearly all of them new in Unicode 17, and
with NFC also combining marks younger than the older engine's tables.) Such texts are so rare that
they all can go to the reference, whatever the sample would have caught.
"""

import unicodedata
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import numpy.typing as npt

from vocabfreq.tokenizer.encoders import Encoded, TokenizersEncoder

_OLD = unicodedata.ucd_3_2_0
_FIRST = 0x340  # below it nothing is young
_FIRST_LEAD = 0xCD  # the byte with which UTF-8 begins U+0340
_DENSE = 0.1
_EMPTY_PLANES = range(4, 14)  # without a single character


def rare_texts(texts: list[str], utf8: list[bytes]) -> list[int]:
    """Indices of the texts that hold a young code point, ascending.

    Young is what Python's Unicode tables do not know, and a mark or composed character that
    Unicode 3.2 did not know.

    Args:
        texts: the texts.
        utf8: the same in UTF-8.
    """
    wide = [n for n, text in enumerate(texts) if not text.isascii()]
    if not wide:
        return []
    parts = [utf8[n] for n in wide]
    data = np.frombuffer(b"".join(parts) + b"\0\0\0", np.uint8)
    leads = np.flatnonzero(data >= _FIRST_LEAD)
    if len(leads) > len(data) * _DENSE:
        return _by_character(texts, wide)
    places = leads[_are_young(_code_points(data, leads))]
    return _owners(places, [len(part) for part in parts], wide)


def _by_character(texts: list[str], wide: list[int]) -> list[int]:
    """The same for scripts of which most characters have to be looked at."""
    characters = "".join(texts[n] for n in wide).encode("utf-32-le")
    places = np.flatnonzero(_are_young(np.frombuffer(characters, np.uint32)))
    return _owners(places, [len(texts[n]) for n in wide], wide)


def _owners(places: npt.NDArray[np.intp], lengths: list[int], wide: list[int]) -> list[int]:
    """The texts in which the places of the joined texts lie."""
    found = np.searchsorted(np.cumsum(lengths), places, side="right")
    return [wide[n] for n in np.unique(found).tolist()]


def _code_points(data: npt.NDArray[np.uint8], leads: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """The code points that begin at the given bytes of UTF-8; each is of two to four bytes."""
    lead = data[leads].astype(np.int32)
    second, third = (data[leads + n].astype(np.int32) & 0x3F for n in (1, 2))
    points = (lead & 0x1F) << 6 | second
    three = lead >= 0xE0
    points[three] = (lead[three] & 0x0F) << 12 | second[three] << 6 | third[three]
    four = np.flatnonzero(lead >= 0xF0)
    last = data[leads[four] + 3].astype(np.int32) & 0x3F
    points[four] = (lead[four] & 0x07) << 18 | second[four] << 12 | third[four] << 6 | last
    return points


def _are_young(points: npt.NDArray[np.integer]) -> npt.NDArray[np.bool_]:
    planes = (int(points.max()) >> 16) + 1 if len(points) else 1
    young: npt.NDArray[np.bool_] = _young(planes)[points]
    return young


@cache
def _young(planes: int) -> npt.NDArray[np.bool_]:
    """Which code points of the first planes are young, bool [0x10000 * planes]."""
    return np.concatenate([_plane(number) for number in range(planes)])


@cache
def _plane(number: int) -> npt.NDArray[np.bool_]:
    if number in _EMPTY_PLANES:
        return np.ones(0x10000, bool)
    points = range(number << 16, number + 1 << 16)
    return np.fromiter((point >= _FIRST and _is_young(chr(point)) for point in points), bool)


def _is_young(char: str) -> bool:
    if unicodedata.category(char) == "Cn":
        return True
    composes = unicodedata.combining(char) or unicodedata.decomposition(char)[:1].isalnum()
    return bool(composes) and _OLD.category(char) == "Cn"


SHARE = 0.0005
FLOOR_BYTES = 256 << 10  # the first shard of a source gets this much, whatever its size
CANDIDATES = 1024
NAMED_CODE_POINTS = 8


class EncoderMismatchError(Exception):
    """The fast engine and the reference disagree on a text."""

    def __init__(self, code_points: list[str], checked: int) -> None:
        super().__init__(", ".join(code_points))
        self.code_points, self.checked = code_points, checked


@dataclass
class CrossCheck:
    """Compares samples of what the fast engine gave with the reference.

    Attributes:
        reference: the engine that is right.
        budget: bytes that may be checked now; grows with what is counted.
        checked: texts checked so far.
    """

    reference: TokenizersEncoder
    budget: float = 0.0
    checked: int = field(default=0, init=False)

    def check(self, texts: list[str], encoded: Encoded) -> None:
        """Checks what the budget allows of a batch.

        Raises:
            EncoderMismatchError: naming the code points on which the engines differ.
        """
        self.budget += sum(map(len, texts)) * SHARE
        chosen = self._choose(texts)
        if not chosen:
            return
        expected = self.reference.encode([texts[i] for i in chosen])
        for place, index in enumerate(chosen):
            got = encoded.ids[encoded.offsets[index] : encoded.offsets[index + 1]]
            want = expected.ids[expected.offsets[place] : expected.offsets[place + 1]]
            if not np.array_equal(got, want):
                points = self._code_points(texts[index], got)
                raise EncoderMismatchError(points, self.checked + place + 1)
        self.checked += len(chosen)

    def _choose(self, texts: list[str]) -> list[int]:
        """Of the first texts those beyond ASCII, then the others, while budget is left."""
        candidates = range(min(len(texts), CANDIDATES))
        chosen = []
        for index in sorted(candidates, key=lambda i: texts[i].isascii()):
            if len(texts[index]) > self.budget:
                continue
            size = len(texts[index].encode())
            if size <= self.budget:
                self.budget -= size
                chosen.append(index)
        return sorted(chosen)

    def _code_points(self, text: str, got: npt.NDArray[np.uint32]) -> list[str]:
        """The characters at the first difference, rare ones if there are any."""
        encoding = self.reference.tokenizer.encode(text, add_special_tokens=False)
        want = np.asarray(encoding.ids, np.uint32)
        same = min(len(want), len(got))
        differs = np.flatnonzero(want[:same] != got[:same])
        first = int(differs[0]) if len(differs) else max(same - 1, 0)
        around = encoding.offsets[max(first - 1, 0) : first + 3] or [(0, len(text))]
        span = text[around[0][0] : around[-1][1]] or text
        rare = [c for c in span if not c.isascii()] or list(span)
        return [f"U+{ord(c):04X}" for c in dict.fromkeys(rare)][:NAMED_CODE_POINTS]
