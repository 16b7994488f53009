"""`PrunedHead`: the kept rows of an lm_head, in memory of their own, with their target ids.

    >>> head = prune_lm_head(model.lm_head, "org/llama3-vocab-freq", size=32_768)
    >>> head
    PrunedHead(K=32,768 of V=128,256, H=4,096, torch.bfloat16)

Row `i` is the draft id `i`; `target_ids[i]` is its target id, ascending. The head that the rows
came from is never written to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vocabfreq.errors import HeadError
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime.checks import check_head, check_hidden, check_weight_dtype
from vocabfreq.runtime.dispatch import HeadTensors
from vocabfreq.runtime.reference import head_logits, scale_and_cap
from vocabfreq.runtime.torch_backend import draft_logits


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
        """Refuses what would change the order of logits.

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
        shard: tuple[int, int] | None = None,
    ) -> None:
        """Takes over rows in the order of draft ids, without a copy.

        Args:
            weight: [K, H], or the rows of one shard.
            vocab: the kept ids.
            bias: [K].
            scale: [K].
            shape: logit scale and soft cap.
            shard: draft id of the first row and number of rows; None for the whole head.

        Raises:
            HeadError: shapes, dtypes or devices that do not fit together.
        """
        super().__init__()
        self.first, count = shard or (0, len(vocab))
        check_head(weight, bias, scale, count)
        self.vocab, self.rows, self.shape = vocab, vocab.rows, shape or Shape()
        self.weight = nn.Parameter(weight.contiguous(), requires_grad=False)
        self.register_buffer("bias", None if bias is None else bias.contiguous())
        self.register_buffer("scale", None if scale is None else scale.contiguous())
        target_ids = None
        if not vocab.is_identity or count != len(vocab):
            ids = vocab.target_ids[self.first : self.first + count]
            target_ids = torch.from_numpy(ids.copy()).to(weight.device)
        self.register_buffer("target_ids", target_ids)

    @property
    def tensors(self) -> HeadTensors:
        """Weight, target ids, bias and scale, in the order in which kernels take them."""
        return HeadTensors(self.weight, self.target_ids, self.bias, self.scale)

    def forward(self, hidden: Tensor) -> Tensor:
        """Draft logits as the model means them, scaled and capped; hidden may want a gradient.

        Args:
            hidden: [B, H], dtype and device of the head.

        Returns:
            float32 [B, K].

        Raises:
            HeadError: hidden does not fit.
        """
        check_hidden(hidden, self.weight)
        needs_gradient = torch.is_grad_enabled() and hidden.requires_grad
        product = head_logits if needs_gradient else draft_logits
        logits = product(hidden, self.weight, self.bias, self.scale)
        return scale_and_cap(logits, self.shape.logit_scale, self.shape.soft_cap)

    @torch.no_grad()
    def refresh(self, lm_head: Tensor | nn.Module, scale: Tensor | None = None) -> None:
        """Copies the rows of new weights in place; addresses stay, so CUDA graphs stay valid.

        Args:
            lm_head: the new head, a module with a weight or the weight itself, [rows, H].
            scale: [rows], where this head has scales.

        Raises:
            HeadError: the new head does not fit; nothing has been changed.
        """
        shard = self.first, len(self.weight)
        rows = select_rows(lm_head, self.vocab, scale=scale, shard=shard)._asdict()
        for name, new in rows.items():
            _check_same_kind(name, getattr(self, name), new)
        for name, new in rows.items():
            if new is not None:
                getattr(self, name).copy_(new)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "PrunedHead":
        """Moves and converts; scales keep their dtype, in 16 bits small ones would vanish."""
        scale = self.scale
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.scale = None if scale is None else scale.to(self.weight.device)
        return self

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        """Refuses a state of other ids, which `vocab` would not describe.

        Raises:
            HeadError: the target ids in the state are not those of this head.
        """
        new, own = state.get(f"{prefix}target_ids"), self.target_ids
        if new is not None and (own is None or not torch.equal(new.cpu(), own.cpu())):
            raise HeadError(
                f"a state of {len(new):,} rows of other ids",
                expected="the ids that this head was pruned to",
                hint="prune a head to the same vocabulary before loading",
            )
        super()._load_from_state_dict(state, prefix, *others)

    def extra_repr(self) -> str:
        """K, V, H and dtype."""
        count, hidden = self.weight.shape
        return f"K={count:,} of V={self.rows:,}, H={hidden:,}, {self.weight.dtype}"


