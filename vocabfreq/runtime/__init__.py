"""The pruned head in memory: build it and draft with it. Needs torch (`vocabfreq[runtime]`).

>>> from vocabfreq.runtime import GreedySampler, prune_lm_head
>>> head = prune_lm_head(model.lm_head, "org/llama3-vocab-freq", size=32_768)
>>> sampler = GreedySampler(head)
>>> sampler(hidden)  # [B, H] → target ids [B]

An lm_head in memory (`head`), on disk or on the Hub (`loading`), or in shards over ranks
(`tensor_parallel`) becomes a `PrunedHead`. Hidden states and a head become target ids: the most
likely ones (`sampler`) or drawn ones (`sampling`). `reference` defines the results, `packed_keys`
the tie rule; `dispatch` chooses between Triton (`launch`, `kernels`) and torch (`torch_backend`).
Which ids to keep, reading other tools' files and replacing heads in vLLM belong to other rooms.
"""

from vocabfreq.errors import require

require("torch", "runtime")

from vocabfreq.runtime.greedy import GreedySampler, draft_chain  # noqa: E402
from vocabfreq.runtime.head import PrunedHead, Shape, prune_lm_head  # noqa: E402
from vocabfreq.runtime.loading import load_pruned_head  # noqa: E402
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
