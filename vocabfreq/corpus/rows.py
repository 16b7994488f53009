"""What a row holds (plain text, a chat, or token ids), and how rows become batches.

`find_layout` chooses the column of a source. `Layout.decoder` reads JSON lines at full speed and
parses no other column; `BatchBuilder` converts rows one at a time, and skips those that do not fit.
Both use the same types, so they accept the same rows.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import (
    NO_COLUMN,
    NO_MASK,
    NOT_JSON,
    NOT_OBJECT,
    NOT_UTF8,
    NULL,
    SURROGATE,
    UNKNOWN_ROLE,
    WRONG_ITEMS,
    WRONG_MASK,
    WRONG_TYPE,
    BadRows,
)
from vocabfreq.errors import SourceError

Kind = Literal["text", "chat", "ids"]
Roles = Literal["assistant", "all"]

OTHER_ROLES = frozenset(
    {"user", "human", "system", "developer", "tool", "function", "observation", "environment"}
    | {"ipython", "prompter", "context", "tool_response", "function_response"}
)
ASSISTANT_ROLES = frozenset({"assistant", "gpt", "model", "chatgpt", "bot", "bard", "bing"})
CHAT_COLUMNS = ("messages", "conversations")
KNOWN_COLUMNS = (*CHAT_COLUMNS, "text", "input_ids", "content")
MASK_COLUMN = "loss_mask"

_SURROGATE = re.compile("[\ud800-\udfff]")
_ITEM_NAMES = {"chat": "turns", "ids": "ids"}
_TYPE_NAMES = {dict: "n object", list: " list", str: " text", bool: " boolean"}


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


class _Part(msgspec.Struct):
    text: str | None = None


class _Function(msgspec.Struct):
    arguments: Any = None


class _ToolCall(msgspec.Struct):
    function: _Function | None = None


class Turn(msgspec.Struct):
    """One chat turn, OpenAI (`role`, `content`) or ShareGPT (`from`, `value`) shaped."""

    role: str | None = None
    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    tool_calls: list[_ToolCall] | None = None
    function_call: _Function | None = None
    speaker: str | None = msgspec.field(default=None, name="from")
    value: str | None = None

    def texts(self) -> list[str]:
        """What the speaker generated, in the order in which a chat template writes it."""
        content = self.content if self.content is not None else self.value
        if isinstance(content, list):
            content = "".join(part.text or "" for part in content)
        calls = [self.function_call, *(call.function for call in self.tool_calls or ())]
        arguments = [call.arguments for call in calls if call and call.arguments is not None]
        written = [
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for value in arguments
        ]
        return [text for text in (self.reasoning_content, content, *written) if text]


_TYPES: dict[Kind, Any] = {"text": str, "chat": list[Turn], "ids": list[int]}


@dataclass(frozen=True)
class Layout:
    """Where a source keeps what is counted.

    Attributes:
        kind: `text`, `chat` or `ids`.
        column: name of the column.
        roles: whose turns of a chat count.
    """

    kind: Kind
    column: str
    roles: Roles = "assistant"

    @property
    def decoder(self) -> "msgspec.json.Decoder[Any]":
        """Decodes a JSON line into an object with `value` and, for ids, `mask`."""
        return _decoder(self)

    def texts(self, value: Any, bad_rows: BadRows) -> list[str]:
        """The texts of one converted value: one for a text, one or more a turn for a chat.

        Turns of an unknown role do not count; `bad_rows` gets their number.
        """
        if self.kind == "text":
            return [value]
        turns = value if self.roles == "all" else [t for t in value if _is_assistant(t, bad_rows)]
        return [text for turn in turns for text in turn.texts()]


@cache
def _decoder(layout: Layout) -> "msgspec.json.Decoder[Any]":
    fields: list[Any] = [("value", _TYPES[layout.kind], msgspec.field(name=layout.column))]
    if layout.kind == "ids":
        fields.append(("mask", list[int] | None, msgspec.field(name=MASK_COLUMN, default=None)))
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False))


def _is_assistant(turn: Turn, bad_rows: BadRows) -> bool:
    role = (turn.role or turn.speaker or "").lower()
    if role in ASSISTANT_ROLES:
        return True
    if role not in OTHER_ROLES:
        bad_rows.add(UNKNOWN_ROLE, 1)
    return False


def find_layout(rows: list[dict[str, Any]], column: str | None, roles: Roles, file: str) -> Layout:
    """Finds the column to count.

    Args:
        rows: the first rows of a source.
        column: the column to count, None to find it.
        roles: whose turns of a chat count.
        file: file name for messages.

    Raises:
        SourceError: there is no such column, or several could be meant.
    """
    kinds: dict[str, Kind | None] = {}
    for row in rows:
        for key, value in row.items():
            kinds[key] = kinds.get(key) or _kind_of(value)
    columns = ", ".join(map(repr, kinds)) or "no columns at all"
    name = column or _default_column(kinds)
    if name is None:
        raise SourceError(
            f"{file}: not clear which column to count, there are {columns}",
            hint="name it with --column",
        )
    if name not in kinds:
        raise SourceError(
            f"{file}: no column {name!r}",
            expected=f"one of {columns}",
            hint="name one of them with --column",
        )
    return Layout(kinds[name] or ("chat" if name in CHAT_COLUMNS else "text"), name, roles)


def _kind_of(value: Any) -> Kind | None:
    """The kind of a value of a column, None when the value does not show it."""
    if isinstance(value, str | bytes):
        return "text"
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, dict) and item.keys() & {"role", "from"} for item in value):
        return "chat"
    if all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return "ids"
    return None


def _default_column(kinds: dict[str, Kind | None]) -> str | None:
    """A column with a known name, else the only one that can be counted."""
    known = [name for name in KNOWN_COLUMNS if name in kinds]
    if known:
        return next((name for name in known if kinds[name]), known[0])
    countable = [name for name, kind in kinds.items() if kind]
    return countable[0] if len(countable) == 1 else None


def load_line(line: bytes) -> Any:
    """Parses one JSON line with the standard library, which takes lone surrogates and NaN.

    Raises:
        BadRowError: it is not UTF-8, or not JSON.
    """
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise BadRowError(NOT_UTF8) from None
    except (ValueError, RecursionError):
        raise BadRowError(NOT_JSON) from None


@dataclass
class BatchBuilder:
    """Gathers rows into one batch; rows that do not fit go to `bad_rows`.

    Attributes:
        layout: where the text is.
        bad_rows: gets the rows that are skipped or repaired.
        file: base name of the file.
        unit: `line` or `row`, for messages.
    """

    layout: Layout
    bad_rows: BadRows
    file: str
    unit: str
    _texts: list[str] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _ids: list[list[int]] = field(default_factory=list)
    _masks: list[list[int] | None] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)

    def add(self, row: Any, number: int) -> None:
        """Adds what a row holds; skips it if it does not fit."""
        try:
            value = _value(row, self.layout)
            mask = _mask(row, len(value)) if self.layout.kind == "ids" else None
        except BadRowError as error:
            self.skip(error, number)
            return
        if self.layout.kind == "ids":
            self._ids.append(value)
            self._masks.append(mask)
            self._numbers.append(number)
            return
        texts = self.layout.texts(value, self.bad_rows)
        self._texts += [self._without_surrogates(text, number) for text in texts]
        self._sizes.append(len(texts))

    def skip(self, error: BadRowError, number: int) -> None:
        """Counts a bad row."""
        self.bad_rows.add_row(str(error), self.file, self.unit, number, error.detail)

    def _without_surrogates(self, text: str, number: int) -> str:
        """Replaces lone surrogates, which no tokenizer takes, by U+FFFD."""
        try:
            text.encode()  # three times faster than a search
        except UnicodeEncodeError:
            text, replaced = _SURROGATE.subn("\ufffd", text)
            for _ in range(replaced):
                self.bad_rows.add_row(SURROGATE, self.file, self.unit, number)
        return text

    def build(self) -> Iterator[Batch | IdBatch]:
        """The batch, or nothing when every row was skipped."""
        if self._ids:
            yield id_batch(self._ids, self._masks, self._numbers, self.bad_rows)
        elif self._sizes:
            yield Batch(self._texts, self._sizes if self.layout.kind == "chat" else None)


def _value(row: Any, layout: Layout) -> Any:
    """The converted value of the column of any JSON value, or of a row of a table."""
    if not isinstance(row, dict):
        raise BadRowError(NOT_OBJECT)
    if layout.column not in row:
        raise BadRowError(NO_COLUMN)
    value = row[layout.column]
    try:
        if isinstance(value, bytes):  # files without a string type keep text as binary
            value = value.decode("utf-8")
        return msgspec.convert(value, _TYPES[layout.kind])
    except UnicodeDecodeError:
        raise BadRowError(NOT_UTF8) from None
    except (msgspec.ValidationError, TypeError) as error:
        raise BadRowError(_mismatch(value, layout.kind), str(error)) from None


def _mismatch(value: Any, kind: Kind) -> str:
    """The reason for a value that is not of the column's type."""
    if value is None:
        return NULL
    if isinstance(value, list) and kind in _ITEM_NAMES:
        return WRONG_ITEMS.format(_ITEM_NAMES[kind])
    return WRONG_TYPE.format(_TYPE_NAMES.get(type(value), " number"))


