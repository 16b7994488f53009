"""How rows become batches of texts or ids.

`decoder_of` reads JSON lines of one plain column at full speed and parses no other column.
`BatchBuilder` takes rows of any layout one at a time, and skips those that do not fit.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from vocabfreq.corpus.bad_rows import (
    ERROR_ROW,
    NO_COLUMN,
    NO_MASK,
    NO_TEXT,
    NOT_JSON,
    NOT_OBJECT,
    NOT_UTF8,
    NULL,
    SURROGATE,
    TEMPLATE,
    WRONG_ITEMS,
    WRONG_MASK,
    WRONG_TYPE,
    BadRows,
)
from vocabfreq.corpus.extraction import Document
from vocabfreq.corpus.layouts import MASK_COLUMN, Kind, Layout, Roles
from vocabfreq.corpus.messages import (
    CALL_ROLES,
    ROLES,
    TOOLS_COLUMN,
    ContentError,
    Message,
    as_message,
    is_assistant,
    turn_texts,
)
from vocabfreq.tokenizer.chat_template import TemplateError
from vocabfreq.tokenizer.rendering import TurnRenderer

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
        uncounted: roles and texts of turns that do not count because nobody knows the role.
    """

    texts: list[str] = field(default_factory=list)
    sizes: list[int] | None = None
    uncounted: list[tuple[str, str]] = field(default_factory=list)


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


class Turn(msgspec.Struct, omit_defaults=True):
    """A turn of a chat as a row has it: OpenAI's `role` and `content`, or ShareGPT's names."""

    role: str | None = None
    content: Any = None
    speaker: str | None = msgspec.field(default=None, name="from")
    value: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    tool_calls: Any = None
    function_call: Any = None
    name: Any = None
    tool_call_id: Any = None

    @property
    def plain(self) -> str | None:
        """The content, when it is a text and the turn holds nothing else that was written."""
        content = self.value if self.content is None else self.content
        if isinstance(content, str) and (
            self.reasoning_content
            is self.reasoning
            is self.thinking
            is self.tool_calls
            is self.function_call
            is None
        ):
            return content
        return None


@cache
def decoder_of(layout: Layout) -> "msgspec.json.Decoder[Any]":
    """Decodes a JSON line into an object with `value`; of chats `tools` too, of ids `mask`."""
    types: dict[Kind, Any] = {"text": str, "chat": list[Turn], "ids": list[int]}
    fields: list[Any] = [("value", types[layout.kind], msgspec.field(name=layout.column))]
    if layout.kind == "chat" and layout.column != TOOLS_COLUMN:
        fields.append(("tools", Any, msgspec.field(name=TOOLS_COLUMN, default=None)))
    if layout.kind == "ids":
        fields.append(("mask", list[int] | None, msgspec.field(name=MASK_COLUMN, default=None)))
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False))


def chat_texts(turns: list[Turn], roles: Roles, batch: Batch) -> list[str]:
    """The texts of a conversation's turns that count, without a chat template.

    Turns of an unknown role do not count; they go to `batch.uncounted`.

    Raises:
        ContentError: a turn's content has no known text key.
    """
    texts: list[str] = []
    for turn in turns:
        role = (turn.role or turn.speaker or "").lower()
        meaning = ROLES.get(role)
        if meaning is None and roles != "all":
            batch.uncounted += [(role, text) for text in turn_texts(msgspec.to_builtins(turn))]
        elif meaning == "assistant" or roles == "all":
            text = turn.plain
            texts += turn_texts(msgspec.to_builtins(turn)) if text is None else [text] * bool(text)
    return texts


