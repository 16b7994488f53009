"""Drafter folders of a few rows, made here, and what a library that is not ours reads in them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import safetensors

V, H = 12, 4
BYTES = {"BF16": 2, "F8_E4M3": 1, "U8": 1, "F32": 4}


class Raw(NamedTuple):
    """A tensor as safetensors holds it: dtype, shape, bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    def row(self, place: int) -> bytes:
        """The bytes of one row."""
        size = len(self.data) // self.shape[0]
        return self.data[place * size : (place + 1) * size]

    def numbers(self) -> npt.NDArray[Any]:
        """Whole numbers or truth values."""
        kind = {"I64": "<i8", "BOOL": "?"}[self.dtype]
        return np.frombuffer(self.data, kind).reshape(self.shape)


def random_bits(dtype: str, *shape: int, seed: int = 0) -> Raw:
    """Random bits of a dtype, NaNs and all."""
    size = int(np.prod(shape)) * BYTES[dtype]
    return Raw(dtype, shape, np.random.default_rng([seed, size]).bytes(size))


def integers(values: Any) -> Raw:
    """int64 numbers."""
    array = np.asarray(values, "<i8")
    return Raw("I64", array.shape, array.tobytes())


def mask(ids: Any, rows: int = V) -> Raw:
    """Bool [rows]."""
    array = np.zeros(rows, bool)
    array[np.asarray(ids)] = True
    return Raw("BOOL", array.shape, array.tobytes())


def save(path: Path, tensors: dict[str, Raw]) -> None:
    """Writes a safetensors file: length, header, bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, tensor in tensors.items():
        offsets = place, place + len(tensor.data)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets}
        place = offsets[1]
    text = json.dumps(header).encode()
    data = b"".join(tensor.data for tensor in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def load(path: Path) -> dict[str, Raw]:
    """Reads a safetensors file by the library itself."""
    found: Any = safetensors.deserialize(path.read_bytes())  # type: ignore[no-untyped-call]
    return {n: Raw(t["dtype"], tuple(t["shape"]), bytes(t["data"])) for n, t in found}


def body(hidden: int = H) -> dict[str, Raw]:
    """What a drafter has beside head and map."""
    return {
        "fc.weight": random_bits("BF16", hidden, 3 * hidden, seed=1),
        "midlayer.mlp.up_proj.weight": random_bits("BF16", 2 * hidden, hidden, seed=2),
        "norm.weight": random_bits("BF16", hidden, seed=3),
    }


def config(**changes: Any) -> dict[str, Any]:
    """The config.json of an EAGLE-3 drafter; None removes a key."""
    known: dict[str, Any] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "dtype": "bfloat16",
        "vocab_size": V,
        "hidden_size": H,
        "tie_word_embeddings": False,
        "norm_before_residual": True,
        "rope_theta": 10000.0,
    } | changes
    return {key: value for key, value in known.items() if value is not None}


def write_folder(
    folder: Path, tensors: dict[str, Raw], settings: dict[str, Any], *, shards: int = 1
) -> Path:
    """A model folder; of several shards, with an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(settings))
    if shards == 1:
        save(folder / "model.safetensors", tensors)
        return folder
    names = list(tensors)
    where: dict[str, str] = {}
    for number in range(shards):
        part = names[number::shards]
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        save(folder / file, {name: tensors[name] for name in part})
        where |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    return folder


def pruned_tensors(ids: list[int], rows: int = V, hidden: int = H) -> dict[str, Raw]:
    """The tensors of a drafter that keeps some ids."""
    return {
        **body(hidden),
        "lm_head.weight": random_bits("BF16", len(ids), hidden, seed=9),
        "d2t": integers(np.array(ids) - np.arange(len(ids))),
        "t2d": mask(ids, rows),
    }
