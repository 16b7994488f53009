"""`ReadOptions`: kind and rows that the caller states for a file, and strictness of the reader."""

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


def warn(remark: str) -> None:
    """Issues a remark as a Python warning, the default where the caller takes none."""
    warnings.warn(remark, stacklevel=4)


@dataclass(frozen=True)
class ReadOptions:
    """The options of `read`.

    Attributes:
        kind: the format of the file; `auto` detects it, or refuses to guess.
        rows: V, where it is known.
        repair: drop repeated ids of a list, with a remark.
        force: accept offsets that are all zero, and a length that contradicts the file name.
        note: receives remarks.
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

    def resolve_rows(self, name: str, stated: int | None = None) -> int:
        """V, from the file or from the caller; where both state it, they must agree.

        Args:
            name: of the file, for messages.
            stated: V as the file states it, None where it does not.

        Raises:
            FileFormatError: neither states V, V is out of range, or the two differ.
        """
        if stated is None and self.rows is None:
            raise FileFormatError(
                f"{name} does not say how many rows the target has",
                expected="V, the vocab_size in the target's config.json",
                hint="give it with --rows V (rows=V)",
            )
        if stated is None:
            return int(self.rows or 0)
        check_rows(stated, name)
        if self.rows not in (None, stated):
            raise FileFormatError(
                f"{name} is for {stated} rows, and --rows (rows=) says {self.rows}",
                hint="leave --rows out, or take the file of the right target",
            )
        return stated


@contextmanager
def prefix_errors(name: str, make_hint: Callable[[], str] = str) -> Iterator[None]:
    """Prefixes every `FileFormatError` of the block with the name of the file.

    Args:
        name: of the file.
        make_hint: makes a hint for an error that has none.
    """
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(
            f"{name}: {error.wrong}", expected=error.expected, hint=error.hint or make_hint()
        ) from None
