"""config.json of a drafter or target: sizes, kind of drafter, and the config after pruning."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from vocabfreq.checkpoints.tensors import Tensor, find_tensor
from vocabfreq.errors import FileFormatError, short_repr
from vocabfreq.formats.containers import load_json_object
from vocabfreq.frequencies.metadata import MAX_ROWS
from vocabfreq.storage.resolve import looks_like_repo

CONFIG = "config.json"
MAX_BYTES = 16 << 20
NESTED = ("transformer_layer_config", "text_config")  # speculators; multimodal models
NORM = "norm_before_residual"

DrafterKind = Literal["eagle3", "shared"]
SHARED_HEAD_NAMES = ("eagle", "mtp", "nextn")
MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers")


@dataclass(frozen=True)
class ModelConfig:
    """A config.json.

    Attributes:
        path: of the file.
        raw: its content.
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
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ROWS:
            raise FileFormatError(
                f"{self.path}: {name} {short_repr(value)}",
                expected=f"a whole number from 1 to {MAX_ROWS:,}",
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
        """Whether it states that the head is the embedding."""
        return any(part.get("tie_word_embeddings") is True for part in (self.raw, self.inner))

    @property
    def untied(self) -> bool:
        """Whether it states that the head is not the embedding."""
        return any(part.get("tie_word_embeddings") is False for part in (self.raw, self.inner))

    @property
    def states_norm(self) -> bool:
        """Whether it has `norm_before_residual`, whose default differs between engines."""
        return NORM in self.raw or NORM in self.inner

    def pruned(self, rows: int, size: int) -> dict[str, Any]:
        """The config of the pruned drafter; everything that is not about the head stays.

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
        problem = "has no config.json" if folder.is_dir() else "is no folder"
        raise FileFormatError(
            f"{str(folder)!r} {problem}",
            expected="a local model folder",
            hint=download_hint(str(folder)),
        )
    return ModelConfig(path, load_json_object(path, MAX_BYTES))


def download_hint(folder: str) -> str:
    """The command that downloads a repo, for a path that looks like one and is no folder."""
    return f"hf download {folder} --local-dir DIR" if looks_like_repo(folder) else ""


def drafter_kind_by_config(config: ModelConfig) -> DrafterKind | None:
    """`eagle3` can hold a d2t; `shared` (EAGLE-1, EAGLE-2, MTP) uses the target's head.

    None when the config does not tell, as early EAGLE configs, which name the target's class.
    """
    names = [name.lower() for name in config.architectures]
    if any("eagle3" in name for name in names):
        return "eagle3"
    if any(part in name for name in names for part in SHARED_HEAD_NAMES):
        return "shared"
    if "draft_vocab_size" in config.raw:
        return "eagle3"
    layers = (part.get(name) for part in (config.raw, config.inner) for name in MTP_LAYERS)
    return "shared" if any(isinstance(n, int) and n > 0 for n in layers) else None


def drafter_kind(config: ModelConfig, tensors: Mapping[str, Tensor]) -> DrafterKind:
    """The kind of drafter by its config, or else by its tensors.

    EAGLE-3 has a d2t, or its `fc` fuses three hidden states; that of EAGLE-1 and EAGLE-2 fuses one
    with an embedding.

    Raises:
        FileFormatError: it is no drafter.
    """
    kind = drafter_kind_by_config(config)
    if kind is not None:
        return kind
    if find_tensor(tensors, "d2t"):
        return "eagle3"
    fusion = find_tensor(tensors, "fc.weight")
    if fusion is None or len(fusion.shape) != 2:
        raise FileFormatError(
            f"{str(config.path.parent)!r} ({', '.join(config.architectures) or 'no architecture'}) "
            "is no drafter that is known here",
            expected="EAGLE-3, EAGLE-1, EAGLE-2 or MTP",
        )
    return "shared" if fusion.shape[1] == 2 * fusion.shape[0] else "eagle3"
