"""The pruned head in memory: build it, draft with it. Needs torch (`vocabfreq[runtime]`).

>>> from vocabfreq.runtime import GreedySampler, prune_lm_head
>>> head = prune_lm_head(model.lm_head, "org/llama3-vocab-freq", size=32_768)
>>> sampler = GreedySampler(head)
>>> sampler(hidden)  # [B, H] → target ids [B]
"""

from vocabfreq.errors import require

require("torch", "runtime")

from vocabfreq.runtime.head import PrunedHead, Shape, prune_lm_head  # noqa: E402
from vocabfreq.runtime.loading import load_pruned_head  # noqa: E402
from vocabfreq.runtime.sampler import GreedySampler, draft_chain  # noqa: E402
from vocabfreq.runtime.sampling import Chosen, distribution, expand_logits, sample, topk  # noqa: E402
from vocabfreq.runtime.tensor_parallel import gather_shard, shard_lm_head  # noqa: E402

__all__ = [
    "Chosen",
    "GreedySampler",
    "PrunedHead",
    "Shape",
    "distribution",
    "draft_chain",
    "expand_logits",
    "gather_shard",
    "load_pruned_head",
    "prune_lm_head",
    "sample",
    "shard_lm_head",
    "topk",
]
