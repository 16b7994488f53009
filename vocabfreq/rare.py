"""Texts on which two engines of different age may disagree, told apart before anyone encodes them.

An engine splits and normalises by the Unicode tables that it was built with. A code point that is
newer than one engine's tables is a letter to one and nothing to the other. (Seen with gigatoken
0.10.0 and tokenizers 0.23.3: some 4,700 code points, nearly all of them new in Unicode 17, and
with NFC also combining marks younger than the older engine's tables.) Such texts are so rare that
they all can go to the reference, whatever the sample would have caught.
"""

import unicodedata
from functools import cache

import numpy as np
import numpy.typing as npt

_OLD = unicodedata.ucd_3_2_0
_FIRST = 0x340  # below it nothing is young
_FIRST_LEAD = 0xCD  # the byte with which UTF-8 begins U+0340
_DENSE = 0.1


def rare_texts(texts: list[str]) -> list[int]:
    """Indices of the texts that hold a young code point, ascending.

    Young is what Python's Unicode tables do not know, and a mark or composed character that
    Unicode 3.2 did not know.
    """
    wide = [n for n, text in enumerate(texts) if not text.isascii()]
    if not wide:
        return []
    parts = [texts[n].encode() for n in wide]
    data = np.frombuffer(b"".join(parts) + b"\0\0\0", np.uint8)
    leads = np.flatnonzero(data >= _FIRST_LEAD)
    if len(leads) > len(data) * _DENSE:
        return _by_character(texts, wide)
    places = leads[_young()[_code_points(data, leads)]]
    return _owners(places, [len(part) for part in parts], wide)


def _by_character(texts: list[str], wide: list[int]) -> list[int]:
    """The same for scripts of which most characters have to be looked at."""
    characters = "".join(texts[n] for n in wide).encode("utf-32-le")
    places = np.flatnonzero(_young()[np.frombuffer(characters, np.uint32)])
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


@cache
def _young() -> npt.NDArray[np.bool_]:
    """A mask of all code points, bool [0x110000]; made when the first text needs it."""
    young = np.zeros(0x110000, bool)
    young[0x40000:0xE0000] = True  # planes without a single character
    for point in (*range(_FIRST, 0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xF0000)):
        young[point] = _is_young(chr(point))
    return young


def _is_young(char: str) -> bool:
    if unicodedata.category(char) == "Cn":
        return True
    composes = unicodedata.combining(char) or unicodedata.decomposition(char)[:1].isalnum()
    return bool(composes) and _OLD.category(char) == "Cn"
