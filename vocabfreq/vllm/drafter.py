"""A drafter that vLLM has loaded → the same with a pruned head.

The target's head is never touched: where the drafter shares it, the drafter's own reference is what
changes. A head that only the drafter had is let go.
"""

import logging
from typing import Any

import torch
from torch import nn

from vocabfreq.errors import RefusedError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import PrunedHead
from vocabfreq.vllm.config import KEY, Asked, kept_ids
from vocabfreq.vllm.heads import Before, DraftLogits, before_of, heads_of, places_of, replace_heads

log = logging.getLogger("vllm.vocabfreq")  # vLLM shows what is logged below its own name


@torch.no_grad()
def prune_drafter(proposer: Any, asked: Asked, target: Any = None) -> None:
    """Prunes the drafter of a proposer in place, and makes it draft by the pruned head.

    Args:
        proposer: what loaded the drafter: has `model`, `vllm_config`, and
            `use_local_argmax_reduction`.
        asked: which ids.
        target: the target's model, which keeps a head that both have.

    Raises:
        RefusedError: a part of the drafter or its configuration that pruning cannot keep right.
        MismatchError: the ids were counted with another tokenizer.
        SelectionError: the wish cannot be met, or the drafter has no row for an id.
        FileFormatError: the vocabulary cannot be read.
    """
    model, config = proposer.model, proposer.vllm_config
    vocab, remarks = kept_ids(asked, config.model_config)
    _check_hooks(proposer)
    _check_logits(model)
    owners, processors = heads_of(model), processors_of(model)
    logits = _replacement(processors, vocab.rows, type(model).__name__)
    places = places_of(model, vocab)
    before = before_of(getattr(*owners[0]), target)
    replace_heads(owners, logits, vocab, places)
    _forget_map(model)
    for owner in processors:
        owner.logits_processor = logits
    compute = model.compute_logits
    model.get_top_tokens = lambda *args, **kwargs: logits.top_tokens(compute, *args, **kwargs)
    proposer.use_local_argmax_reduction = True
    for remark in remarks:
        log.warning("vocabfreq: %s", remark)
    _say(vocab, before, getattr(*owners[0]))


def processors_of(model: nn.Module) -> list[Any]:
    """The modules that have a logits processor.

    Raises:
        RefusedError: none has.
    """
    found = [module for module in model.modules() if hasattr(module, "logits_processor")]
    if not found:
        raise RefusedError(
            f"{type(model).__name__} has no logits_processor", expected="EAGLE, EAGLE-3 or MTP"
        )
    return found


def _check_hooks(proposer: Any) -> None:
    """Greedy drafting goes through `get_top_tokens` where a proposer is told to.

    Raises:
        RefusedError: it cannot be told.
    """
    if not hasattr(proposer, "use_local_argmax_reduction"):
        raise RefusedError(
            f"{type(proposer).__name__} has no use_local_argmax_reduction",
            expected="a vLLM that this vocabfreq knows: 0.32",
            hint=f"take {KEY!r} out of additional_config, or another version of vocabfreq",
        )


def _check_logits(model: nn.Module) -> None:
    """Gemma 4's drafter may choose ids without its logits processor, or change logits after it.

    Raises:
        RefusedError: it does.
    """
    for name in ("masked_embedding", "_suppress_idx"):
        if getattr(model, name, None) is not None:
            raise RefusedError(
                f"{type(model).__name__} with {name}",
                expected="a drafter whose logits are what its logits processor makes of its head",
                hint=f"take {KEY!r} out of additional_config",
            )


def _replacement(processors: list[Any], rows: int, name: str) -> DraftLogits:
    """One for all; they have to agree on what they do to logits."""
    theirs = {
        (one.soft_cap, one.scale, one.vocab_size, one.logits_as_input)
        for one in (owner.logits_processor for owner in processors)
    }
    soft_cap, scale, width, as_input = next(iter(theirs))
    if len(theirs) > 1 or as_input or not scale > 0:
        raise RefusedError(
            f"the logits processor of {name}: {sorted(map(str, theirs))}",
            expected="one that takes hidden states, with a positive scale",
        )
    # EAGLE-3 sets the width of its own head, and widens by d2t, which is forgotten here.
    return DraftLogits(max(rows, width), soft_cap, scale)


def _forget_map(model: Any) -> None:
    """The ids that come out are target ids already."""
    if getattr(model, "draft_id_to_target_id", None) is not None:
        del model.draft_id_to_target_id
        model.draft_id_to_target_id = None


def _say(vocab: DraftVocab, before: Before, head: PrunedHead) -> None:
    covered = vocab.coverage.get("all sources")
    known = f", which cover {covered:.2%} of the tokens" if covered else ""
    now, then = head.weight.nbytes / 1e6, before.bytes / 1e6
    freed = (
        f"the target keeps the head that both had, so memory grows by {now:.1f} MB"
        if before.shared
        else f"{then - now:.1f} MB of memory are freed"
    )
    log.info(
        "vocabfreq: the drafter keeps %s of %s rows%s; each drafted token reads %.1f MB of its "
        "head instead of %.1f; %s; greedy drafting by %s",
        f"{len(vocab):,}",
        f"{before.rows:,}",
        known,
        now,
        then,
        freed,
        "Triton" if head.weight.device.type == "cuda" else "torch",
    )