def chat_messages(turns: list[Turn]) -> list[Message]:
    """A conversation as OpenAI messages, for a chat template.

    Raises:
        ContentError: a turn's content has no known text key.
    """
    messages: list[Message] = []
    for turn in turns:
        text, role = turn.plain, (turn.role or turn.speaker or "").lower()
        if text is None or turn.name or turn.tool_call_id or role in CALL_ROLES:
            messages.append(as_message(msgspec.to_builtins(turn)))
        else:
            messages.append({"role": ROLES.get(role, role), "content": text})
    return messages


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
        renderer: of a chat template, None to count the text of the rows.
    """

    layout: Layout
    bad_rows: BadRows
    file: str
    unit: str
    renderer: TurnRenderer | None = None
    _documents: list[tuple[int, Document]] = field(default_factory=list)
    _ids: list[list[int]] = field(default_factory=list)
    _masks: list[list[int] | None] = field(default_factory=list)
    _numbers: list[int] = field(default_factory=list)

    def add(self, row: Any, number: int) -> None:
        """Adds what a row holds; skips it if it does not fit."""
        try:
            if self.layout.kind == "ids":
                ids = _ids_in(row, self.layout)
                self._masks.append(_mask(row, len(ids)))
                self._ids.append(ids)
                self._numbers.append(number)
            else:
                self._documents += [(number, found) for found in _documents_in(row, self.layout)]
        except BadRowError as error:
            self.skip(error, number)

    def skip(self, error: BadRowError, number: int) -> None:
        """Counts a bad row."""
        self.bad_rows.add_row(str(error), self.file, self.unit, number, error.detail)

    def build(self) -> Iterator[Batch | IdBatch]:
        """The batch, or nothing when every row was skipped."""
        if self._ids:
            yield id_batch(self._ids, self._masks, self._numbers, self.bad_rows)
        elif self._documents:
            batch = Batch(sizes=[])
            for (number, document), texts in zip(self._documents, self._texts(), strict=True):
                if isinstance(texts, BadRowError):
                    self.skip(texts, number)
                    continue
                batch.texts += [self._without_surrogates(text, number) for text in texts]
                batch.sizes.append(len(texts))  # type: ignore[union-attr]
                if self.layout.roles != "all":
                    batch.uncounted += document.unknown_roles()
            if batch.sizes:
                yield batch

    def _texts(self) -> list[list[str] | BadRowError]:
        """The texts of each document, or why it has none."""
        renders = self.renderer is not None and self.layout.roles != "all"
        found: list[list[str] | BadRowError | None] = []
        conversations, tools = [], []
        for _, document in self._documents:
            try:
                if renders and (document.turns or document.answer):
                    conversations.append(document.messages())
                    tools.append(document.tools)
                    found.append(None)
                else:
                    found.append(document.texts())
            except ContentError as error:
                found.append(BadRowError(WRONG_ITEMS.format("turns"), str(error)))
        rendered = iter(self.renderer.turns(conversations, tools) if self.renderer else ())
        return [
            _own_turns(document, next(rendered)) if texts is None else texts
            for (_, document), texts in zip(self._documents, found, strict=True)
        ]

    def _without_surrogates(self, text: str, number: int) -> str:
        """Replaces lone surrogates, which no tokenizer takes, by U+FFFD."""
        try:
            text.encode()  # three times faster than a search
        except UnicodeEncodeError:
            text, replaced = _SURROGATE.subn("\ufffd", text)
            for _ in range(replaced):
                self.bad_rows.add_row(SURROGATE, self.file, self.unit, number)
        return text


def _own_turns(document: Document, rendered: list[str] | TemplateError) -> list[str] | BadRowError:
    """Of the rendered turns those that count."""
    if isinstance(rendered, TemplateError):
        return BadRowError(TEMPLATE.format(rendered))
    if not document.turns:
        return rendered
    turns = [n for n, turn in enumerate(document.turns) if is_assistant(turn)]
    return [text for n, text in zip(turns, rendered, strict=True) if n in document.own]


def _documents_in(row: Any, layout: Layout) -> list[Document]:
    """The documents of any JSON value, or of a row of a table."""
    if not isinstance(row, dict):
        raise BadRowError(NOT_OBJECT)
    if layout.kind != "rows" and layout.column not in row:
        raise BadRowError(NO_COLUMN)
    value = row.get(layout.column)
    if isinstance(value, bytes):  # files without a string type keep text as binary
        row = {**row, layout.column: _decoded(value)}
    if layout.kind != "rows" and not _is_of_kind(row[layout.column], layout):
        raise BadRowError(_mismatch(row[layout.column], layout.kind))
    try:
        documents = layout.documents(row)
    except ContentError as error:
        raise BadRowError(NO_TEXT, str(error)) from None
    if layout.kind == "rows" and not documents:
        raise BadRowError(ERROR_ROW if row.get("error") else NO_COLUMN)
    return documents


def _is_of_kind(value: Any, layout: Layout) -> bool:
    if layout.kind == "chat":
        return isinstance(value, list) and all(isinstance(turn, dict) for turn in value)
    return isinstance(value, str) or (layout.answer and isinstance(value, list | dict))


def _decoded(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise BadRowError(NOT_UTF8) from None


def _ids_in(row: Any, layout: Layout) -> list[int]:
    """The ids of any JSON value, or of a row of a table."""
    if not isinstance(row, dict):
        raise BadRowError(NOT_OBJECT)
    if layout.column not in row:
        raise BadRowError(NO_COLUMN)
    try:
        return msgspec.convert(row[layout.column], list[int])
    except (msgspec.ValidationError, TypeError) as error:
        raise BadRowError(_mismatch(row[layout.column], "ids"), str(error)) from None


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
