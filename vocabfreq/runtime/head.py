"""PrunedHead: the kept rows of a head, in memory of their own, and which target ids they are.

    >>> head = prune_lm_head(model.lm_head, "org/llama3-vocab-freq", size=32_768)
    >>> head
    PrunedHead(K=32,768 of V=128,256, H=4,096, torch.bfloat16)

Row `i` is the draft id `i`; `target_ids[i]` is the target id, ascending. Nothing here ever writes
into the head that the rows came from.

`prune_lm_head`: the kept rows of a head that is in memory.

>>> head = prune_lm_head(model.lm_head, "vocab_freq.safetensors", size=32_768)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vocabfreq.errors import HeadError
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import checks
from vocabfreq.runtime.checks import Rows
from vocabfreq.runtime.reference import head_logits, shaped
from vocabfreq.runtime.torch_path import draft_logits


@dataclass(frozen=True)
class Shape:
    """What a model does to its logits.

    Attributes:
        logit_scale: multiplies them; above 0, so that it does not change the argmax.
        soft_cap: they become `cap * tanh(logit / cap)`; 0 for none.
    """

    logit_scale: float = 1.0
    soft_cap: float = 0.0

    def __post_init__(self) -> None:
        """Refuses what would turn the order of logits around.

        Raises:
            HeadError: a scale that is not positive, or a negative cap.
        """
        if not (0 < self.logit_scale < math.inf):
            raise HeadError(
                f"logit_scale {self.logit_scale!r}",
                expected="a positive number: any other would change which logit is the largest",
            )
        if not (0 <= self.soft_cap < math.inf):
            raise HeadError(f"soft_cap {self.soft_cap!r}", expected="a positive number, 0 for none")


class PrunedHead(nn.Module):
    """The kept rows of an lm_head.

    Attributes:
        weight: [K, H], contiguous, a storage of its own; floats, or int8 or float8 with `scale`.
        bias: [K] or None.
        scale: [K], multiplies the product row by row before the bias, or None.
        target_ids: int64 [K], ascending; None where every id is kept, draft ids being target ids.
        rows: V.
        shape: what the model does to its logits.
        vocab: the kept ids; of a shard, those of the whole head.
        first: draft id of the first row, 0 unless this is a shard.
    """

    weight: Tensor
    bias: Tensor | None
    scale: Tensor | None
    target_ids: Tensor | None

    def __init__(
        self,
        weight: Tensor,
        vocab: DraftVocab,
        *,
        bias: Tensor | None = None,
        scale: Tensor | None = None,
        shape: Shape | None = None,
        part: tuple[int, int] | None = None,
    ) -> None:
        """Takes over rows that are already picked, in the order of draft ids, without a copy.

        Args:
            weight: [K, H], or the rows of one shard.
            vocab: the kept ids.
            bias: [K].
            scale: [K].
            shape: logit scale and soft cap.
            part: of a shard, the draft id of its first row and how many it has.

        Raises:
            HeadError: shapes, dtypes or devices that do not fit together.
        """
        super().__init__()
        self.first, count = part or (0, len(vocab))
        checks.rows_of_head(weight, bias, scale, count)
        self.vocab, self.rows, self.shape = vocab, vocab.rows, shape or Shape()
        self.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
        self.register_buffer("bias", None if bias is None else bias.contiguous())
        self.register_buffer("scale", None if scale is None else scale.contiguous())
        self.register_buffer("target_ids", self._map(count))

    def _map(self, count: int) -> Tensor | None:
        if self.vocab.is_identity and count == len(self.vocab):
            return None
        part = self.vocab.target_ids[self.first : self.first + count]
        return torch.from_numpy(part.copy()).to(self.weight.device)

    def forward(self, hidden: Tensor) -> Tensor:
        """Draft logits as the model means them, scaled and capped; hidden may want a gradient.

        Args:
            hidden: [B, H], dtype and device of the head.

        Returns:
            float32 [B, K].

        Raises:
            HeadError: hidden does not fit.
        """
        checks.hidden_of(self, hidden)
        if torch.is_grad_enabled() and hidden.requires_grad:
            logits = head_logits(hidden, self.weight, self.bias, self.scale)
        else:
            logits = draft_logits(hidden, self.weight, self.bias, self.scale)
        return shaped(logits, self.shape.logit_scale, self.shape.soft_cap)

    @torch.no_grad()
    def refresh(self, lm_head: "Tensor | nn.Module", scale: Tensor | None = None) -> None:
        """Copies the rows of new weights in place; addresses stay, so CUDA graphs stay valid.

        Args:
            lm_head: the new head, a module with a weight or the weight itself, [rows, H].
            scale: [rows], where this head has scales.

        Raises:
            HeadError: the new head does not fit; nothing has been changed.
        """
        part = self.first, len(self.weight)
        picked = rows_of(lm_head, self.vocab, scale=scale, part=part)
        checks.same_kind(self, picked)
        for name, new in picked._asdict().items():
            if new is not None:
                getattr(self, name).copy_(new)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PrunedHead":
        """Moves and converts; scales keep their dtype, in 16 bits small ones would vanish."""
        scale = self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.scale = None if scale is None else scale.to(self.weight.device)
        return self

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        """Refuses rows of other ids: `vocab` would not know of them.

        Raises:
            HeadError: the map in the state is not that of this head.
        """
        theirs = state.get(f"{prefix}target_ids")
        mine = self.target_ids
        if theirs is not None and (mine is None or not torch.equal(theirs.cpu(), mine.cpu())):
            raise HeadError(
                f"a state of {len(theirs):,} rows of other ids",
                expected="the ids that this head was pruned to",
                hint="prune a head to the same vocabulary before loading",
            )
        super()._load_from_state_dict(state, prefix, *others)

    def extra_repr(self) -> str:
        """K, V, H and dtype."""
        count, hidden = self.weight.shape
        return f"K={count:,} of V={self.rows:,}, H={hidden:,}, {self.weight.dtype}"


@torch.inference_mode(False)  # else new weights could not be copied in outside of that mode
@torch.no_grad()
def prune_lm_head(
    lm_head: Tensor | nn.Module,
    vocab: VocabLike,
    *,
    scale: Tensor | None = None,
    shape: Shape | None = None,
    **wish: Any,
) -> PrunedHead:
    """Copies the kept rows of a head; the head itself is not changed, tied or not.

    Args:
        lm_head: `nn.Linear` or any module with a `weight` [rows, H] and maybe a `bias` [rows], or
            the weight itself; any strides. Rows beyond V (padding) are accepted.
        vocab: the ids to keep, a frequency table, or a path or Hub id (`owner/name[@revision]`) of
            either.
        scale: [rows] or [rows, 1], of a head that is quantised by rows.
        shape: logit scale and soft cap of the model.
        **wish: how a table selects: `size`, `coverage`, `pins` …, as in `FrequencyTable.select`.

    Returns:
        The pruned head, on the device and of the dtype of the head.

    Raises:
        HeadError: the head cannot be taken apart by rows, or lacks rows that are kept.
        SelectionError: the wish cannot be met.
        FileFormatError: the file does not hold what its format promises.
    """
    weight = _parts(lm_head)[0]
    chosen = load_vocab(vocab, wish, weight.shape[0])
    rows = rows_of(lm_head, chosen, scale=scale)
    return PrunedHead(rows.weight, chosen, bias=rows.bias, scale=rows.scale, shape=shape)


def rows_of(
    lm_head: Tensor | nn.Module,
    vocab: DraftVocab,
    *,
    scale: Tensor | None = None,
    part: tuple[int, int] | None = None,
) -> Rows:
    """Copies of the kept rows of weight, bias and scale.

    Args:
        lm_head: as in `prune_lm_head`.
        vocab: the kept ids.
        scale: [rows] or [rows, 1].
        part: first draft id and number of rows, of a shard; None for all.

    Raises:
        HeadError: it cannot be taken apart by rows, or lacks rows that are kept.
    """
    weight, bias = _parts(lm_head)
    checks.weight_dtype(weight, scale)
    _check_reach(weight, vocab)
    first, count = part or (0, len(vocab))
    ids = torch.from_numpy(vocab.target_ids[first : first + count].copy()).to(weight.device)
    picked = [None if one is None else _pick(one, ids, weight) for one in (bias, _flat(scale))]
    return Rows(weight.index_select(0, ids), *picked)


def _parts(lm_head: Tensor | nn.Module) -> tuple[Tensor, Tensor | None]:
    weight = lm_head if isinstance(lm_head, Tensor) else getattr(lm_head, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        told = f"a weight of {list(weight.shape)}" if isinstance(weight, Tensor) else "no weight"
        raise HeadError(
            f"{type(lm_head).__name__} with {told}",
            expected="nn.Linear, a module with a weight [rows, H], or that weight",
        )
    bias = None if isinstance(lm_head, Tensor) else getattr(lm_head, "bias", None)
    return weight.detach(), bias.detach() if isinstance(bias, Tensor) else None


def _check_reach(weight: Tensor, vocab: DraftVocab) -> None:
    beyond = int((vocab.target_ids >= len(weight)).sum())
    if beyond:
        raise HeadError(
            f"{beyond:,} of {len(vocab):,} ids, up to {vocab.target_ids[-1]}, have no row in a "
            f"head of {list(weight.shape)}",
            expected="ids that it has rows for",
            hint="take ids that were counted for this model",
        )


def _flat(scale: Tensor | None) -> Tensor | None:
    """One scale for each row; a scale by blocks keeps its shape, and is refused for it."""
    one_column = scale is not None and scale.dim() == 2 and scale.shape[1] == 1
    return scale[:, 0] if scale is not None and one_column else scale


def _pick(values: Tensor, ids: Tensor, weight: Tensor) -> Tensor:
    if values.shape != weight.shape[:1]:
        raise HeadError(
            f"a bias or scale of {list(values.shape)} beside a weight of {list(weight.shape)}",
            expected=f"[{len(weight)}], one for each row",
            hint="a head that is quantised in blocks cannot be pruned by rows",
        )
    return values.detach().to(weight.device).index_select(0, ids)
