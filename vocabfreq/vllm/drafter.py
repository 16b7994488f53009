"""`prune_drafter`: replaces the heads of a drafter that vLLM has loaded by pruned ones.

The target's head is never touched: where the drafter shares it, only the drafter's own reference
changes. A head that only the drafter had is freed.
"""

import logging
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vocabfreq.errors import FileFormatError, RefusedError, SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import PrunedHead
from vocabfreq.vllm.config import KEY, PluginConfig, select_ids
from vocabfreq.vllm.logits_processor import find_processors, pruned_processor

log = logging.getLogger("vllm.vocabfreq")  # vLLM shows what is logged below its own name

UNQUANTIZED = ("UnquantizedEmbeddingMethod", "UnquantizedLinearMethod")
Ids = np.ndarray[Any, np.dtype[np.int64]]


class HeadSlot(NamedTuple):
    """A place in a drafter where a head is an attribute."""

    owner: nn.Module
    name: str

    @property
    def head(self) -> Any:
        """The head that is there now."""
        return getattr(self.owner, self.name)


class OldHead(NamedTuple):
    """A drafter's head before pruning: rows, bytes, whether it is the target's too."""

    rows: int
    bytes: int
    shared: bool


@torch.no_grad()
def prune_drafter(proposer: Any, plugin_config: PluginConfig, target: Any = None) -> None:
    """Prunes the drafter of a proposer in place, and makes it draft by the pruned head.

    Args:
        proposer: loaded the drafter: has `model`, `vllm_config` and `use_local_argmax_reduction`.
        plugin_config: selects the ids.
        target: the target's model, which keeps a head that both have.

    Raises:
        RefusedError: pruning would change results of this drafter or configuration.
        MismatchError: the ids were counted with another tokenizer.
        SelectionError: the selection is impossible, or the drafter has no row for an id.
        FileFormatError: the vocabulary cannot be read.
    """
    model = proposer.model
    vocab, remarks = select_ids(plugin_config, proposer.vllm_config.model_config)
    _check_proposer(proposer)
    _check_model(model)
    slots, owners = find_heads(model), find_processors(model)
    processor = pruned_processor(owners, vocab.rows, type(model).__name__)
    head_rows = rows_in_head(model, vocab)
    old = _describe(slots[0].head, target)
    heads = {id(slot.head): slot.head for slot in slots}
    pruned = {key: _prune(head, vocab, head_rows) for key, head in heads.items()}
    for head in pruned.values():
        processor.add(head)
    for slot in slots:
        head = pruned[id(slot.head)]
        delattr(slot.owner, slot.name)
        setattr(slot.owner, slot.name, head)
    if getattr(model, "draft_id_to_target_id", None) is not None:
        del model.draft_id_to_target_id  # the ids that come out are target ids already
        model.draft_id_to_target_id = None
    for owner in owners:
        owner.logits_processor = processor
    compute_logits = model.compute_logits
    model.get_top_tokens = lambda *args, **kwargs: processor.top_tokens(
        compute_logits, *args, **kwargs
    )
    proposer.use_local_argmax_reduction = True
    for remark in remarks:
        log.warning("vocabfreq: %s", remark)
    _log_result(vocab, old, slots[0].head)


def _check_proposer(proposer: Any) -> None:
    """Checks that the proposer can be switched to `get_top_tokens` for greedy drafting.

    Raises:
        RefusedError: it cannot.
    """
    if not hasattr(proposer, "use_local_argmax_reduction"):
        raise RefusedError(
            f"{type(proposer).__name__} has no use_local_argmax_reduction",
            expected="a vLLM that this vocabfreq knows: 0.32",
            hint=f"take {KEY!r} out of additional_config, or another version of vocabfreq",
        )


