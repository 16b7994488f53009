"""The heads of a drafter that vLLM has loaded, and pruned ones in their places."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vocabfreq.errors import FileFormatError, RefusedError, SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import PrunedHead
from vocabfreq.vllm.logits import DraftLogits

PLAIN = ("UnquantizedEmbeddingMethod", "UnquantizedLinearMethod")


class Before(NamedTuple):
    """A drafter's head as it was: its rows, its bytes, whether it is the target's too."""

    rows: int
    bytes: int
    shared: bool


def heads_of(model: nn.Module) -> list[tuple[nn.Module, str]]:
    """Where the drafter's heads hang: owner and attribute, the model's own first.

    Raises:
        RefusedError: it has none.
    """
    found = [(model, "lm_head")] if hasattr(model, "lm_head") else []
    for module in model.modules():
        shared = getattr(module, "shared_head", None)
        if shared is not None and hasattr(shared, "head"):
            found.append((shared, "head"))
    if not found:
        raise RefusedError(
            f"{type(model).__name__} has no lm_head", expected="EAGLE, EAGLE-3 or MTP"
        )
    return found


def places_of(model: nn.Module, vocab: DraftVocab) -> np.ndarray[Any, np.dtype[np.int64]]:
    """int64 [K], the row of each kept id in the drafter's head, through its d2t if it has one.

    Raises:
        SelectionError: the drafter has no row for some of them.
        FileFormatError: its d2t names an id twice or outside V, or was never loaded.
    """
    offsets = getattr(model, "draft_id_to_target_id", None)
    if offsets is None:
        return vocab.target_ids
    ids = _ids_of(offsets, vocab.rows)
    row_of = np.full(vocab.rows, -1)
    row_of[ids] = np.arange(len(ids))
    places: np.ndarray[Any, np.dtype[np.int64]] = row_of[vocab.target_ids]
    missing = vocab.target_ids[places < 0]
    if len(missing):
        raise SelectionError(
            f"{len(missing):,} of {len(vocab):,} ids, the first {missing[0]}, have no row in the "
            "drafter's head",
            expected=f"only ids among the {len(ids):,} that its d2t keeps",
            hint="take a drafter with a full head, or ids among its own",
        )
    return places


def _ids_of(offsets: Tensor, rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The id of each row; a stranger's map is held against V."""
    try:
        return DraftVocab.from_d2t(offsets.detach().cpu().numpy(), rows=rows).ranked
    except FileFormatError as error:
        raise FileFormatError(
            f"the drafter's d2t: {error.wrong}",
            expected=error.expected,
            hint="see what vocabfreq check says of the drafter's folder",
        ) from error


def replace_heads(
    owners: list[tuple[nn.Module, str]],
    logits: DraftLogits,
    vocab: DraftVocab,
    places: np.ndarray[Any, np.dtype[np.int64]],
) -> None:
    """Hangs pruned heads where heads were, one for each that is different."""
    made: dict[int, PrunedHead] = {}
    old = {id(getattr(owner, name)): getattr(owner, name) for owner, name in owners}
    for key, head in old.items():
        made[key] = _pruned(head, vocab, places)
        logits.add(made[key])
    for owner, name in owners:
        replaced = made[id(getattr(owner, name))]
        delattr(owner, name)
        setattr(owner, name, replaced)


def _pruned(
    head: Any, vocab: DraftVocab, places: np.ndarray[Any, np.dtype[np.int64]]
) -> PrunedHead:
    """The kept rows of one head of vLLM's.

    Raises:
        RefusedError: it is split over ranks, or quantised.
    """
    if getattr(head, "tp_size", 1) != 1:
        raise RefusedError(
            f"a drafter's head over {head.tp_size} ranks",
            expected="a head on one rank",
            hint="one that only the drafter has is on one with draft_tensor_parallel_size 1; a "
            "split one that it shares with its target cannot be pruned",
        )
    method = type(getattr(head, "quant_method", None)).__name__
    if method not in PLAIN:
        raise RefusedError(
            f"a drafter's head with {method}",
            expected="a head that is not quantised",
            hint="take a drafter or a target whose lm_head is not quantised",
        )
    if int(places.max()) >= _rows(head):
        worst = int(places.argmax())
        raise SelectionError(
            f"id {vocab.target_ids[worst]:,} is row {places[worst]:,} of the drafter's head",
            expected=f"below {_rows(head):,}, the rows that it has",
            hint="take ids that were counted for this target, or another drafter",
        )
    rows = torch.from_numpy(places.copy()).to(head.weight.device)
    bias: Tensor | None = getattr(head, "bias", None)
    return PrunedHead(
        head.weight.detach().index_select(0, rows),
        vocab,
        bias=None if bias is None else bias.detach().index_select(0, rows),
    )


def _rows(head: Any) -> int:
    """Rows of a head without vLLM's padding."""
    return min(getattr(head, "org_vocab_size", len(head.weight)), len(head.weight))


def before_of(head: Any, target: Any) -> Before:
    """A target has it where its weight is among the target's, tied embeddings included."""
    theirs = target.parameters() if isinstance(target, nn.Module) else ()
    shared = any(weight is head.weight for weight in theirs)
    return Before(_rows(head), head.weight.nbytes, shared)
