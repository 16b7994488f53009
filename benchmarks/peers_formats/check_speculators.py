"""speculators: its trainer's search for mappings, and its EAGLE-3 drafter's loader.

    python check_speculators.py FOLDER

- `parse_vocab_mappings` of `speculators train`, given our token_freq.pt and K, builds the mapping
  (`build_vocab_mappings_from_distribution`) and caches it: those files must equal our `npy`.
- The same with the counts in the opposite order, since a dict has none.
- The same function given our d2t and t2d reads them; `Eagle3DraftModel.load_vocab_mappings` takes
  them, and its buffers must equal our `npy`.
- Which names of the pair it finds by itself in its data folder.
"""

import sys
import tempfile
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from our_files import OurFiles, reverse_order

TARGET = Path(__file__).resolve().parents[2] / "data" / "smollm2"


def copy(path: Path, to: Path) -> None:
    """Copies a file; makes the folder."""
    to.parent.mkdir(exist_ok=True)
    to.write_bytes(path.read_bytes())


def search(size: int, **given: object) -> Any:
    """d2t, t2d and K that the trainer finds."""
    options: dict[str, object] = {
        "d2t_path": None,
        "t2d_path": None,
        "data_path": None,
        "token_freq_path": None,
        "draft_vocab_size": size,
        "verifier_name_or_path": str(TARGET),
        "trust_remote_code": False,
    }
    return import_module("speculators.train.cli").parse_vocab_mappings(Namespace(**options | given))


def drafter(size: int, rows: int) -> Any:
    """A drafter of EAGLE-3 with narrow layers."""
    speculators = import_module("speculators")
    proposals = import_module("speculators.proposals.greedy")
    layer = import_module("transformers").LlamaConfig(
        vocab_size=rows,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
    )
    proposal = proposals.GreedyTokenProposalConfig(speculative_tokens=3)
    verifier = speculators.VerifierConfig(name_or_path=None, architectures=["LlamaForCausalLM"])
    config = speculators.Eagle3SpeculatorConfig(
        transformer_layer_config=layer,
        draft_vocab_size=size,
        speculators_config=speculators.SpeculatorsConfig(
            algorithm="eagle3",
            proposal_methods=[proposal],
            default_proposal_method=proposal.proposal_type,
            verifier=verifier,
        ),
    )
    return speculators.Eagle3DraftModel(config)


def check_counts(ours: OurFiles, cache: Path) -> None:
    """token-freq → mapping."""
    size = len(ours.d2t)
    function = "build_vocab_mappings_from_distribution"
    search(size, data_path=str(cache), token_freq_path=str(ours.folder / "token_freq.pt"))
    cached = [np.load(cache / f"{name}-{size}.npy") for name in ("d2t", "t2d")]
    ours.compare(function, "token-freq → npy", cached, f"equal; {ours.describe_cut()}")
    build = import_module("speculators.train.vocab_mapping").build_vocab_mappings_from_distribution
    built = build(reverse_order(ours.counts), size, len(ours.t2d))
    ours.compare(function, "the same, order reversed", built, "equal: order does not matter")


def check_mapping(ours: OurFiles) -> None:
    """Npy → drafter."""
    paths = {f"{name}_path": str(ours.npy(ours.folder, name)) for name in ("d2t", "t2d")}
    d2t, t2d, size = search(len(ours.d2t), **paths)
    model = drafter(size, len(ours.t2d))
    model.load_vocab_mappings(t2d, d2t)
    function = "Eagle3DraftModel.load_vocab_mappings"
    ours.compare(function, "npy", (model.d2t, model.t2d), "loaded, buffers equal")


def check_names(ours: OurFiles, data: Path) -> None:
    """Which names the trainer finds in its data folder by itself."""
    size = len(ours.d2t)
    plain, sized = data / "plain", data / "sized"
    for name in ("d2t", "t2d"):
        copy(ours.npy(ours.folder, name), plain / f"{name}.npy")
        copy(ours.npy(ours.folder, name), sized / f"{name}-{size}.npy")
    *pair, _ = search(size, data_path=str(sized))
    ours.compare("parse_vocab_mappings", f"npy as d2t-{size}.npy", pair, "found by itself, equal")
    found = search(size, data_path=str(plain))[0] is not None
    outcome = "found by itself" if found else "not looked for: needs --d2t-path and --t2d-path"
    ours.print_row("parse_vocab_mappings", "npy as d2t.npy", True, outcome)


def main() -> None:
    """Runs all of them."""
    ours = OurFiles.read(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        check_counts(ours, Path(folder))
        check_names(ours, Path(folder))
    check_mapping(ours)


if __name__ == "__main__":
    main()
