"""What kind of drafter a folder holds, by its config, or else by its tensors."""

from collections.abc import Mapping
from typing import Literal

from vocabfreq.checkpoints.config import ModelConfig
from vocabfreq.checkpoints.tensors import Tensor
from vocabfreq.errors import FileFormatError

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
