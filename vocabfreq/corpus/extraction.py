"""Finds what a model wrote in a row of any shape, along paths such as `choices[].message`.

A path is a column name, or names joined by dots; `[]` after a name means each item of a list. A
column that has the whole path as its name goes before the path. Every value found becomes one
document or several: a text, each text of a list, a conversation, a message, an object's text.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from vocabfreq.corpus.messages import (
    ROLES,
    ContentError,
    Message,
    as_message,
    is_assistant,
    is_turn,
    role_of,
    text_in,
    turn_texts,
)

_NESTED = 8  # lists and objects within one another


@dataclass
class Document:
    """What one document of a corpus holds.

    Attributes:
        turns: the conversation that the model's turns are in, as the row has it; empty for a text.
        own: indices of the turns that count.
        text: the text, where there is no conversation.
        answer: whether the text is an answer of the model, to which a chat template applies.
        reasoning: what the model wrote before the answer.
        tools: what the row offers the model to call, for a chat template.
    """

    turns: list[Message] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    text: str = ""
    answer: bool = False
    reasoning: str = ""
    tools: list[Any] | None = None

    def texts(self) -> list[str]:
        """The texts that count, without a chat template.

        Raises:
            ContentError: a turn's content has no known text key.
        """
        if not self.turns:
            return [self.reasoning, self.text] if self.reasoning else [self.text]
        return [text for n in self.own for text in turn_texts(self.turns[n])]

    def messages(self) -> list[Message]:
        """The conversation as OpenAI messages, for a chat template.

        Raises:
            ContentError: a turn's content has no known text key.
        """
        if self.turns:
            return [as_message(turn) for turn in self.turns]
        answer = {"role": "assistant", "content": self.text}
        if self.reasoning:
            answer["reasoning_content"] = self.reasoning
        return [{"role": "user", "content": "."}, answer]

    def unknown_roles(self) -> Iterator[tuple[str, str]]:
        """Roles and texts of turns that are neither the model's nor known as somebody else's."""
        for turn in self.turns:
            if role_of(turn) not in ROLES:
                yield from ((role_of(turn), text) for text in turn_texts(turn))


@cache
def steps_of(path: str) -> tuple[str, ...]:
    """The names of a path, with `[]` as a step of its own."""
    steps: list[str] = []
    for part in path.split("."):
        name = part
        brackets = 0
        while name.endswith("[]"):
            name, brackets = name.removesuffix("[]"), brackets + 1
        steps += [name] * bool(name) + ["[]"] * brackets
    return tuple(steps)


def values_at(row: Message, path: str) -> list[Any]:
    """The values that a path leads to, None values left out; `[]` when there are none."""
    if path in row:
        return [] if row[path] is None else [row[path]]
    values: list[Any] = [row]
    for step in steps_of(path):
        if step == "[]":
            values = [item for value in values if isinstance(value, list) for item in value]
        else:
            values = [value[step] for value in values if isinstance(value, dict) and step in value]
    return [value for value in values if value is not None]


def documents_in(value: Any, *, answer: bool, every_role: bool = False) -> list[Document]:
    """The documents of a value.

    Args:
        value: a text, a list of texts, a conversation, a message, or an object with a text key.
        answer: whether a bare text is an answer of the model.
        every_role: count the turns of all roles.

    Raises:
        ContentError: it is none of these.
    """
    return _documents(value, answer, every_role, _NESTED)


def _documents(value: Any, answer: bool, every_role: bool, depth: int) -> list[Document]:
    if isinstance(value, str):
        return [Document(text=value, answer=answer)]
    if depth == 0:
        raise ContentError("lists within lists, more than can be followed")
    if isinstance(value, list):
        if value and all(map(is_turn, value)):
            return [conversation(value, every_role=every_role)]
        if any(isinstance(item, dict) and "type" in item for item in value):
            return [Document(text=text_in(value), answer=answer)]  # parts of one content
        nested = [_documents(item, answer, every_role, depth - 1) for item in value]
        return [document for documents in nested for document in documents]
    if is_turn(value):
        return [conversation([value], every_role=every_role)]
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        return [conversation([{**value, "role": "assistant"}])]
    if isinstance(value, dict) and value.get("type") in ("reasoning", "function_call"):
        return [conversation([{"role": "assistant", "content": [value]}])]
    if isinstance(value, dict):
        return [Document(text=text_in(value), answer=answer)]
    raise ContentError(f"{type(value).__name__} instead of text")


def conversation(turns: list[Message], start: int = 0, *, every_role: bool = False) -> Document:
    """A conversation of which the model's turns from `start` on count."""
    own = [n for n in range(start, len(turns)) if every_role or is_assistant(turns[n])]
    return Document(turns=turns, own=own)


def with_chosen(conversations: list[Document], chosen: list[Document]) -> list[Document]:
    """Conversations and the preferred answer of a preference row, each turn once.

    The chosen value is an answer to the conversation, or repeats it and goes on.
    """
    if len(conversations) != 1 or not conversations[0].turns:
        return conversations + chosen
    turns = conversations[0].turns
    found = list(conversations)
    for document in chosen:
        shared = _shared(turns, document.turns)
        if not document.turns:
            answer = {"role": "assistant", "content": document.text}
            found.append(conversation([*turns, answer], len(turns)))
        elif shared == 0:
            found.append(conversation([*turns, *document.turns], len(turns)))
        elif shared < len(document.turns):
            found.append(conversation(document.turns, shared))
    return found


def _shared(one: list[Message], other: list[Message]) -> int:
    """With how many equal turns two conversations begin."""
    number = 0
    for left, right in zip(one, other, strict=False):
        if role_of(left) != role_of(right) or turn_texts(left) != turn_texts(right):
            break
        number += 1
    return number
