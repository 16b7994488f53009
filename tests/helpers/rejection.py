"""Speculative sampling by its definition, and chi-square tests of what it gives.

Leviathan et al. (arXiv 2211.17192) and Chen et al. (arXiv 2302.01318): an id x drawn from the draft
distribution q is accepted with chance min(1, p(x) / q(x)), p being the target's; at the first
rejection an id is drawn from max(0, p - q), normalised; after the last acceptance one from p.
"""

import torch
from torch import Tensor

RARE = 10.0  # cells expected less often are counted as one


def verified(
    target: Tensor, draft: Tensor, ids: Tensor, noise: torch.Generator, *, residual: bool = True
) -> Tensor:
    """One round of verification for every row.

    Args:
        target: the target's distributions, doubles [B, k + 1, V].
        draft: the draft distributions that the ids are said to come from, doubles [B, k, V].
        ids: drafted, int64 [B, k].
        noise: of the chances that are drawn here.
        residual: False breaks the rule: a rejected id is replaced by a draw from p.

    Returns:
        What comes out, int64 [B, k + 1], -1 behind the end.
    """
    batch, k = ids.shape
    p = target[:, :k].gather(2, ids[:, :, None])[:, :, 0]
    q = draft.gather(2, ids[:, :, None])[:, :, 0]
    taken = torch.rand(batch, k, generator=noise, dtype=torch.float64) * q < p
    length = taken.long().cumprod(1).sum(1)
    rows, final = torch.arange(batch), target[torch.arange(batch), length]
    if residual:
        nothing = torch.zeros_like(target[:, :1])
        final = (final - torch.cat([draft, nothing], 1)[rows, length]).clamp_min(0)
    places = torch.arange(k + 1)
    out = torch.where(places < length[:, None], torch.nn.functional.pad(ids, (0, 1)), -1)
    out[rows, length] = torch.multinomial(final, 1, generator=noise)[:, 0]
    return out


def fit(seen: Tensor, chances: Tensor) -> float:
    """P-value of counts against the chances of their cells, rare cells taken together."""
    wanted = chances.double().flatten() * seen.sum()
    seen, wanted = _pooled(torch.stack([seen.double().flatten(), wanted]), wanted)
    return _p_value(((seen - wanted) ** 2 / wanted).sum(), len(seen) - 1)


def same(one: Tensor, other: Tensor) -> float:
    """P-value of two counts being of one distribution, rare cells taken together."""
    both = torch.stack([one.double().flatten(), other.double().flatten()])
    shares = both.sum(1, keepdim=True) / both.sum()
    both = _pooled(both, both.sum(0) * shares.min())
    wanted = both.sum(0) * shares
    return _p_value(((both - wanted) ** 2 / wanted).sum(), both.shape[1] - 1)


def _pooled(counts: Tensor, wanted: Tensor) -> Tensor:
    """Columns of counts, those wanted rarely as one that comes last."""
    often = wanted >= RARE
    pool = counts[:, ~often].sum(1, keepdim=True)
    return torch.cat([counts[:, often], pool], 1) if pool.any() else counts[:, often]


def _p_value(statistic: Tensor, freedom: int) -> float:
    return float(torch.special.gammaincc(torch.tensor(freedom / 2.0).double(), statistic / 2))
