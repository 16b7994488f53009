"""`ReadOptions`: kind and rows that the caller states for a file, and strictness of the reader.

The checks of numbers that any file may state, and the helpers for messages, are here too.
"""

import reprlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from vocabfreq.errors import FileFormatError

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
MAX_ROWS = 1 << 26  # more than any head has; a file that says more is refused


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


def check_rows(rows: object, name: str) -> None:
    """Refuses a number of rows that no head has.

    Raises:
        FileFormatError: naming it.
    """
    if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows <= MAX_ROWS:
        raise FileFormatError(
            f"{name} says {short_repr(rows)} rows",
            expected=f"a whole number from 1 to {MAX_ROWS:,}",
        )


def check_known(filled: int, coverage: Mapping[str, float], size: int, name: str) -> None:
    """Refuses a `filled` or a coverage that no vocabulary of K ids can have.

    Raises:
        FileFormatError: naming it.
    """
    if not 0 <= filled <= size:
        raise FileFormatError(
            f"{name}: filled is {short_repr(filled)} of {size} ids", expected=f"0 to {size}"
        )
    for source, share in coverage.items():
        if not 0 <= share <= 1:
            raise FileFormatError(
                f"{name}: coverage of {short_repr(source)} is {short_repr(share)}",
                expected="0 to 1",
            )


def short_repr(value: object) -> str:
    """A bounded `repr` for messages, of a value of any length or depth from a foreign file."""
    try:
        return reprlib.repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"


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
