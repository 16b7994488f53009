"""`PrunedLogitsProcessor`: takes the place of a drafter's logits processor in vLLM.

A drafter's `compute_logits` hands its head and its hidden states (behind whatever norm it has) to
its logits processor. There the pruned head answers: with logits over V for code that needs them,
or, inside `top_tokens`, with ids alone.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from vocabfreq.errors import RefusedError
from vocabfreq.runtime import GreedySampler, PrunedHead, expand_logits
from vocabfreq.runtime.torch_backend import draft_logits


class PrunedLogitsProcessor(nn.Module):
    """The logits of pruned heads.

    Attributes:
        width: columns that the drafter's code expects, V or more.
        soft_cap: of vLLM's processor, applied before the scale, or None.
        scale: of vLLM's processor, positive.
    """

    def __init__(self, width: int, soft_cap: float | None, scale: float) -> None:
        """Takes over what vLLM's processor does to logits."""
        super().__init__()
        self.width, self.soft_cap, self.scale = width, soft_cap, scale
        self.org_vocab_size = width  # some drafters cut logits to it
        self._samplers: dict[int, GreedySampler] = {}
        self._ids_only = False
        self._ids: Tensor | None = None

    def add(self, head: PrunedHead) -> None:
        """Prepares a sampler for a head."""
        self._samplers[id(head)] = GreedySampler(head)

    def forward(self, head: PrunedHead, hidden: Tensor, *_: Any, **__: Any) -> Tensor:
        """Logits [B, width], -inf for ids that are not kept."""
        hidden = hidden.to(head.weight.dtype)
        if self._ids_only:
            self._ids = self._samplers[id(head)](hidden)
            # `top_tokens` drops the logits: one number, expanded, has the shape and no memory.
            return hidden.new_zeros(()).expand(len(hidden), self.width)
        logits = draft_logits(hidden, head.weight, head.bias, head.scale)
        if self.soft_cap is not None:
            logits = (logits / self.soft_cap).tanh() * self.soft_cap
        logits = (logits * self.scale).to(hidden.dtype)
        return expand_logits(head, logits, out=logits.new_empty((len(hidden), self.width)))

    def top_tokens(self, compute_logits: Callable[..., Any], *args: Any, **kwargs: Any) -> Tensor:
        """The most likely target ids, int64 [B]; no tensor has V columns of its own.

        Raises:
            RefusedError: the drafter's `compute_logits` did not call this processor.
        """
        self._ids_only, self._ids = True, None
        try:
            compute_logits(*args, **kwargs)
        finally:
            self._ids_only = False
        ids = self._ids
        if ids is None:
            raise RefusedError(
                "the drafter's compute_logits did not call its logits processor",
                expected="a drafter whose logits are what its logits processor makes of its head",
                hint="take 'vocabfreq' out of additional_config",
            )
        return ids


def find_processors(model: nn.Module) -> list[Any]:
    """The drafter's modules that have a logits processor.

    Raises:
        RefusedError: none has.
    """
    owners = [module for module in model.modules() if hasattr(module, "logits_processor")]
    if not owners:
        raise RefusedError(
            f"{type(model).__name__} has no logits_processor", expected="EAGLE, EAGLE-3 or MTP"
        )
    return owners


def pruned_processor(owners: list[Any], rows: int, name: str) -> PrunedLogitsProcessor:
    """One processor in place of those of all owners, which must treat logits alike.

    Args:
        owners: modules with a logits processor.
        rows: V.
        name: of the drafter, for errors.

    Raises:
        RefusedError: they differ, take logits as input, or have a scale that is not positive.
    """
    found = {
        (one.soft_cap, one.scale, one.vocab_size, one.logits_as_input)
        for one in (owner.logits_processor for owner in owners)
    }
    soft_cap, scale, width, as_input = next(iter(found))
    if len(found) > 1 or as_input or not scale > 0:
        raise RefusedError(
            f"the logits processor of {name}: {sorted(map(str, found))}",
            expected="one that takes hidden states, with a positive scale",
        )
    # EAGLE-3 sets the width to that of its own head and widens by d2t, which pruning removes.
    return PrunedLogitsProcessor(max(rows, width), soft_cap, scale)
