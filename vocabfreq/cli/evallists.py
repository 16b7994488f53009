"""The lists and options that `vocabfreq eval` is given as text."""

import json
from typing import Any

import typer


def numbers_of(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers from 1, with commas between: {option} 1,3"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def sizes_of(text: str) -> tuple[Any, ...]:
    """Whole numbers, `full` or `ids` between commas; each an `evaluation.plan.Size`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p in ("full", "ids") or (p.isascii() and p.isdigit() and int(p)) for p in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers, full or ids, with commas: --sizes 8192,32768,full"
        )
    return tuple(dict.fromkeys(p if p in ("full", "ids") else int(p) for p in parts))


def options_of(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE, the value as JSON where it is some, else as text."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r}; expected --option NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
