"""`expand_logits`: draft logits as wide as the target vocabulary, for code that must have them."""

import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import checks
from vocabfreq.runtime.head import PrunedHead


@torch.no_grad()
def expand_logits(head: PrunedHead, logits: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Puts draft logits where their target ids are, -inf everywhere else.

    Args:
        head: the pruned head.
        logits: [B, K].
        out: [B, V] or wider (rows that are padding get -inf too), of the dtype of the logits.

    Returns:
        [B, V], or `out`.

    Raises:
        HeadError: a tensor does not fit.
    """
    checks.logits_of(head, logits)
    if out is None:
        out = logits.new_empty((len(logits), head.rows))
    narrow = out.dim() != 2 or len(out) != len(logits) or out.shape[1] < head.rows
    if narrow or out.dtype != logits.dtype or out.device != logits.device:
        raise HeadError(
            f"out {out.dtype} {list(out.shape)} on {out.device}",
            expected=f"{logits.dtype} [{len(logits)}, {head.rows}] or wider on {logits.device}",
        )
    out.fill_(float("-inf"))
    if head.target_ids is None:
        out[:, : head.rows].copy_(logits)
        return out
    return out.index_copy_(1, head.target_ids, logits)
