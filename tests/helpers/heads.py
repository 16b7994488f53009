"""Heads of small whole numbers, whose products are exact in every dtype, ties and all."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from vocabfreq import DraftVocab
from vocabfreq.runtime import PrunedHead, prune_lm_head

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
NAN, INF = float("nan"), float("inf")


def numbers(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0, most: int = 2
) -> Tensor:
    """Whole numbers from -most to most."""
    made = torch.Generator().manual_seed(seed)
    return torch.randint(-most, most + 1, shape, generator=made).to(dtype)


def vocab_of(size: int, rows: int, seed: int = 0) -> DraftVocab:
    """Some ids, given unsorted."""
    return DraftVocab.from_ids(np.random.default_rng(seed).permutation(rows)[:size], rows=rows)


def head_of(
    size: int = 40, width: int = 24, rows: int = 100, dtype: torch.dtype = torch.float32
) -> PrunedHead:
    """A pruned head of small whole numbers."""
    return prune_lm_head(numbers(rows, width, dtype=dtype, seed=1), vocab_of(size, rows))


def by_definition(
    logits: Tensor, kept: Iterable[int], allowed: Iterable[Iterable[int]] | None = None
) -> list[int]:
    """The contract as a loop: the lowest kept and allowed id of the largest logit, row by row.

    Args:
        logits: [B, V], of the full head.
        kept: target ids.
        allowed: of each row, the ids that its grammar allows.
    """
    chosen = []
    masks = list(allowed) if allowed is not None else [kept] * len(logits)
    for row, mask in zip(logits.double().tolist(), masks, strict=True):
        best, value = -1, -INF
        for i in sorted(set(kept) & set(mask)):
            here = -INF if row[i] != row[i] else row[i]
            if best < 0 or here > value:
                best, value = i, here
        chosen.append(best)
    return chosen


def bitmask_of(allowed: Iterable[Iterable[int]], rows: int) -> Tensor:
    """int32 [B, ceil(rows / 32)], packed as xgrammar packs it."""
    masks = [list(ids) for ids in allowed]
    words = np.zeros((len(masks), -(-rows // 32)), np.uint32)
    for line, ids in zip(words, masks, strict=True):
        for i in ids:
            line[i // 32] |= np.uint32(1 << (i % 32))
    return torch.from_numpy(words.view(np.int32))
