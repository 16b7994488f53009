"""How a file is to be read: as what, with which number of rows, and how strictly."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.metadata import check_rows

Kind = Literal[
    "auto",
    "token-map",
    "vocab-freq",
    "token-freq",
    "npy",
    "mapping",
    "modelopt",
    "nemo",
    "checkpoint",
    "json",
    "text",
    "draft-vocab",
    "frequency",
]
KINDS: tuple[Kind, ...] = get_args(Kind)


def warn(text: str) -> None:
    """Says a remark as a Python warning, where nobody else listens."""
    warnings.warn(text, stacklevel=4)


def ignore(text: str) -> None:
    """Hears a remark and keeps it."""


@dataclass(frozen=True)
class How:
    """How a file is to be read.

    Attributes:
        kind: what it is; `auto` finds out, or refuses to guess.
        rows: V, where it is known.
        repair: drop repeated ids of a list, and say so.
        force: take what looks like a mistake for what is meant.
        note: hears remarks.
    """

    kind: Kind = "auto"
    rows: int | None = None
    repair: bool = False
    force: bool = False
    note: Callable[[str], None] = warn

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise FileFormatError(f"kind {self.kind!r}", expected=f"one of {', '.join(KINDS)}")
        if self.rows is not None:
            check_rows(self.rows, "the call")

    def rows_of(self, name: str, known: int | None = None) -> int:
        """V: what a file says, which a given number must equal, or the given number.

        Raises:
            FileFormatError: nobody says it, it makes no sense, or the two differ.
        """
        if known is None and self.rows is None:
            raise FileFormatError(
                f"{name} does not say how many rows the target has",
                expected="V, the vocab_size in the target's config.json",
                hint="give it with --rows V (rows=V)",
            )
        if known is None:
            return int(self.rows or 0)
        check_rows(known, name)
        if self.rows not in (None, known):
            raise FileFormatError(
                f"{name} is for {known} rows, and --rows (rows=) says {self.rows}",
                hint="leave --rows out, or take the file of the right target",
            )
        return known


@contextmanager
def naming(name: str, otherwise: Callable[[], str] = str) -> Iterator[None]:
    """Puts the name of a file before what was wrong in it.

    Args:
        name: of the file.
        otherwise: gives what to do where the error does not say so.
    """
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(
            f"{name}: {error.wrong}", expected=error.expected, hint=error.hint or otherwise()
        ) from None
