"""Which ids to keep: pins first, then by rank, until the size, the coverage or the count is met."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import Metadata

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable

_SHARE = re.compile(r"^[0-9]+(\.[0-9]+)?%$")
Pins = Literal["default", "special", "none"]
Ids = npt.NDArray[np.int64]
ALL = "all sources"


@dataclass(frozen=True)
class Wish:
    """How many ids to keep: exactly one of the first three, and what else must hold.

    Attributes:
        size: K, or a share of V such as "25%".
        coverage: share of tokens that must be kept, above 0 to 1.
        min_count: every id that was counted at least so often.
        floors: source name → coverage that it must reach; K grows until it does.
        multiple_of: K is rounded up to a multiple of this.
    """

    size: int | str | None = None
    coverage: float | None = None
    min_count: int | None = None
    floors: Mapping[str, float] | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        """Refuses what makes no sense whatever the table.

        Raises:
            SelectionError: naming the part and its value.
        """
        if not is_whole(self.multiple_of, 1):
            raise SelectionError(
                f"multiple_of {self.multiple_of!r}", expected="a whole number from 1"
            )
        if self.floors is not None and not isinstance(self.floors, Mapping):
            raise SelectionError(f"floors {self.floors!r}", expected="source name → coverage")


def pinned_ids(
    meta: Metadata, emittable: npt.NDArray[np.bool_], pins: Pins, extra_ids: Iterable[int] = ()
) -> Ids:
    """The ids that are kept whatever their count, ascending.

    Args:
        meta: says which ids are special.
        emittable: bool [V], which ids the tokenizer can emit.
        pins: `default` (stop ids, tokens of the chat template, BOS and EOS, byte tokens),
            `special` (stop ids and every special token), or `none`.
        extra_ids: more ids.

    Raises:
        SelectionError: an id that the tokenizer cannot emit, or an unknown kind of pins.
    """
    kinds = {
        "default": (meta.stop_ids, meta.template_ids, meta.byte_ids),
        "special": (meta.stop_ids, meta.special_ids),
        "none": (),
    }
    extra_ids = list(extra_ids)
    if pins not in kinds:
        raise SelectionError(f"pins {pins!r}", expected=f"one of {', '.join(kinds)}")
    for i in extra_ids:
        if not (is_whole(i, 0) and i < len(emittable) and emittable[i]):
            raise SelectionError(
                f"id {i!r} is to be kept, but the tokenizer never emits it",
                expected=f"one of its {meta.tokenizer.size} ids below {len(emittable)}",
            )
    wanted = {i for ids in kinds[pins] for i in ids if emittable[i]} | set(extra_ids)
    return np.array(sorted(wanted), np.int64)


def select(table: "FrequencyTable", wish: Wish, pinned: Ids) -> DraftVocab:
    """Selects ids.

    Raises:
        SelectionError: the wish contradicts itself or cannot be met; names both numbers.
    """
    if wish.min_count is not None and not is_whole(wish.min_count, 1):
        raise SelectionError(f"min_count {wish.min_count!r}", expected="a whole number from 1")
    order = _order(table, pinned, wish.min_count)
    wanted = _size(table, wish, order, len(pinned))
    size = -(-wanted // wish.multiple_of) * wish.multiple_of
    _check_size(size, wanted, len(pinned), table)
    return _vocab(table, order[:size], pinned)


def _order(table: "FrequencyTable", pinned: Ids, min_count: int | None) -> Ids:
    """Every id that can be emitted: pins, then by rank; the vocabulary is a prefix of it.

    So smaller sizes of the same table and pins are subsets of larger ones.
    """
    ranked = table.ranked_ids[table.emittable[table.ranked_ids]]
    others = ranked[~np.isin(ranked, pinned)]
    if min_count is not None:  # weights may rank a rare id above a frequent one
        often = table.counts.sum(axis=0)[others] >= min_count
        others = np.concatenate([others[often], others[~often]])
    return np.concatenate([pinned, others])


def _size(table: "FrequencyTable", wish: Wish, order: Ids, pins: int) -> int:
    """K before rounding: what was asked for, or more where a floor needs it."""
    given = [w for w in (wish.size, wish.coverage, wish.min_count) if w is not None]
    if len(given) != 1:
        raise SelectionError(
            f"{len(given)} of size, coverage and min_count were given", expected="exactly one"
        )
    if wish.size is not None:
        size = _asked_size(wish.size, table.rows)
    elif wish.coverage is not None:
        size = max(_reaching(table, order, wish.coverage, None), pins)
    else:
        size = _often_enough(table, order, wish.min_count, pins)
    floors = (wish.floors or {}).items()
    return max([size, *(_reaching(table, order, share, name) for name, share in floors)])


def _asked_size(size: int | str, rows: int) -> int:
    if isinstance(size, str) and _SHARE.match(size):
        share = Fraction(size[:-1]) / 100  # in floats 29 % of 100 would be 28
        if not 0 < share <= 1:
            raise SelectionError(f"size {size!r}", expected="a share above 0% and up to 100%")
        return max(1, int(share * rows))
    if isinstance(size, str) and size.isascii() and size.isdecimal():
        size = int(size)
    if not is_whole(size, 1):
        raise SelectionError(
            f"size {size!r}", expected=f"a whole number from 1 to {rows}, or a share such as 25%"
        )
    return int(size)


def is_whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number (Python's or NumPy's, no boolean) from `least`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and value >= least


def is_share(value: Any) -> bool:
    """Whether a value is a number above 0 and up to 1."""
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    return bool(number and 0 < value <= 1)


def _reaching(table: "FrequencyTable", order: Ids, share: float, source: str | None) -> int:
    """How many ids of the order it takes to cover a share."""
    if not is_share(share):
        raise SelectionError(f"coverage {share!r}", expected="a number above 0 and up to 1")
    tokens = table.evaluated(source)
    covered = np.cumsum(tokens[order])
    total = tokens.sum()
    if not total:
        raise SelectionError(f"no tokens in {source or ALL}", expected="something to cover")
    # Whole counts are compared exactly; only weighted shares need room for rounding.
    exact = tokens.dtype.kind == "i"
    wanted = ceil(Fraction(str(share)) * int(total)) if exact else share * total * (1 - 1e-12)
    size = int(np.searchsorted(covered, min(wanted, covered[-1]))) + 1
    if covered[-1] < wanted:
        raise SelectionError(
            f"coverage {share} of {source or ALL} cannot be reached",
            expected=f"at most {covered[-1] / total:.6f}, what ids that can be emitted cover",
        )
    return min(size, len(order))


def _often_enough(table: "FrequencyTable", order: Ids, min_count: Any, pins: int) -> int:
    size = pins + int((table.counts.sum(axis=0)[order[pins:]] >= min_count).sum())
    if not size:
        raise SelectionError(f"no id was counted {min_count} times", expected="a lower min_count")
    return size


def _check_size(size: int, wanted: int, pins: int, table: "FrequencyTable") -> None:
    if size > table.tokenizer.size:
        rounded = f" (rounded up from {wanted:,})" if size != wanted else ""
        raise SelectionError(
            f"size {size:,}{rounded} is more than the {table.tokenizer.size:,} ids that the "
            f"tokenizer can emit, of {table.rows:,} rows",
            hint="ask for fewer",
        )
    if size < pins:
        raise SelectionError(
            f"size {size:,} is fewer than the {pins:,} pinned ids",
            expected=f"at least {pins:,}",
            hint="ask for more, or pin less with --pins special or none",
        )


def _vocab(table: "FrequencyTable", kept: Ids, pinned: Ids) -> DraftVocab:
    """The vocabulary, with the pins at their rank."""
    is_kept = np.zeros(table.rows, bool)
    is_kept[kept] = True
    ranked = table.ranked_ids[is_kept[table.ranked_ids]]
    never_seen = table.counts.sum(axis=0)[kept] == 0
    names = [None, *(source.name for source in table.sources)]
    return DraftVocab(
        target_ids=np.flatnonzero(is_kept),
        rows=table.rows,
        ranked=ranked,
        tokenizer=table.tokenizer.sha256,
        coverage={name or ALL: table.coverage_of(kept, name) for name in names},
        filled=int((never_seen & ~np.isin(kept, pinned)).sum()),
    )
