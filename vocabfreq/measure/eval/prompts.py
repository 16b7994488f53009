"""Prompts from a jsonl file: `turns` as mt-bench has them, `messages`, `prompt` or `text`."""

import json
from pathlib import Path
from typing import Any

from vocabfreq.errors import SourceError
from vocabfreq.measure.eval.plan import Prompt

KEYS = ("turns", "messages", "prompt", "text")


def read_prompts(path: Path, limit: int | None = None) -> tuple[Prompt, ...]:
    """The prompts of a file, in its order.

    Of `turns` the first one is asked; of `messages`, what stands before the last answer. Both are
    chats, to which a chat template applies; `prompt` and `text` are taken as they are.

    Args:
        path: a jsonl file, UTF-8.
        limit: how many at most.

    Raises:
        SourceError: it is not there, a line is none of these (named by its number), or there is
            not one.
    """
    prompts: list[Prompt] = []
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if len(prompts) == limit:
                    break
                if line.strip():
                    prompts.append(_prompt(line, f"{path}, line {number}"))
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}", expected="a jsonl file") from None
    if not prompts:
        raise SourceError(f"{path} has no prompts", expected=f"lines with {_or(KEYS)}")
    return tuple(prompts)


def _prompt(line: bytes, where: str) -> Prompt:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where} is no JSON: {error}", expected="an object a line") from None
    key = next((key for key in KEYS if isinstance(row, dict) and key in row), None)
    if key is None:
        raise SourceError(f"{where} is no prompt", expected=f"an object with {_or(KEYS)}")
    if key == "turns":
        return [{"role": "user", "content": _first(row[key], where)}]
    return _asked(row[key], where) if key == "messages" else _text(row[key], key, where)


def _first(turns: Any, where: str) -> str:
    if not isinstance(turns, list) or not turns:
        raise SourceError(f"{where}: 'turns' is {_shown(turns)}", expected="a list of texts")
    return _text(turns[0], "turns", where)


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SourceError(f"{where}: {key!r} holds {_shown(value)}", expected="text")
    return value


def _asked(messages: Any, where: str) -> list[dict[str, Any]]:
    """The messages before the last of the assistant, all where it has said nothing."""
    listed = messages if isinstance(messages, list) else []
    if not listed or not all(_is_message(message) for message in listed):
        raise SourceError(
            f"{where}: 'messages' is {_shown(messages)}",
            expected="a list of objects with the texts 'role' and 'content'",
        )
    answers = [n for n, message in enumerate(listed) if message["role"] == "assistant"]
    asked = listed[: answers[-1]] if answers else listed
    if not asked:
        raise SourceError(
            f"{where}: nothing stands before the answer", expected="a question in 'messages'"
        )
    return [{"role": message["role"], "content": message["content"]} for message in asked]


def _is_message(value: Any) -> bool:
    is_text = isinstance(value, dict) and isinstance(value.get("role"), str)
    return is_text and isinstance(value.get("content"), str)


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _or(names: tuple[str, ...]) -> str:
    return f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}"