def _check_model(model: nn.Module) -> None:
    """Refuses a drafter that chooses ids or changes logits outside of its logits processor.

    Gemma 4's drafter may.

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


def find_heads(model: nn.Module) -> list[HeadSlot]:
    """Where the drafter's heads are, the model's own first.

    Raises:
        RefusedError: it has none.
    """
    slots = [HeadSlot(model, "lm_head")] if hasattr(model, "lm_head") else []
    for module in model.modules():
        shared = getattr(module, "shared_head", None)
        if shared is not None and hasattr(shared, "head"):
            slots.append(HeadSlot(shared, "head"))
    if not slots:
        raise RefusedError(
            f"{type(model).__name__} has no lm_head", expected="EAGLE, EAGLE-3 or MTP"
        )
    return slots


def rows_in_head(model: nn.Module, vocab: DraftVocab) -> Ids:
    """int64 [K], the row of each kept id in the drafter's head, through its d2t if it has one.

    Raises:
        SelectionError: the drafter has no row for some of them.
        FileFormatError: its d2t names an id twice or outside V, or was never loaded.
    """
    d2t: Tensor | None = getattr(model, "draft_id_to_target_id", None)
    if d2t is None:
        return vocab.target_ids
    try:
        ids = DraftVocab.from_d2t(d2t.detach().cpu().numpy(), rows=vocab.rows).ranked
    except FileFormatError as error:
        raise FileFormatError(
            f"the drafter's d2t: {error.wrong}",
            expected=error.expected,
            hint="see what vocabfreq check says of the drafter's folder",
        ) from error
    row_of_id = np.full(vocab.rows, -1)
    row_of_id[ids] = np.arange(len(ids))
    rows: Ids = row_of_id[vocab.target_ids]
    missing = vocab.target_ids[rows < 0]
    if len(missing):
        raise SelectionError(
            f"{len(missing):,} of {len(vocab):,} ids, the first {missing[0]}, have no row in the "
            "drafter's head",
            expected=f"only ids among the {len(ids):,} that its d2t keeps",
            hint="take a drafter with a full head, or ids among its own",
        )
    return rows


def _prune(head: Any, vocab: DraftVocab, head_rows: Ids) -> PrunedHead:
    """The kept rows of one of vLLM's heads.

    Raises:
        RefusedError: it is split over ranks, or quantised.
        SelectionError: it has fewer rows than the ids need.
    """
    if getattr(head, "tp_size", 1) != 1:
        raise RefusedError(
            f"a drafter's head over {head.tp_size} ranks",
            expected="a head on one rank",
            hint="a head that only the drafter has is on one rank with "
            "draft_tensor_parallel_size 1; a split one that it shares with its target cannot be "
            "pruned",
        )
    method = type(getattr(head, "quant_method", None)).__name__
    if method not in UNQUANTIZED:
        raise RefusedError(
            f"a drafter's head with {method}",
            expected="a head that is not quantised",
            hint="take a drafter or a target whose lm_head is not quantised",
        )
    available = _unpadded_rows(head)
    if int(head_rows.max()) >= available:
        worst = int(head_rows.argmax())
        raise SelectionError(
            f"id {vocab.target_ids[worst]:,} is row {head_rows[worst]:,} of the drafter's head",
            expected=f"below {available:,}, the rows that it has",
            hint="take ids that were counted for this target, or another drafter",
        )
    rows = torch.from_numpy(head_rows.copy()).to(head.weight.device)
    bias: Tensor | None = getattr(head, "bias", None)
    return PrunedHead(
        head.weight.detach().index_select(0, rows),
        vocab,
        bias=None if bias is None else bias.detach().index_select(0, rows),
    )


def _unpadded_rows(head: Any) -> int:
    """Rows of a head without vLLM's padding."""
    return min(getattr(head, "org_vocab_size", len(head.weight)), len(head.weight))


def _describe(head: Any, target: Any) -> OldHead:
    """A head is shared where its weight is among the target's, tied embeddings included."""
    parameters = target.parameters() if isinstance(target, nn.Module) else ()
    shared = any(weight is head.weight for weight in parameters)
    return OldHead(_unpadded_rows(head), head.weight.nbytes, shared)


def _log_result(vocab: DraftVocab, old: OldHead, head: PrunedHead) -> None:
    coverage = vocab.coverage.get("all sources")
    covered = f", which cover {coverage:.2%} of the tokens" if coverage else ""
    new_mb, old_mb = head.weight.nbytes / 1e6, old.bytes / 1e6
    memory = (
        f"the target keeps the head that both had, so memory grows by {new_mb:.1f} MB"
        if old.shared
        else f"{old_mb - new_mb:.1f} MB of memory are freed"
    )
    log.info(
        "vocabfreq: the drafter keeps %s of %s rows%s; each drafted token reads %.1f MB of its "
        "head instead of %.1f; %s; greedy drafting by %s",
        f"{len(vocab):,}",
        f"{old.rows:,}",
        covered,
        new_mb,
        old_mb,
        memory,
        "Triton" if head.weight.device.type == "cuda" else "torch",
    )
