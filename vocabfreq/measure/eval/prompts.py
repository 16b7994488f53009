"""Prompts from a jsonl file: `turns` as mt-bench has them, `messages`, `prompt` or `text`."""

import json
from pathlib import Path
from typing import Any

from vocabfreq.errors import SourceError
from vocabfreq.measure.eval.plan import Prompt

KEYS = ("turns", "messages", "prompt", "text")
_KEY_LIST = "'turns', 'messages', 'prompt' or 'text'"


def read_prompts(path: Path, limit: int | None = None) -> tuple[Prompt, ...]:
    """The prompts of a file, in its order.

    Of `turns` the first is the prompt; of `messages`, what comes before the last answer. Both are
    chats, to which a chat template applies; `prompt` and `text` are used as they are.

    Args:
        path: a jsonl file, UTF-8.
        limit: most prompts to read.

    Raises:
        SourceError: there is no such file, it has no prompts, or a line is none (named by number).
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
        raise SourceError(f"{path} has no prompts", expected=f"lines with {_KEY_LIST}")
    return tuple(prompts)


def _prompt(line: bytes, where: str) -> Prompt:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where} is no JSON: {error}", expected="one object per line") from None
    key = next((key for key in KEYS if isinstance(row, dict) and key in row), None)
    if key is None:
        raise SourceError(f"{where} is no prompt", expected=f"an object with {_KEY_LIST}")
    value = row[key]
    if key == "messages":
        return _before_last_answer(value, where)
    if key == "turns":
        if not isinstance(value, list) or not value:
            raise SourceError(f"{where}: 'turns' is {_short(value)}", expected="a list of texts")
        return [{"role": "user", "content": _text(value[0], key, where)}]
    return _text(value, key, where)


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SourceError(f"{where}: {key!r} holds {_short(value)}", expected="text")
    return value


def _before_last_answer(messages: Any, where: str) -> list[dict[str, Any]]:
    """The messages before the last of the assistant; all, where there is none."""
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise SourceError(
            f"{where}: 'messages' is {_short(messages)}",
            expected="a list of objects with the texts 'role' and 'content'",
        )
    answers = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    prompt = messages[: answers[-1]] if answers else messages
    if not prompt:
        raise SourceError(
            f"{where}: no message before the answer", expected="a question in 'messages'"
        )
    return [{"role": message["role"], "content": message["content"]} for message in prompt]


def _is_message(value: Any) -> bool:
    fields = [value.get("role"), value.get("content")] if isinstance(value, dict) else [None]
    return all(isinstance(field, str) for field in fields)


def _short(value: Any) -> str:
    return repr(value)[:60]
