"""Small checkpoints for a real vLLM: an EAGLE-1 drafter, a target with an MTP layer, a llama.

The layers of the first two are random and faint, so that what they say can be told beforehand: the
drafter says its last token again, the target says the id after its last one, and so does its MTP
layer.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

V = 49_152
FAINT = 0.02
STRONGER = 4


def write_eagle1(folder: Path, target: Path) -> Path:
    """A drafter for a llama target, without embedding and head of its own."""
    config = json.loads((target / "config.json").read_text())
    hidden = config["hidden_size"]
    tensors = _layer("layers.0.", config, hidden)
    del tensors["layers.0.input_layernorm.weight"]  # the first layer of EAGLE-1 has none
    # fc takes [embedding of the last token, the target's hidden state].
    tensors["fc.weight"] = torch.cat([torch.eye(hidden), torch.zeros(hidden, hidden)], dim=1)
    config |= {"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1}
    return _write(folder, config, tensors)


def write_mtp(folder: Path, tokenizer: Path) -> Path:
    """A MiMo target of one layer with one MTP layer, V rows and a head of its own."""
    hidden = 128
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",  # what MiMo's own configuration builds on
        "num_nextn_predict_layers": 1,
        "hidden_size": hidden,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 64,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "vocab_size": V,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "float32",
    }
    mtp = "model.mtp_layers.0."
    words = torch.randn(V, hidden, generator=torch.Generator().manual_seed(0))
    tensors = _layer("model.layers.0.", config, hidden) | _layer(mtp, config, hidden)
    tensors |= {
        "model.embed_tokens.weight": words,
        "lm_head.weight": words.roll(1, 0).contiguous(),  # row i is the word before i
        "model.norm.weight": torch.ones(hidden),
        # [the target's hidden state, embedding of the last token]
        f"{mtp}input_proj.weight": torch.eye(hidden * 2)[hidden:].contiguous(),
        **{f"{mtp}{name}_layernorm.weight": torch.ones(hidden) for name in NORMS},
    }
    (folder).mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).symlink_to(tokenizer / name)
    return _write(folder, config, tensors)


def write_llama(folder: Path, rows: int, hidden: int = 64) -> Path:
    """A llama of one layer that matters, whose distributions are neither flat nor sharp."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "hidden_act": "silu",
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": False,
        "vocab_size": rows,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "dtype": "float32",
    }
    noise = torch.Generator().manual_seed(7)
    layer = _layer("model.layers.0.", config, hidden)
    strong = {n: t if "norm" in n else t * STRONGER for n, t in layer.items()}
    words = {
        "model.embed_tokens.weight": torch.randn(rows, hidden, generator=noise),
        "lm_head.weight": torch.randn(rows, hidden, generator=noise) * 1.5 / hidden**0.5,
        "model.norm.weight": torch.ones(hidden),
    }
    return _write(folder, config, strong | words)


NORMS = ("token", "hidden", "final")


def _layer(prefix: str, config: Mapping[str, Any], hidden: int) -> dict[str, Tensor]:
    """A llama layer; with the biases of qwen2 where the config is one of it."""
    dim, wide = config["head_dim"], config["intermediate_size"]
    rows = {"q": config["num_attention_heads"] * dim, "k": config["num_key_value_heads"] * dim}
    rows["v"] = rows["k"]
    shapes: dict[str, tuple[int, ...]] = {
        f"self_attn.{name}_proj.weight": (rows[name], hidden) for name in rows
    }
    if config["model_type"] == "qwen2":
        shapes |= {f"self_attn.{name}_proj.bias": (rows[name],) for name in rows}
    shapes |= {
        "self_attn.o_proj.weight": (hidden, rows["q"]),
        "mlp.gate_proj.weight": (wide, hidden),
        "mlp.up_proj.weight": (wide, hidden),
        "mlp.down_proj.weight": (hidden, wide),
    }
    noise = torch.Generator().manual_seed(len(prefix))
    made = {n: torch.randn(*shape, generator=noise) * FAINT for n, shape in shapes.items()}
    made |= {f"{n}_layernorm.weight": torch.ones(hidden) for n in ("input", "post_attention")}
    return {prefix + name: tensor for name, tensor in made.items()}


def _write(folder: Path, config: Mapping[str, Any], tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    return folder