def _mask(row: dict[str, Any], length: int) -> list[int] | None:
    """The loss mask of a row of ids, None when it has none."""
    mask = row.get(MASK_COLUMN)
    if mask is not None and (not isinstance(mask, list) or len(mask) != length):
        raise BadRowError(WRONG_MASK)
    return mask


def id_batch(
    ids: list[list[int]], masks: list[list[int] | None], rows: list[int], bad_rows: BadRows
) -> IdBatch:
    """Lists of ids, a list a document → one batch of arrays.

    All ids of a document without a mask count; `bad_rows` gets the number of such documents where
    others have one.
    """
    offsets = np.zeros(len(ids) + 1, np.int64)
    np.cumsum([len(document) for document in ids], out=offsets[1:])
    unmasked = sum(mask is None for mask in masks)
    mask = None
    if unmasked < len(masks):
        full = [np.ones(len(i), bool) if m is None else m for i, m in zip(ids, masks, strict=True)]
        mask = np.concatenate([np.asarray(m, bool) for m in full])
        if unmasked:
            bad_rows.add(NO_MASK, unmasked)
    flat = np.empty(int(offsets[-1]), np.int64)
    for start, document in zip(offsets.tolist(), ids, strict=False):
        # An id too large for int64 is as wrong as any other that is out of range.
        flat[start : start + len(document)] = [min(max(i, -(2**62)), 2**62) for i in document]
    return IdBatch(flat, offsets, mask, np.asarray(rows, np.int64))
