"""`draft_chain`: the loop of a drafter, small enough to read."""

from collections.abc import Callable

from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime.sampler import GreedySampler


def draft_chain(
    step: Callable[[Tensor, Tensor], Tensor], sampler: GreedySampler, hidden: Tensor, k: int
) -> Tensor:
    """Drafts k tokens for each row, one after the other.

    Args:
        step: the drafter's forward: the ids drafted last, int64 [B], and the hidden states that
            they came from, [B, H] → the next hidden states, [B, H].
        sampler: of the drafter's head.
        hidden: [B, H], of which the first token is drafted.
        k: how many tokens, 1 or more; `step` is called k - 1 times.

    Returns:
        Target ids, int64 [B, k], a transposed view.

    Raises:
        HeadError: k is no number from 1.
    """
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise HeadError(f"k {k!r}", expected="how many tokens to draft, 1 or more")
    drafted = sampler.head.weight.new_empty((k, hidden.shape[0])).long()
    for place in range(k):
        sampler(hidden, out=drafted[place])
        if place + 1 < k:
            hidden = step(drafted[place], hidden)
    return drafted.T
