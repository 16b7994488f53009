"""Which head a drafter is pruned with: its own, through its own map, or the target's."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vocabfreq.checkpoints.headrows import HEAD, Head, embedding, plain_head
from vocabfreq.checkpoints.kinds import find
from vocabfreq.checkpoints.tensors import Ids, Tensor
from vocabfreq.errors import FileFormatError
from vocabfreq.vocab import DraftVocab


def own_head(tensors: Mapping[str, Tensor], rows: int | None) -> Head | None:
    """The head that a drafter has itself, None when it has none.

    Args:
        tensors: of the drafter.
        rows: V, None where the config does not tell.

    Raises:
        FileFormatError: it cannot be sliced by rows, or its d2t does not fit; names why.
    """
    head = plain_head(tensors, "drafter")
    d2t = find(tensors, "d2t")
    if head is None or d2t is None:
        return head
    offsets = d2t.array()
    kept = DraftVocab.from_d2t(offsets, rows=rows or _guessed_rows(tensors, offsets))
    if head.weight.shape[0] < len(kept):
        raise FileFormatError(
            f"{head.weight} beside {d2t}", expected=f"a head of at least {len(kept):,} rows"
        )
    return replace(head, old=kept.ranked)


def _guessed_rows(tensors: Mapping[str, Tensor], offsets: Ids) -> int:
    mask = find(tensors, "t2d")
    if mask is not None:
        return mask.shape[0]
    return int((offsets + np.arange(len(offsets))).max()) + 1


def target_head(tensors: Mapping[str, Tensor], untied: bool) -> Head:
    """The head of a target: its own, or its embedding.

    Raises:
        FileFormatError: it has neither, or it cannot be sliced by rows.
    """
    head = plain_head(tensors, "target") or (None if untied else embedding(tensors, "target"))
    if head is None:
        raise FileFormatError(
            f"the target has no {HEAD}" + (", and its embedding is not tied to it" * untied),
            expected=f"{HEAD} or a tied embedding",
        )
    return head
