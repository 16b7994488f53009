"""`prune_lm_head`: the kept rows of a head that is in memory.

>>> head = prune_lm_head(model.lm_head, "vocab_freq.safetensors", size=32_768)
"""

from typing import Any

import torch
from torch import Tensor, nn

from vocabfreq.errors import HeadError
from vocabfreq.formats.choosing import Chooser, choose
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime import checks
from vocabfreq.runtime.checks import Rows
from vocabfreq.runtime.head import PrunedHead, Shape


@torch.inference_mode(False)  # else new weights could not be copied in outside of that mode
@torch.no_grad()
def prune_lm_head(
    lm_head: Tensor | nn.Module,
    vocab: Chooser,
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
    chosen = choose(vocab, wish, weight.shape[0])
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
