"""Rows → batches, one row at a time with patience: what fails is skipped and told by reason."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.sources import tally as reasons
from vocabfreq.sources.layout import Layout
from vocabfreq.sources.tally import Tally

_SURROGATE = re.compile("[\ud800-\udfff]")
_JSON_NAMES = {dict: "object", list: "list", str: "text", bool: "boolean"}


class BadRowError(Exception):
    """A row that cannot be counted; the message is the reason."""


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
    return reasons.WRONG_TYPE.format(_JSON_NAMES.get(type(value), "number"))


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
    except (msgspec.ValidationError, KeyError, TypeError, IndexError):
        raise BadRowError(classify(row, layout.column)) from None


def accept_mask(row: Any, layout: Layout, length: int) -> list[int] | None:
    """The loss mask beside a value of ids, None when the source has none.

    Raises:
        BadRowError: it is missing or of another length.
    """
    if layout.mask is None:
        return None
    mask = row.get(layout.mask)
    if not isinstance(mask, list) or len(mask) != length:
        raise BadRowError("loss mask missing or of another length")
    return mask


def mend(text: str) -> tuple[str, int]:
    """Replaces lone surrogates, which no tokenizer takes, by U+FFFD; also says how many."""
    return _SURROGATE.subn("\ufffd", text)


@dataclass
class BatchBuilder:
    """Gathers accepted rows into one batch, and tells the tally of the others."""

    layout: Layout
    tally: Tally
    file: str
    unit: str
    texts: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    masks: list[list[int]] = field(default_factory=list)
    values: list[list[int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def add(self, load: Callable[[], Any], number: int) -> None:
        """Loads a row, checks it and adds what it holds; a bad one goes to the tally."""
        try:
            row = load()
            value = accept(row, self.layout)
            mask = accept_mask(row, self.layout, len(value))
        except BadRowError as bad:
            self.tally.skip(str(bad), self.file, self.unit, number)
            return
        self._append(value, mask, number)

    def _append(self, value: Any, mask: list[int] | None, number: int) -> None:
        self.rows.append(number)
        if self.layout.kind == "ids":
            self.values.append(value)
            self.masks.extend([mask] if mask is not None else [])
            return
        texts = self.layout.texts(value)
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
            yield id_batch(self.values, self.masks, self.rows)
        elif self.sizes:
            yield Batch(self.texts, self.sizes if self.layout.kind == "chat" else None)


def id_batch(values: list[list[int]], masks: list[list[int]], rows: list[int]) -> IdBatch:
    """Lists of ids → one batch of arrays."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    mask = np.concatenate([np.asarray(m, bool) for m in masks]) if masks else None
    return IdBatch(_flat_ids(values, int(offsets[-1])), offsets, mask, np.asarray(rows, np.int64))


def _flat_ids(values: list[list[int]], total: int) -> npt.NDArray[np.int64]:
    flat = np.empty(total, np.int64)
    start = 0
    for value in values:
        # An id too large for int64 is as wrong as any other that is out of range.
        flat[start : start + len(value)] = [min(max(i, -(2**62)), 2**62) for i in value]
        start += len(value)
    return flat
