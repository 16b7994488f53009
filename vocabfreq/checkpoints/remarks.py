"""What a person should know about a pruned drafter."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from vocabfreq.checkpoints.config import ModelConfig
from vocabfreq.checkpoints.headrows import Head
from vocabfreq.checkpoints.tensors import Ids

NORM = "norm_before_residual"


def folder_remarks(
    config: ModelConfig, head: Head, masked: bool, left_out: list[str]
) -> Iterator[str]:
    """For a folder.

    Args:
        config: of the drafter.
        head: what was pruned.
        masked: whether the drafter has a t2d, which tells offsets from ids.
        left_out: files that were not copied.
    """
    if NORM not in config.raw and NORM not in config.inner:
        yield (
            f"config.json does not say {NORM}, and readers differ on what that means (vLLM takes "
            "true in a speculators folder and false elsewhere, speculators false): write what the "
            "drafter was trained with"
        )
    if head.old is not None and not masked and _unclear(head.old):
        yield (
            "d2t was taken for offsets; it could hold target ids as well, and no t2d tells: see "
            "which they are in what wrote them"
        )
    dtype = config.raw.get("dtype", config.raw.get("torch_dtype"))
    if dtype == "bfloat16" and head.weight.dtype not in ("BF16", "F16"):
        yield f"the head is {head.weight.dtype}, as in the {head.owner}; config.json says {dtype}"
    if left_out:
        yield f"not copied: {', '.join(left_out)}"


def _unclear(old: Ids) -> bool:
    """Whether the numbers of a d2t make sense as offsets and as target ids."""
    offsets = old - np.arange(len(old))
    return len(old) > 1 and bool((np.diff(offsets) > 0).all())


def map_remarks(config: ModelConfig, path: Path) -> Iterator[str]:
    """For a token map."""
    name = ", ".join(config.architectures) or "this drafter"
    yield (
        f"{name} shares the target's head, and its folder has no place for a map: "
        "servers that load folders would refuse it"
    )
    yield f"SGLang takes the map: --speculative-token-map {path}"
    yield "vLLM takes it through the vocabfreq plugin"
