"""Which ids to keep: the pinned ones, then by rank until the size, coverage or count is reached."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import SelectionError
from vocabfreq.frequencies.metadata import Metadata
from vocabfreq.frequencies.ranking import RankedCounts, is_integer

_PERCENT = re.compile(r"^[0-9]+(\.[0-9]+)?%$")
Pins = Literal["default", "special", "none"]
Ids = npt.NDArray[np.int64]
ALL_SOURCES = "all sources"


@dataclass(frozen=True)
class SelectionOptions:
    """How many ids to keep (exactly one of the first three), and which besides the frequent ones.

    Attributes:
        size: K, pins included, or a share of V such as "25%".
        coverage: share of tokens that the kept ids must cover, above 0 to 1.
        min_count: keep every id that was counted at least so often.
        floors: source name → coverage that it must reach; K grows until it does.
        multiple_of: round K up to a multiple of this.
        pins: ids kept whatever their count: `default` (stop ids, tokens of the chat template, BOS
            and EOS, byte tokens), `special` (stop ids and every special token), or `none`.
        extra_ids: more ids to keep.
        weights: source name → weight, as in `RankedCounts.reweighted`; None for the table's own
            ranking.
    """

    size: int | str | None = None
    coverage: float | None = None
    min_count: int | None = None
    floors: Mapping[str, float] | None = None
    multiple_of: int = 1
    pins: Pins = "default"
    extra_ids: Iterable[int] = ()
    weights: Mapping[str, float] | None = None


def pinned_ids(
    meta: Metadata, emittable: npt.NDArray[np.bool_], pins: Pins, extra_ids: Iterable[int] = ()
) -> Ids:
    """int64, the ids that are kept whatever their count, ascending.

    Args:
        meta: names the stop, special, template and byte ids.
        emittable: bool [V], which ids the tokenizer can emit.
        pins: as in `SelectionOptions`.
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
        if not (is_integer(i, 0) and i < len(emittable) and emittable[i]):
            raise SelectionError(
                f"id {i!r} is to be kept, but the tokenizer never emits it",
                expected=f"one of its {meta.tokenizer.size} ids below {len(emittable)}",
            )
    pinned = {i for ids in kinds[pins] for i in ids if emittable[i]} | set(extra_ids)
    return np.array(sorted(pinned), np.int64)


def select_ids(counts: RankedCounts, options: SelectionOptions, pinned: Ids) -> Ids:
    """int64 [K], the ids to keep: the pinned ones, then the others by rank.

    Args:
        counts: ranked as wanted; `options.weights` is not applied.
        options: how many ids.
        pinned: ids that are kept whatever their count, ascending.

    Raises:
        SelectionError: the options contradict each other or cannot be met; names both numbers.
    """
    _check_options(options)
    order = _selection_order(counts, pinned, options.min_count)
    wanted = _size_before_rounding(counts, options, order, len(pinned))
    size = -(-wanted // options.multiple_of) * options.multiple_of
    emitted = counts.tokenizer.size
    if size > emitted:
        rounded = f" (rounded up from {wanted:,})" if size != wanted else ""
        raise SelectionError(
            f"size {size:,}{rounded} is more than the {emitted:,} ids that the tokenizer can emit, "
            f"of {counts.rows:,} rows",
            hint="choose a smaller size",
        )
    if size < len(pinned):
        raise SelectionError(
            f"size {size:,} is fewer than the {len(pinned):,} pinned ids",
            expected=f"at least {len(pinned):,}",
            hint="choose a larger size, or pin fewer ids with --pins special or none",
        )
    return order[:size]


def _check_options(options: SelectionOptions) -> None:
    """Checks what needs no counts."""
    if not is_integer(options.multiple_of, 1):
        raise SelectionError(
            f"multiple_of {options.multiple_of!r}", expected="a whole number from 1"
        )
    if options.floors is not None and not isinstance(options.floors, Mapping):
        raise SelectionError(f"floors {options.floors!r}", expected="source name → coverage")
    if options.min_count is not None and not is_integer(options.min_count, 1):
        raise SelectionError(f"min_count {options.min_count!r}", expected="a whole number from 1")
    targets = [options.size, options.coverage, options.min_count]
    given = sum(target is not None for target in targets)
    if given != 1:
        raise SelectionError(
            f"{given} of size, coverage and min_count were given", expected="exactly one"
        )


def _selection_order(counts: RankedCounts, pinned: Ids, min_count: int | None) -> Ids:
    """Every id that can be emitted, pins first, then by rank; a selection is a prefix of it.

    So a smaller selection with the same counts and pins is a subset of a larger one.
    """
    ranked = counts.ranked_ids[counts.emittable[counts.ranked_ids]]
    others = ranked[~np.isin(ranked, pinned)]
    if min_count is not None:  # weights may rank a rare id above a frequent one
        frequent = counts.total_counts[others] >= min_count
        others = np.concatenate([others[frequent], others[~frequent]])
    return np.concatenate([pinned, others])


def _size_before_rounding(
    counts: RankedCounts, options: SelectionOptions, order: Ids, pins: int
) -> int:
    """K as requested, or larger where a floor needs it."""
    if options.size is not None:
        size = _parse_size(options.size, counts.rows)
    elif options.coverage is not None:
        size = max(_size_for_coverage(counts, order, options.coverage), pins)
    else:
        minimum = options.min_count or 1
        size = pins + int((counts.total_counts[order[pins:]] >= minimum).sum())
        if not size:
            raise SelectionError(f"no id was counted {minimum} times", expected="a lower min_count")
    floors = (options.floors or {}).items()
    return max([size, *(_size_for_coverage(counts, order, share, name) for name, share in floors)])


def _parse_size(size: int | str, rows: int) -> int:
    if isinstance(size, str) and _PERCENT.match(size):
        share = Fraction(size[:-1]) / 100  # in floats 29 % of 100 would be 28
        if not 0 < share <= 1:
            raise SelectionError(f"size {size!r}", expected="a share above 0% and up to 100%")
        return max(1, int(share * rows))
    if isinstance(size, str) and size.isascii() and size.isdecimal():
        size = int(size)
    if not is_integer(size, 1):
        raise SelectionError(
            f"size {size!r}", expected=f"a whole number from 1 to {rows}, or a share such as 25%"
        )
    return int(size)


def _size_for_coverage(
    counts: RankedCounts, order: Ids, share: float, source: str | None = None
) -> int:
    """Length of the shortest prefix of `order` that covers a share of the tokens."""
    if not _is_share(share):
        raise SelectionError(f"coverage {share!r}", expected="a number above 0 and up to 1")
    tokens = counts.evaluation_counts(source)
    covered = np.cumsum(tokens[order])
    total = tokens.sum()
    if not total:
        raise SelectionError(
            f"no tokens in {source or ALL_SOURCES}", expected="counts to measure coverage on"
        )
    # Integer counts are compared exactly; weighted shares need room for rounding.
    exact = tokens.dtype.kind == "i"
    wanted = ceil(Fraction(str(share)) * int(total)) if exact else share * total * (1 - 1e-12)
    if covered[-1] < wanted:
        raise SelectionError(
            f"coverage {share} of {source or ALL_SOURCES} cannot be reached",
            expected=f"at most {covered[-1] / total:.6f}, what ids that can be emitted cover",
        )
    return int(np.searchsorted(covered, wanted)) + 1


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float | np.floating) and not isinstance(value, bool)
    return bool(number and 0 < value <= 1)
