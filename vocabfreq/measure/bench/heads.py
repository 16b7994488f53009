"""The numbers that are measured on: full heads, hidden states, and the kept ids."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.bench.setup import DTYPES, Setup
from vocabfreq.runtime.head import PrunedHead
from vocabfreq.runtime.pruning import prune_lm_head

LIVE = 256  # hidden numbers of a row that are not 0: bf16 holds every whole number up to here
SPREAD = 2.0  # standard deviation of the random logits


def empty_head(setup: Setup) -> Tensor:
    """A full head, [V, H], not filled."""
    shape = setup.vocab_size, setup.hidden_size
    return torch.empty(shape, dtype=DTYPES[setup.dtype], device=setup.device)


def fill_whole(full: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills a full head with -1, 0 and 1; sums with the hidden states are exact in every dtype.

    Args:
        full: [V, H], written.
        setup: the largest of its batch sizes is taken.
        random: where the numbers come from.

    Returns:
        hidden [B, H] of -1, 0 and 1, at most `LIVE` of a row not 0.
    """
    full.random_(-1, 2, generator=random)
    hidden = _empty_hidden(full, setup).random_(-1, 2, generator=random)
    apart = -(-setup.hidden_size // LIVE)
    rows = torch.arange(len(hidden), device=full.device)[:, None]
    columns = torch.arange(setup.hidden_size, device=full.device)
    return hidden.masked_fill_((rows + columns) % apart != 0, 0)


def fill_random(full: Tensor, setup: Setup, random: torch.Generator) -> Tensor:
    """Fills a full head with normal numbers.

    Args:
        full: [V, H], written.
        setup: the largest of its batch sizes is taken.
        random: where the numbers come from.

    Returns:
        hidden [B, H], such that logits have the standard deviation `SPREAD`.
    """
    full.normal_(generator=random)
    spread = SPREAD * setup.hidden_size**-0.5
    return _empty_hidden(full, setup).normal_(0, spread, generator=random)


def _empty_hidden(full: Tensor, setup: Setup) -> Tensor:
    return full.new_empty((max(setup.batch_sizes), setup.hidden_size))


def shapes(setup: Setup, full: Tensor) -> Iterator[tuple[PrunedHead, int]]:
    """Each pruned head, its ids drawn at random, with each batch size."""
    for size in setup.sizes:
        ids = np.random.default_rng(size).choice(setup.vocab_size, size, replace=False)
        head = prune_lm_head(full, DraftVocab.from_ids(np.sort(ids), rows=setup.vocab_size))
        for batch in setup.batch_sizes:
            yield head, batch


@contextmanager
def room(setup: Setup) -> Iterator[None]:
    """Says what did not fit into memory, where torch speaks of its allocator.

    Raises:
        HeadError: it does not fit.
    """
    try:
        yield
    except (RuntimeError, OverflowError) as error:
        if not re.search("memory|overflow", str(error), re.IGNORECASE):
            raise
        raise _too_large(setup) from None


def _too_large(setup: Setup) -> HeadError:
    rows, width = setup.vocab_size, setup.hidden_size
    size = rows * width * DTYPES[setup.dtype].itemsize
    return HeadError(
        f"a full head of [{rows}, {width}], {size / 1e9:,.1f} GB, and batches up to "
        f"{max(setup.batch_sizes)} rows",
        expected=f"what fits into the memory of the {setup.device}",
        hint="take a smaller V, H or B",
    )
