"""What one shard holds, and what all shards of a build have in common."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import TRIVIAL_MASK, Tally
from vocabfreq.tokenizer.encoders import EncoderName

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Job:
    """What every shard of a build has in common.

    Attributes:
        tokenizer: path of tokenizer.json.
        sha256: what its content must hash to.
        rows: V.
        holdout: one document in this many is held out, 0 for none.
        encoder: which engine.
    """

    tokenizer: Path
    sha256: str
    rows: int
    holdout: int
    encoder: EncoderName


@dataclass
class ShardCount:
    """What one shard holds. Sums of these are what a build is made of.

    Attributes:
        counts: int64 [V], occurrences outside the held-out documents.
        heldout: int64 [V], the same inside them.
        documents: all documents.
        heldout_documents: those held out.
        bytes: UTF-8 bytes of the text counted (of ids: none).
        digest: sum of the documents' SHA-256 modulo 2**256, so that order does not matter.
        tally: what was skipped.
        lines: rows read, a number per piece.
        encoder: name and version of the engine that counted.
        checked: texts compared with the reference.
        mismatched: 1 when the fast engine was caught, and the shard counted again.
        code_points: where it was caught.
        mask: how many ids a loss mask kept and dropped.
    """

    counts: Counts
    heldout: Counts
    documents: int = 0
    heldout_documents: int = 0
    bytes: int = 0
    digest: int = 0
    tally: Tally = field(default_factory=Tally)
    lines: list[int] = field(default_factory=list)
    encoder: tuple[str, str] = ("none", "")
    checked: int = 0
    mismatched: int = 0
    code_points: list[str] = field(default_factory=list)
    mask: tuple[int, int] = (0, 0)

    @property
    def tokens(self) -> int:
        """Everything counted, held out or not."""
        return int(self.counts.sum() + self.heldout.sum())


def mask_remark(mask: tuple[int, int]) -> str | None:
    """The remark about a loss mask that says nothing, None when there is none to make."""
    kept, dropped = mask
    if kept + dropped == 0 or (kept and dropped):
        return None
    return TRIVIAL_MASK.format("ones" if kept else "zeros")
