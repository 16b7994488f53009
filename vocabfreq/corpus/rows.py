"""Rows → batches, one row at a time with patience: what fails is skipped and told by reason."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.corpus import bad_rows as reasons
from vocabfreq.corpus.bad_rows import Tally
from vocabfreq.corpus.layouts import MASK_COLUMN, Layout

_SURROGATE = re.compile("[\ud800-\udfff]")
_ITEMS = {"chat": "turns", "ids": "ids"}
_JSON_NAMES = {dict: "n object", list: " list", str: " text", bool: " boolean"}


class BadRowError(Exception):
    """A row that cannot be counted; the message is the reason."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.detail = detail


@dataclass
class Batch:
    """Documents on their way to the encoder.

    Attributes:
        texts: the texts of all documents, in order.
        sizes: texts of each document, None when each has exactly one.
    """

    texts: list[str] = field(default_factory=list)
    sizes: list[int] | None = None


@dataclass
class IdBatch:
    """Documents that come as token ids.

    Attributes:
        ids: integers [N], all ids in a row.
        offsets: int64 [D+1], where each document starts.
        mask: bool [N], which ids count, None for all.
        rows: int64 [D], 1-based row of each document in its piece.
    """

    ids: npt.NDArray[np.integer]
    offsets: npt.NDArray[np.int64]
    mask: npt.NDArray[np.bool_] | None
    rows: npt.NDArray[np.int64]


def classify(row: Any, column: str) -> str:
    """Why a row was not accepted."""
    if not isinstance(row, dict):
        return reasons.NOT_OBJECT
    if column not in row:
        return reasons.NO_COLUMN
    return reasons.NULL if row[column] is None else wrong_type(row[column])


def wrong_type(value: Any) -> str:
    """The reason for a value of a type that cannot be counted."""
    return reasons.WRONG_TYPE.format(_JSON_NAMES.get(type(value), " number"))


def load_line(line: bytes) -> Any:
    """One JSON line by the standard library, which takes lone surrogates and NaN.

    Raises:
        BadRowError: it is not UTF-8, or not JSON.
    """
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadRowError(reasons.NOT_UTF8) from None
    except (ValueError, RecursionError):
        raise BadRowError(reasons.NOT_JSON) from None


def accept(row: Any, layout: Layout) -> Any:
    """A row of any shape → its converted value.

    Raises:
        BadRowError: with the reason.
    """
    try:
        return layout.convert(row[layout.column])
    except msgspec.ValidationError as error:
        raise BadRowError(
            _misfit(row[layout.column], layout) or classify(row, layout.column), str(error)
        ) from None
    except (KeyError, TypeError, IndexError):
        raise BadRowError(classify(row, layout.column)) from None


def _misfit(value: Any, layout: Layout) -> str | None:
    """The reason for a list, as it should be, of something that it should not hold."""
    return (
        f"{_ITEMS[layout.kind]} do not fit"
        if layout.kind in _ITEMS and isinstance(value, list)
        else None
    )


def accept_mask(row: Any, length: int) -> list[int] | None:
    """The loss mask beside a value of ids, None when the row has none.

    Raises:
        BadRowError: it is of another length, or no mask.
    """
    mask = row.get(MASK_COLUMN)
    if mask is None:
        return None
    if not isinstance(mask, list) or len(mask) != length:
        raise BadRowError("loss mask of another length")
    return mask


def mend(text: str) -> tuple[str, int]:
    """Replaces lone surrogates, which no tokenizer takes, by U+FFFD; also says how many."""
    try:
        text.encode()  # three times faster than a search
    except UnicodeEncodeError:
        return _SURROGATE.subn("\ufffd", text)
    return text, 0


@dataclass
class BatchBuilder:
    """Gathers accepted rows into one batch, and tells the tally of the others."""

    layout: Layout
    tally: Tally
    file: str
    unit: str
    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    masks: list[list[int] | None] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, load: Callable[[], Any], number: int) -> None:
        """Loads a row, checks it and adds what it holds; a bad one goes to the tally."""
        try:
            row = load()
            value = accept(row, self.layout)
            mask = accept_mask(row, len(value)) if self.layout.kind == "ids" else None
        except BadRowError as bad:
            self.tally.skip(str(bad), self.file, self.unit, number, bad.detail)
            return
        self._append(value, mask, number)

    def _append(self, value: Any, mask: list[int] | None, number: int) -> None:
        self.rows.append(number)
        if self.layout.kind == "ids":
            self.values.append(value)
            self.masks.append(mask)
            return
        texts = self.layout.texts(value, self.tally)
        self.texts += [self._mended(text, number) for text in texts]
        self.sizes.append(len(texts))

    def _mended(self, text: str, number: int) -> str:
        text, replaced = mend(text)
        for _ in range(replaced):
            self.tally.skip(reasons.SURROGATE, self.file, self.unit, number)
        return text

    def build(self) -> Iterator[Batch | IdBatch]:
        """The batch, or nothing when no row was accepted."""
        if self.layout.kind == "ids" and self.values:
            yield id_batch(self.values, self.masks, self.rows, self.tally)
        elif self.sizes:
            yield Batch(self.texts, self.sizes if self.layout.kind == "chat" else None)


def id_batch(
    values: list[list[int]], masks: list[list[int] | None], rows: list[int], tally: Tally
) -> IdBatch:
    """Lists of ids → one batch of arrays. A row without a mask counts whole; the tally is told."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    without = sum(mask is None for mask in masks)
    mask = None
    if without < len(masks):
        whole = [
            np.ones(len(v), bool) if m is None else m for v, m in zip(values, masks, strict=True)
        ]
        mask = np.concatenate([np.asarray(m, bool) for m in whole])
        if without:
            tally.add(reasons.NO_MASK, without)
    return IdBatch(_flat_ids(values, int(offsets[-1])), offsets, mask, np.asarray(rows, np.int64))


def _flat_ids(values: list[list[int]], total: int) -> npt.NDArray[np.int64]:
    flat = np.empty(total, np.int64)
    start = 0
    for value in values:
        # An id too large for int64 is as wrong as any other that is out of range.
        flat[start : start + len(value)] = [min(max(i, -(2**62)), 2**62) for i in value]
        start += len(value)
    return flat
