"""config.json of a drafter or target: sizes, kind, and what pruning changes in it."""

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError
from vocabfreq.formats.read_options import MAX_ROWS, short
from vocabfreq.storage.resolve import looks_like_repo

CONFIG = "config.json"
MAX_BYTES = 16 << 20
NESTED = ("transformer_layer_config", "text_config")  # speculators; models of several modes


@dataclass(frozen=True)
class ModelConfig:
    """A config.json.

    Attributes:
        path: where it is.
        raw: all of it.
    """

    path: Path
    raw: dict[str, Any]

    @property
    def inner(self) -> dict[str, Any]:
        """The part that describes the language model: often all of it."""
        for name in NESTED:
            part = self.raw.get(name)
            if isinstance(part, dict):
                return part
        return self.raw

    def size(self, name: str) -> int | None:
        """A positive whole number, from the top or the inner part; None when it is not given.

        Raises:
            FileFormatError: it is something else.
        """
        value = self.raw.get(name, self.inner.get(name))
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise FileFormatError(f"{self.path}: {name} {short(value)}", expected="a whole number")
        if value is not None and not 1 <= value <= MAX_ROWS:
            raise FileFormatError(
                f"{self.path}: {name} {short(value)}", expected=f"a number from 1 to {MAX_ROWS:,}"
            )
        return value

    @property
    def architectures(self) -> list[str]:
        """The names of model classes, with the kind of speculator where there is one."""
        names = self.raw.get("architectures")
        kind = self.raw.get("speculators_model_type")
        listed = names if isinstance(names, list) else []
        return [str(name) for name in [*listed, *([kind] if kind else [])]]

    @property
    def tied(self) -> bool:
        """Whether the head is said to be the embedding."""
        return any(part.get("tie_word_embeddings") is True for part in (self.raw, self.inner))

    @property
    def untied(self) -> bool:
        """Whether the head is said not to be the embedding."""
        return any(part.get("tie_word_embeddings") is False for part in (self.raw, self.inner))

    @property
    def is_speculators(self) -> bool:
        """Whether it is a folder of the speculators library."""
        return "speculators_model_type" in self.raw

    def pruned(self, rows: int, size: int) -> dict[str, Any]:
        """The config of the pruned drafter; everything that is not about the head is kept.

        Args:
            rows: V.
            size: K.
        """
        new = copy.deepcopy(self.raw)
        inner = ModelConfig(self.path, new).inner
        (inner if "vocab_size" in inner else new)["vocab_size"] = rows
        new["draft_vocab_size"] = size
        nested = [new[name] for name in NESTED if isinstance(new.get(name), dict)]
        for part in nested:
            if "draft_vocab_size" in part:
                part["draft_vocab_size"] = size
        for part in (new, *nested):
            if part is new or "tie_word_embeddings" in part:
                part["tie_word_embeddings"] = False
        return new


def read_config(folder: Path) -> ModelConfig:
    """Reads the config.json of a folder.

    Raises:
        FileFormatError: it is missing, or no JSON object.
    """
    path = folder / CONFIG
    if not path.is_file():
        what = "has no config.json" if folder.is_dir() else "is no folder"
        hint = f"hf download {folder} --local-dir DIR" if looks_like_repo(str(folder)) else ""
        raise FileFormatError(f"{str(folder)!r} {what}", expected="a local model folder", hint=hint)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise FileFormatError(f"{path} is larger than {MAX_BYTES:,} bytes")
        raw = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is not JSON: {error}") from None
    if not isinstance(raw, dict):
        raise FileFormatError(f"{path} holds a {type(raw).__name__}", expected="an object")
    return ModelConfig(path, raw)
