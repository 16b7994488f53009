"""config.json of a drafter or target: sizes, kind, and what pruning changes in it.

What kind of drafter a folder holds, by its config, or else by its tensors.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vocabfreq.checkpoints.tensors import Tensor
from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.frequencies.metadata import MAX_ROWS
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
            raise FileFormatError(
                f"{self.path}: {name} {short_repr(value)}", expected="a whole number"
            )
        if value is not None and not 1 <= value <= MAX_ROWS:
            raise FileFormatError(
                f"{self.path}: {name} {short_repr(value)}",
                expected=f"a number from 1 to {MAX_ROWS:,}",
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


Kind = Literal["eagle3", "shared"]
SHARED = ("eagle", "mtp", "nextn")
MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")


def kind_by_config(config: ModelConfig) -> Kind | None:
    """`eagle3` has a place for a map; `shared` (EAGLE-1, EAGLE-2, MTP) uses the target's head.

    None when the config does not tell.
    """
    names = [name.lower() for name in config.architectures]
    if any("eagle3" in name for name in names):
        return "eagle3"
    if any(part in name for name in names for part in SHARED):
        return "shared"
    if "draft_vocab_size" in config.raw:
        return "eagle3"
    layers = (part.get(name) for part in (config.raw, config.inner) for name in MTP_LAYERS)
    return "shared" if any(isinstance(n, int) and n > 0 for n in layers) else None


def kind_by_tensors(config: ModelConfig, tensors: Mapping[str, Tensor]) -> Kind:
    """For early EAGLE configs, which name the class of the target.

    EAGLE-3 has a map, or fuses three hidden states; EAGLE-1 and EAGLE-2 fuse one with an embedding.

    Raises:
        FileFormatError: it is no drafter.
    """
    if find(tensors, "d2t"):
        return "eagle3"
    fusion = find(tensors, "fc.weight")
    if fusion is None or len(fusion.shape) != 2:
        raise FileFormatError(
            f"{str(config.path.parent)!r} ({', '.join(config.architectures) or 'no architecture'}) "
            "is no drafter that is known here",
            expected="EAGLE-3, EAGLE-1, EAGLE-2 or MTP",
        )
    return "shared" if fusion.shape[1] == 2 * fusion.shape[0] else "eagle3"


def find(tensors: Mapping[str, Tensor], name: str) -> Tensor | None:
    """A tensor by its name, or by its name behind a prefix that ends at a dot.

    Raises:
        FileFormatError: several have a prefix, and none or several are the language model's.
    """
    for usual in (name, f"model.{name}"):
        if usual in tensors:
            return tensors[usual]
    found = [known for known in tensors if known.endswith(f".{name}")]
    if len(found) > 1:
        found = [known for known in found if "language_model" in known] or found
    if len(found) > 1:
        raise FileFormatError(
            f"{len(found)} tensors end in {name!r}: {', '.join(sorted(found)[:4])}",
            expected="one",
        )
    return tensors[found[0]] if found else None
