"""What a drafter in vLLM hands to the rejection sampler: noted, falsified, or mended."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def mend() -> None:
    """Gives each draft its request's temperature, where vLLM does not.

    On a CPU 0.32.0 converts `expand_batch_to_tokens`' result to int64, fills that copy and leaves
    the result as it was allocated, so that the logits of drafts are divided by whatever lay there:
    with any drafter, pruned or not, sampled outputs are wrong.
    """
    import torch
    from vllm.v1.sample import rejection_sampler

    def expand(
        x: Any, cu_num_tokens: Any, num_tokens: int, replace_from: int = 0, replace_to: int = 0
    ) -> Any:
        lengths = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).long()
        return x.masked_fill(x == replace_from, replace_to).repeat_interleave(lengths)

    sample = torch.tensor([0.8125, 0.0, 1.75]), torch.tensor([2, 3, 3], dtype=torch.int32), 3, 0, 1
    if not torch.equal(rejection_sampler.expand_batch_to_tokens(*sample), expand(*sample)):
        rejection_sampler.expand_batch_to_tokens = expand


@contextmanager
def traced(drafter: Any, fault: str, kept: list[int]) -> Iterator[dict[str, Any]]:
    """Notes what the drafter hands over, and builds a fault in.

    `peak` drafts greedily but hands over the distributions that it should have drawn from; `flat`
    draws from them but hands over another.
    """
    seen: dict[str, Any] = {"handed": 0, "shape": [], "outside": 0.0, "sums": [9.0, 0.0]}
    seen |= {"peaks": [0, 0.0], "ids_only": 0}
    if drafter is None:
        yield seen
        return
    draw, take = drafter._sample_from_logits, drafter.take_last_draft_probs
    top = drafter.model.get_top_tokens

    def drawn(logits: Any, sampling: Any) -> Any:
        ids, probs = draw(logits, sampling)
        if probs is not None:
            warm = sampling.temperature > 0
            best = probs.max(-1)
            seen["peaks"][0] += int((ids == best.indices)[warm].sum())
            seen["peaks"][1] += float(best.values[warm].double().sum())
            ids = best.indices if fault == "peak" else ids
        return ids, probs

    def taken() -> Any:
        probs = take()
        if probs is not None and kept:
            _note(seen, probs, kept)
        return (probs > 0) / (probs > 0).sum(-1, keepdim=True) if fault == "flat" else probs

    def counted(*args: Any, **kwargs: Any) -> Any:
        seen["ids_only"] += 1
        return top(*args, **kwargs)

    drafter._sample_from_logits, drafter.take_last_draft_probs = drawn, taken
    drafter.model.get_top_tokens = counted
    try:
        yield seen
    finally:
        drafter._sample_from_logits, drafter.take_last_draft_probs = draw, take
        drafter.model.get_top_tokens = top


def _note(seen: dict[str, Any], probs: Any, kept: list[int]) -> None:
    sums = probs[..., kept].sum(-1)
    outside = probs.clone()
    outside[..., kept] = 0
    seen["handed"] += sums.numel()
    seen["shape"] = list(probs.shape)
    seen["outside"] = max(seen["outside"], float(outside.max()))
    low, high = seen["sums"]
    seen["sums"] = [min(low, float(sums.min())), max(high, float(sums.max()))]
