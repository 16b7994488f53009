"""SpecForge: its mapping from counts, and its EAGLE-3 drafter's loader.

    python check_specforge.py FOLDER

- `process_token_dict_to_mappings` on a Counter of our token_freq.pt, in the order of that file,
  must equal our `mapping`.
- The same in the opposite order. SpecForge takes equal counts in the order in which they came, so
  that a difference is printed and is no failure.
- `LlamaForCausalLMEagle3.load_vocab_mapping` reads our vocab_mapping.pt; its buffers must be ours.
"""

import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from our_files import Counts, OurFiles, reverse_order

FUNCTION = "process_token_dict_to_mappings"


def mapping(counts: Counts, ours: OurFiles) -> Any:
    """d2t and t2d that SpecForge makes of counts."""
    function = getattr(import_module("specforge.data.preprocessing"), FUNCTION)
    return function(Counter(counts), len(ours.d2t), len(ours.t2d))


def drafter(size: int, rows: int) -> Any:
    """A drafter of EAGLE-3 with narrow layers."""
    config = import_module("transformers").LlamaConfig(
        vocab_size=rows,
        draft_vocab_size=size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        pad_token_id=0,
    )
    return import_module("specforge.modeling.draft.llama3_eagle").LlamaForCausalLMEagle3(config)


def main() -> None:
    """Runs all three."""
    ours = OurFiles.read(Path(sys.argv[1]))
    outcome = f"equal; {ours.describe_cut()}"
    ours.compare(FUNCTION, "token-freq → mapping", mapping(ours.counts, ours), outcome)
    other = tuple(tensor.numpy() for tensor in mapping(reverse_order(ours.counts), ours))
    same = np.array_equal(other[1], ours.t2d)
    outcome = "equal" if same else f"as expected, not equal: {ours.describe_difference(other)}"
    ours.print_row(FUNCTION, "the same, order reversed", True, outcome)
    model = drafter(len(ours.d2t), len(ours.t2d))
    model.load_vocab_mapping(str(ours.folder / "vocab_mapping.pt"))
    function = "LlamaForCausalLMEagle3.load_vocab_mapping"
    ours.compare(function, "mapping", (model.d2t, model.t2d), "loaded, buffers equal")


if __name__ == "__main__":
    main()