def _check_same_kind(name: str, old: Tensor | None, new: Tensor | None) -> None:
    """Checks that a new tensor can replace an old one in place.

    Raises:
        HeadError: one is missing, or shape or dtype differ.
    """
    if (old is None) != (new is None):
        has, lacks = ("the old", "the new") if new is None else ("the new", "the old")
        raise HeadError(f"{has} head has a {name}, {lacks} has none", expected="the same parts")
    if old is not None and new is not None and (old.shape, old.dtype) != (new.shape, new.dtype):
        raise HeadError(
            f"a new {name} {new.dtype} {list(new.shape)}",
            expected=f"{old.dtype} {list(old.shape)}, as it was pruned",
            hint="prune the new head instead (prune_lm_head)",
        )


@torch.inference_mode(False)  # else new weights could not be copied in outside of that mode
@torch.no_grad()
def prune_lm_head(
    lm_head: Tensor | nn.Module,
    vocab: VocabLike,
    *,
    scale: Tensor | None = None,
    shape: Shape | None = None,
    **selection: Any,
) -> PrunedHead:
    """Copies the kept rows of a head; the head itself is not changed, tied or not.

    Args:
        lm_head: `nn.Linear` or any module with a `weight` [rows, H] and maybe a `bias` [rows], or
            the weight itself; any strides. Rows beyond V (padding) are accepted.
        vocab: the ids to keep, a frequency table, or a path or Hub id (`owner/name[@revision]`) of
            either.
        scale: [rows] or [rows, 1], of a head that is quantised by rows.
        shape: logit scale and soft cap of the model.
        **selection: of a table, `size`, `coverage`, `pins` …, as in `FrequencyTable.select`.

    Returns:
        The pruned head, on the device and of the dtype of the head.

    Raises:
        HeadError: the head cannot be taken apart by rows, or lacks rows that are kept.
        SelectionError: the selection is impossible.
        FileFormatError: the file does not hold what its format promises.
    """
    chosen = load_vocab(vocab, selection, len(_weight_and_bias(lm_head)[0]))
    rows = select_rows(lm_head, chosen, scale=scale)
    return PrunedHead(rows.weight, chosen, bias=rows.bias, scale=rows.scale, shape=shape)


class HeadRows(NamedTuple):
    """Rows of a head: weight [K, H], bias [K] or None, scale [K] or None."""

    weight: Tensor
    bias: Tensor | None
    scale: Tensor | None


def select_rows(
    lm_head: Tensor | nn.Module,
    vocab: DraftVocab,
    *,
    scale: Tensor | None = None,
    shard: tuple[int, int] | None = None,
) -> HeadRows:
    """Copies of the kept rows of weight, bias and scale.

    Args:
        lm_head: as in `prune_lm_head`.
        vocab: the kept ids.
        scale: [rows] or [rows, 1].
        shard: draft id of the first row and number of rows; None for all.

    Raises:
        HeadError: it cannot be taken apart by rows, or lacks rows that are kept.
    """
    weight, bias = _weight_and_bias(lm_head)
    check_weight_dtype(weight, scale)
    beyond = int((vocab.target_ids >= len(weight)).sum())
    if beyond:
        raise HeadError(
            f"{beyond:,} of {len(vocab):,} ids, up to {vocab.target_ids[-1]}, have no row in a "
            f"head of {list(weight.shape)}",
            expected="ids that it has rows for",
            hint="take ids that were counted for this model",
        )
    first, count = shard or (0, len(vocab))
    ids = torch.from_numpy(vocab.target_ids[first : first + count].copy()).to(weight.device)
    if scale is not None and scale.dim() == 2 and scale.shape[1] == 1:
        scale = scale[:, 0]
    bias, scale = (_select(one, ids, weight) for one in (bias, scale))
    return HeadRows(weight.index_select(0, ids), bias, scale)


def _weight_and_bias(lm_head: Tensor | nn.Module) -> tuple[Tensor, Tensor | None]:
    weight = lm_head if isinstance(lm_head, Tensor) else getattr(lm_head, "weight", None)
    if not isinstance(weight, Tensor) or weight.dim() != 2:
        found = f"a weight of {list(weight.shape)}" if isinstance(weight, Tensor) else "no weight"
        raise HeadError(
            f"{type(lm_head).__name__} with {found}",
            expected="nn.Linear, a module with a weight [rows, H], or that weight",
        )
    bias = None if isinstance(lm_head, Tensor) else getattr(lm_head, "bias", None)
    return weight.detach(), bias.detach() if isinstance(bias, Tensor) else None


def _select(values: Tensor | None, ids: Tensor, weight: Tensor) -> Tensor | None:
    if values is None:
        return None
    if values.shape != weight.shape[:1]:
        raise HeadError(
            f"a bias or scale of {list(values.shape)} beside a weight of {list(weight.shape)}",
            expected=f"[{len(weight)}], one for each row",
            hint="a head that is quantised in blocks cannot be pruned by rows",
        )
    return values.detach().to(weight.device).index_select(0, ids)
