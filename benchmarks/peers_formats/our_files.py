"""Shared by the check_*.py: reads our files without vocabfreq, and prints results for run.py."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Counts = dict[int, int]


@dataclass(frozen=True)
class OurFiles:
    """Our files of one size, read without vocabfreq.

    Attributes:
        folder: their path.
        d2t: int64 [K], offsets, of `npy`.
        t2d: bool [V], of `npy`.
        counts: id → count, in the order of `token-freq`.
    """

    folder: Path
    d2t: npt.NDArray[Any]
    t2d: npt.NDArray[Any]
    counts: Counts

    @classmethod
    def read(cls, folder: Path) -> "OurFiles":
        """Reads a folder that run.py made."""
        counts = import_module("torch").load(folder / "token_freq.pt", weights_only=True)
        return cls(folder, np.load(cls.npy(folder, "d2t")), np.load(cls.npy(folder, "t2d")), counts)

    @staticmethod
    def npy(folder: Path, name: str) -> Path:
        """The path of `d2t` or `t2d`, whether or not its name has K."""
        return next((folder / "npy").glob(f"{name}*.npy"))

    def print_row(self, function: str, files: str, good: bool, outcome: str) -> None:
        """Prints a line of the table for run.py."""
        sizes = {"size": len(self.d2t), "rows": len(self.t2d)}
        row = {"function": function, "files": files, **sizes, "good": good, "outcome": outcome}
        print(json.dumps(row), flush=True)

    def compare(self, function: str, files: str, pair: Iterable[Any], outcome: str) -> None:
        """Compares d2t and t2d of a tool with ours, dtypes included."""
        theirs = tuple(map(np.asarray, pair))
        good = all(
            a.dtype == b.dtype and np.array_equal(a, b)
            for a, b in zip(theirs, (self.d2t, self.t2d), strict=True)
        )
        self.print_row(function, files, good, outcome if good else self.describe_difference(theirs))

    def describe_difference(self, pair: tuple[npt.NDArray[Any], ...]) -> str:
        """The first difference from ours."""
        for name, theirs, ours in zip(("d2t", "t2d"), pair, (self.d2t, self.t2d), strict=True):
            if (theirs.dtype, theirs.shape) != (ours.dtype, ours.shape):
                found = f"{theirs.dtype} {list(theirs.shape)}"
                return f"{name} is {found}, ours {ours.dtype} {list(ours.shape)}"
        ids = np.flatnonzero(pair[1] & ~self.t2d)
        if len(ids):
            return f"{len(ids):,} other ids kept, such as {ids[:3].tolist()}"
        return f"{int((pair[0] != self.d2t).sum()):,} other offsets of the same ids"

    def describe_cut(self) -> str:
        """How many ids of the lowest kept count are kept, and how many have it."""
        kept = np.flatnonzero(self.t2d)
        last = min(self.counts.get(int(i), 0) for i in kept)
        inside = sum(self.counts.get(int(i), 0) == last for i in kept)
        tied = sum(self.counts.get(i, 0) == last for i in range(len(self.t2d)))
        return f"{inside:,} of {tied:,} ids with count {last} kept"


def reverse_order(counts: Mapping[int, int]) -> Counts:
    """The same counts, last one first."""
    return dict(reversed(list(counts.items())))
