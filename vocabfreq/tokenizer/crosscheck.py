"""A sample of every shard is encoded again by the reference; one difference raises the alarm.

What is known to differ never gets here: `rare` sends it to the reference beforehand. The sample is
for what nobody knows yet, and takes texts beyond ASCII first.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vocabfreq.tokenizer.encoders import Encoded, TokenizersEncoder

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
