"""What takes the place of a drafter's logits processor.

A drafter's `compute_logits` hands its head and its hidden states (behind whatever norm it has) to
its logits processor. There the pruned head answers: with logits as wide as the target vocabulary
for code that needs them, or, while `top_tokens` runs, with ids alone.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from vocabfreq.errors import RefusedError
from vocabfreq.runtime import GreedySampler, PrunedHead, expand_logits
from vocabfreq.runtime.products import draft_logits


class DraftLogits(nn.Module):
    """The logits of pruned heads.

    Attributes:
        width: columns that the drafter's code expects, V or more.
        soft_cap: of vLLM's processor, applied before the scale, or None.
        scale: of vLLM's processor, positive.
    """

    def __init__(self, width: int, soft_cap: float | None, scale: float) -> None:
        """Keeps what the processor in place did to logits."""
        super().__init__()
        self.width, self.soft_cap, self.scale = width, soft_cap, scale
        self.org_vocab_size = width  # some drafters cut logits to it
        self._samplers: dict[int, GreedySampler] = {}
        self._asked_for_ids = False
        self._ids: Tensor | None = None

    def add(self, head: PrunedHead) -> None:
        """Makes a head known."""
        self._samplers[id(head)] = GreedySampler(head)

    def forward(self, head: PrunedHead, hidden: Tensor, *_: Any, **__: Any) -> Tensor:
        """Logits [B, width], -inf for ids that are not kept."""
        hidden = hidden.to(head.weight.dtype)
        if self._asked_for_ids:
            self._ids = self._samplers[id(head)](hidden)
            # One number that looks like [B, width]: nobody reads it.
            return hidden.new_zeros(()).expand(len(hidden), self.width)
        logits = draft_logits(hidden, head.weight, head.bias, head.scale)
        if self.soft_cap is not None:
            logits = (logits / self.soft_cap).tanh() * self.soft_cap
        logits = (logits * self.scale).to(hidden.dtype)
        return expand_logits(head, logits, out=logits.new_empty((len(hidden), self.width)))

    def top_tokens(self, compute_logits: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """The most likely target ids, int64 [B]; no tensor has V columns of its own.

        Raises:
            RefusedError: the drafter's `compute_logits` made its logits in some other way.
        """
        self._asked_for_ids, self._ids = True, None
        try:
            compute_logits(*args, **kwargs)
        finally:
            self._asked_for_ids = False
        ids = self._ids
        if ids is None:
            raise RefusedError(
                "the drafter's compute_logits did not call its logits processor",
                expected="a drafter whose logits are what its logits processor makes of its head",
                hint="take 'vocabfreq' out of additional_config",
            )
        return ids
