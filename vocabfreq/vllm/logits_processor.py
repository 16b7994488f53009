"""The heads of a drafter that vLLM has loaded, and pruned ones in their places.

What takes the place of a drafter's logits processor.

A drafter's `compute_logits` hands its head and its hidden states (behind whatever norm it has) to
its logits processor. There the pruned head answers: with logits as wide as the target vocabulary
for code that needs them, or, while `top_tokens` runs, with ids alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from vocabfreq.errors import FileFormatError, RefusedError, SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import GreedySampler, PrunedHead, expand_logits
from vocabfreq.runtime.torch_path import draft_logits


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
