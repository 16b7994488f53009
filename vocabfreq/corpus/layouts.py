"""What a row holds: plain text, a chat, or token ids; and how to get at it.

`decoder` reads JSON lines at full speed and skips every other column unseen. `convert` does the
same for one value that is already a Python object. Both share one type, so they agree.
"""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from vocabfreq.corpus.bad_rows import UNKNOWN_ROLE, Tally
from vocabfreq.errors import SourceError

Kind = Literal["text", "chat", "ids"]
Roles = Literal["assistant", "all"]

OTHER_ROLES = frozenset(
    {"user", "human", "system", "developer", "tool", "function", "observation", "environment"}
    | {"ipython", "prompter", "context", "tool_response", "function_response"}
)
ASSISTANT_ROLES = frozenset({"assistant", "gpt", "model", "chatgpt", "bot", "bard", "bing"})
OBVIOUS_COLUMNS = ("messages", "conversations", "text", "input_ids", "content")
MASK_COLUMN = "loss_mask"


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
        called = [self.function_call, *(call.function for call in self.tool_calls or ())]
        values = [function.arguments for function in called if function]
        arguments = [_as_text(value) for value in values if value is not None]
        return [text for text in (self.reasoning_content, content, *arguments) if text]


def _as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


_TYPES: dict[Kind, Any] = {"text": str, "chat": list[Turn], "ids": list[int]}


@dataclass(frozen=True)
class Layout:
    """Where a source keeps what is to be counted.

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
        """Decodes a JSON line into an object with `value` and `mask`."""
        return _decoder(self)

    def convert(self, value: Any) -> Any:
        """Checks one value of the column; raises `msgspec.ValidationError` on a wrong type."""
        return msgspec.convert(value, _TYPES[self.kind])

    def texts(self, value: Any, tally: Tally) -> list[str]:
        """The texts of one converted value: one for a text, one or more a turn for a chat.

        A turn of a role that nobody knows is not counted, and the tally is told.
        """
        if self.kind == "text":
            return [value]
        turns = value if self.roles == "all" else [t for t in value if _is_assistant(t, tally)]
        return [text for turn in turns for text in turn.texts()]


@cache
def _decoder(layout: Layout) -> "msgspec.json.Decoder[Any]":
    fields: list[Any] = [("value", _TYPES[layout.kind], msgspec.field(name=layout.column))]
    if layout.kind == "ids":
        fields.append(("mask", list[int] | None, msgspec.field(name=MASK_COLUMN, default=None)))
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False))


def _is_assistant(turn: Turn, tally: Tally) -> bool:
    role = (turn.role or turn.speaker or "").lower()
    if role in ASSISTANT_ROLES:
        return True
    if role not in OTHER_ROLES:
        tally.add(UNKNOWN_ROLE, 1)
    return False


def kind_of(value: Any) -> Kind | None:
    """The kind of a value met in a column, None when it cannot be told."""
    if isinstance(value, str | bytes):
        return "text"
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, dict) and item.keys() & {"role", "from"} for item in value):
        return "chat"
    if all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return "ids"
    return None


def find_layout(rows: list[dict[str, Any]], column: str | None, roles: Roles, where: str) -> Layout:
    """Finds the column that is to be counted.

    Args:
        rows: the first rows of a source.
        column: the column asked for, None to find it.
        roles: whose turns of a chat count.
        where: file name for messages.

    Raises:
        SourceError: there is no such column, or it is not obvious which one is meant.
    """
    kinds = _column_kinds(rows)
    name = column or _obvious(kinds, where)
    if name not in kinds:
        raise _no_column(name, kinds, where)
    kind = kinds[name] or ("chat" if name in ("messages", "conversations") else "text")
    return Layout(kind, name, roles)


def _column_kinds(rows: list[dict[str, Any]]) -> dict[str, Kind | None]:
    kinds: dict[str, Kind | None] = {}
    for row in rows:
        for name, value in row.items():
            kinds[name] = kinds.get(name) or kind_of(value)
    return kinds


def _obvious(kinds: dict[str, Kind | None], where: str) -> str:
    named = [name for name in OBVIOUS_COLUMNS if name in kinds]
    usable = [name for name, kind in kinds.items() if kind]
    if named:
        return next((name for name in named if kinds[name]), named[0])
    if len(usable) == 1:
        return usable[0]
    raise SourceError(
        f"{where}: not clear which column to count, there are {_listed(kinds)}",
        hint="name it with --column",
    )


def _no_column(name: str, kinds: dict[str, Kind | None], where: str) -> SourceError:
    return SourceError(
        f"{where}: no column {name!r}",
        expected=f"one of {_listed(kinds)}",
        hint="name one of them with --column",
    )


def _listed(kinds: dict[str, Kind | None]) -> str:
    return ", ".join(repr(name) for name in kinds) or "no columns at all"
