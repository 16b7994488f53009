"""Blocks of JSON lines in which every turn of a chat is a role and a text, decoded at full speed.

Most chats are like that, in OpenAI's or ShareGPT's names. A turn with anything else in it sends the
block to `rows`, which looks at each turn.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Literal

import msgspec

from vocabfreq.corpus.messages import CALL_ROLES, ROLES, TOOLS_COLUMN
from vocabfreq.corpus.rows import Batch
from vocabfreq.tokenizer.chat_template import TemplateError
from vocabfreq.tokenizer.rendering import PlainConversation, TurnRenderer

# A literal is decoded into one and the same object, which saves an allocation a turn.
_ROLE_NAME: Any = Literal[tuple(sorted(ROLES.keys() - CALL_ROLES))]
_NULL_FIELDS = (  # fields of a turn that is plain where they have no value
    *("reasoning_content", "reasoning", "thinking", "tool_calls", "function_call"),
    *("name", "tool_call_id"),
)


def _turn_type(role: str, content: str, nulls: tuple[str, ...] = ()) -> type[Any]:
    """A turn with a known role, a text, and no other field that has a value."""
    fields: list[Any] = [
        ("role", _ROLE_NAME, msgspec.field(name=role)),
        ("content", str, msgspec.field(name=content)),
    ]
    fields += [(name, None, None) for name in nulls]
    return msgspec.defstruct("Turn", fields, forbid_unknown_fields=True, gc=False)


_OpenAITurn = _turn_type("role", "content", _NULL_FIELDS)
_ShareGptTurn = _turn_type("from", "value")


@cache
def _decoder(column: str, turn: Any, with_tools: bool) -> "msgspec.json.Decoder[Any]":
    fields: list[Any] = [("value", list[turn], msgspec.field(name=column))]
    if with_tools and column != TOOLS_COLUMN:
        fields.append(("tools", Any, msgspec.field(name=TOOLS_COLUMN, default=None)))
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, gc=False))


def plain_conversations(
    block: bytes, column: str, *, with_tools: bool
) -> list[PlainConversation] | None:
    """The conversations of a block of JSON lines, None unless all are plain and of known roles.

    Args:
        block: whole lines.
        column: the column of conversations.
        with_tools: whether a row that offers tools is not plain, since a template reads them.
    """
    turn: Any = _ShareGptTurn if b'"from"' in block[: block.find(b"\n") + 1] else _OpenAITurn
    try:
        rows = _decoder(column, turn, with_tools).decode_lines(block)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if with_tools and any(getattr(row, "tools", None) for row in rows):
        return None
    return [
        PlainConversation(
            _roles(tuple([turn.role for turn in row.value])), [turn.content for turn in row.value]
        )
        for row in rows
    ]


@lru_cache(4096)
def _roles(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(ROLES[name] for name in names)


def plain_batch(
    conversations: Sequence[PlainConversation], renderer: TurnRenderer | None
) -> Batch | None:
    """A batch of the assistant's turns, None when one cannot be rendered.

    Args:
        conversations: as `plain_conversations` gives them.
        renderer: of a chat template, None to count the text of the rows.
    """
    if renderer is None:
        texts = [
            [
                text
                for role, text in zip(roles, contents, strict=True)
                if text and role == "assistant"
            ]
            for roles, contents in conversations
        ]
    else:
        rendered = renderer.turns(conversations)
        texts = [turns for turns in rendered if not isinstance(turns, TemplateError)]
        if len(texts) < len(rendered):
            return None
    return Batch([text for turns in texts for text in turns], list(map(len, texts)))
