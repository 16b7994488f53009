"""Messages in the shapes that data sets and servers have, turned into OpenAI's.

`as_message` reads a turn of OpenAI (`role`, `content`), ShareGPT (`from`, `value`) or Anthropic
shape, with content as a text, a list of parts, or an object with one known text key. `turn_texts`
gives what the speaker wrote, for counting without a chat template.
"""

import json
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]

ASSISTANT_ROLES = frozenset(
    {"assistant", "gpt", "model", "chatgpt", "bot", "bard", "bing", "ai", "agent", "chatbot"}
)
# Turns of the model that hold nothing but a call, as LLaMA-Factory's ShareGPT sets have them.
CALL_ROLES = frozenset({"function_call", "tool_call", "tool_calls"})
SYSTEM_ROLES = frozenset({"system", "developer", "context"})
USER_ROLES = frozenset({"user", "human", "prompter"})
TOOL_ROLES = frozenset(
    {"tool", "function", "observation", "environment", "ipython"}
    | {"tool_response", "function_response", "tool_result"}
)
ROLES = {
    **dict.fromkeys(ASSISTANT_ROLES | CALL_ROLES, "assistant"),
    **dict.fromkeys(SYSTEM_ROLES, "system"),
    **dict.fromkeys(USER_ROLES, "user"),
    **dict.fromkeys(TOOL_ROLES, "tool"),
}
KNOWN_ROLES = frozenset(ROLES.values())
TOOLS_COLUMN = "tools"  # of conversations: what a chat template gets under this name
REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
# Where the text of an object stands, in the order in which it is looked for.
TEXT_KEYS = (
    *("text", "value", "content", "answer", "response", "output", "completion", "solution"),
    *("message", "generated_text"),
)
_REASONING_PARTS = frozenset({"reasoning", "thinking", "thought"})
_CALL_PARTS = frozenset({"tool_call", "tool_use", "function_call"})


class ContentError(Exception):
    """Content in which no text can be found; the message names its keys or type."""


def role_of(turn: Message) -> str:
    """The role of a turn as it is written, in lower case; "" when it has none."""
    role = turn.get("role") or turn.get("from")
    return role.lower() if isinstance(role, str) else ""


def is_turn(value: Any) -> bool:
    """Whether a value is an object with the role of a speaker."""
    return isinstance(value, dict) and isinstance(value.get("role") or value.get("from"), str)


def is_assistant(turn: Message) -> bool:
    """Whether the model wrote a turn."""
    return ROLES.get(role_of(turn)) == "assistant"


def as_message(turn: Message) -> Message:
    """A turn as an OpenAI message with `role`, `content` and, where there are any, `tool_calls`.

    Raises:
        ContentError: its content has no known text key.
    """
    role = role_of(turn)
    text, reasoning, calls = _content(turn)
    reasoning = next((turn[key] for key in REASONING_KEYS if turn.get(key)), None) or reasoning
    calls += _calls(turn)
    if role in CALL_ROLES and not calls and (parsed := _parsed_call(text)):
        text, calls = "", parsed
    message: Message = {"role": ROLES.get(role, role), "content": text}
    if isinstance(reasoning, str) and reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    return message | {key: turn[key] for key in ("name", "tool_call_id") if turn.get(key)}


def turn_texts(turn: Message) -> list[str]:
    """What the speaker wrote: reasoning, content, and the arguments of calls, without markup.

    Raises:
        ContentError: its content has no known text key.
    """
    text, reasoning, calls = _content(turn)
    reasoning = next((turn[key] for key in REASONING_KEYS if turn.get(key)), None) or reasoning
    functions = [call.get("function") for call in calls + _calls(turn) if isinstance(call, dict)]
    values = [function.get("arguments") for function in functions if isinstance(function, dict)]
    arguments = [as_text(value) for value in values if value is not None]
    reasoning = reasoning if isinstance(reasoning, str) else ""
    return [written for written in (reasoning, text, *arguments) if written]


def text_in(value: Any) -> str:
    """The text of a value: itself, its parts joined, or what stands under a known text key.

    Raises:
        ContentError: there is none.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return _parts(value)[0]
    if isinstance(value, dict):
        for key in TEXT_KEYS:
            if isinstance(value.get(key), str | list | dict):
                return text_in(value[key])
        raise ContentError(f"an object with the keys {_listed(value)}")
    raise ContentError(f"{type(value).__name__} instead of text")


def as_text(arguments: Any) -> str:
    """Arguments of a call as text."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def tools_of(row: Message) -> list[Any] | None:
    """The tools that a row offers, as a list or as JSON text; None without any."""
    tools = row.get(TOOLS_COLUMN)
    if isinstance(tools, str):
        try:
            tools = json.loads(tools)
        except (ValueError, RecursionError):
            return None
    return tools if isinstance(tools, list) and tools else None


def _content(turn: Message) -> tuple[str, str, list[Any]]:
    """Text, reasoning and calls of a turn's content."""
    content = turn.get("content")
    if content is None:
        content = turn.get("value")
    if content is None:
        return "", "", []
    return _parts(content) if isinstance(content, list) else (text_in(content), "", [])


def _parts(parts: list[Any]) -> tuple[str, str, list[Any]]:
    """Text, reasoning and calls of a list of content parts; images and other media have none."""
    texts, reasoning, calls = [], [], []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
        elif not isinstance(part, dict):
            raise ContentError(f"a list with {type(part).__name__} in it")
        elif part.get("type") in _REASONING_PARTS:
            reasoning.append(str(part.get(part["type"]) or _part_text(part)))
        elif part.get("type") in _CALL_PARTS:
            calls += _part_calls(part)
        else:
            texts.append(_part_text(part))
    return "".join(texts), "".join(reasoning), calls


def _part_text(part: Message) -> str:
    found = next((part[key] for key in TEXT_KEYS if isinstance(part.get(key), str)), None)
    if found is None and isinstance(part.get("type"), str):
        return ""  # an image, a sound, a file
    if found is None:
        raise ContentError(f"a part with the keys {_listed(part)}")
    return str(found)


def _part_calls(part: Message) -> list[Any]:
    if "input" in part:  # Anthropic
        return [_call(part.get("name"), part["input"])]
    if isinstance(part.get("function"), dict):
        return [part]
    value = next((part[key] for key in ("value", *_CALL_PARTS, "text") if part.get(key)), part)
    return _parsed_call(value) or [_call(None, value)]


def _calls(turn: Message) -> list[Any]:
    calls = turn.get("tool_calls")
    found = list(calls) if isinstance(calls, list) else []
    if isinstance(turn.get("function_call"), dict):
        found.append({"type": "function", "function": turn["function_call"]})
    return found


def _parsed_call(value: Any) -> list[Any]:
    """The calls that a value describes, `[]` when it describes none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return []
    calls = value if isinstance(value, list) else [value]
    if not all(isinstance(call, dict) and isinstance(call.get("name"), str) for call in calls):
        return []
    return [
        _call(call["name"], next((call[k] for k in ("arguments", "parameters") if k in call), {}))
        for call in calls
    ]


def _call(name: Any, arguments: Any) -> Message:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(map(repr, list(keys)[:8])) or "nothing"
