"""What a person should know about a pruned drafter."""

from collections.abc import Iterator
from pathlib import Path

from vocabfreq.checkpoints.config import ModelConfig
from vocabfreq.checkpoints.headrows import Head
from vocabfreq.vocab import DraftVocab

NORM = "norm_before_residual"


def folder_remarks(
    config: ModelConfig, head: Head, vocab: DraftVocab, rows: int, left_out: list[str]
) -> Iterator[str]:
    """For a folder.

    Args:
        config: of the drafter.
        head: what was pruned.
        vocab: the ids as they were given.
        rows: V by the config.
        left_out: files that were not copied.
    """
    if NORM not in config.raw and NORM not in config.inner:
        yield (
            f"config.json does not say {NORM}, and readers differ on what that means (vLLM takes "
            "true in a speculators folder and false elsewhere, speculators false): write what the "
            "drafter was trained with"
        )
    if vocab.rows != rows:
        yield f"the vocabulary was counted for {vocab.rows:,} rows; config.json says {rows:,}"
    dtype = config.raw.get("dtype", config.raw.get("torch_dtype"))
    if dtype == "bfloat16" and head.weight.dtype not in ("BF16", "F16"):
        yield f"the head is {head.weight.dtype}, as in the {head.owner}; config.json says {dtype}"
    if left_out:
        yield f"not copied: {', '.join(left_out)}"


def map_remarks(config: ModelConfig, path: Path) -> Iterator[str]:
    """For a token map."""
    name = ", ".join(config.architectures) or "this drafter"
    yield (
        f"{name} shares the target's head, and its folder has no place for a map: "
        "servers that load folders would refuse it"
    )
    yield f"SGLang takes the map: --speculative-token-map {path}"
    yield "vLLM takes it through the vocabfreq plugin"
