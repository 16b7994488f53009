"""`load_pruned_head`: reads the kept rows of a head from disk or the Hub, and no others.

>>> head = load_pruned_head("meta-llama/Llama-3.1-8B", "org/llama3-vocab-freq", size=32_768)
"""

import mmap
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vocabfreq.checkpoints.config import ModelConfig, read_config
from vocabfreq.checkpoints.folder import Checkpoint, fetch_checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import Head, is_head_tensor, read_drafter_head, read_target_head
from vocabfreq.checkpoints.tensors import RowIndices, find_tensor
from vocabfreq.checkpoints.tensors import Tensor as Stored
from vocabfreq.errors import HeadError
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.runtime.checks import SCALED
from vocabfreq.runtime.head import PrunedHead, Shape

DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "I8": torch.int8,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}


def load_pruned_head(
    model: str | Path,
    vocab: VocabLike,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    *,
    shape: Shape | None = None,
    **selection: Any,
) -> PrunedHead:
    """Reads the kept rows of a model's head; peak memory is the pruned head, not the full one.

    Args:
        model: a folder, or `owner/name[@revision]` on the Hub, of which only the file with the head
            is fetched. A target, whose head may be its embedding, or a drafter with a head of its
            own, whose d2t is followed.
        vocab: as in `prune_lm_head`.
        dtype: of the result; None for that of the file.
        device: of the result.
        shape: logit scale and soft cap of the model; None takes them from its config.
        **selection: as in `prune_lm_head`.

    Raises:
        FileFormatError: the folder lacks something or is broken; names it.
        SelectionError: an id has no row, or the selection is impossible.
        HeadError: the head cannot be taken apart by rows.
    """
    folder = fetch_checkpoint(model, _is_needed)
    config = read_config(folder)
    chosen = load_vocab(vocab, selection, config.size("vocab_size"))
    with ExitStack() as stack:
        checkpoint = stack.enter_context(open_checkpoint(folder, only=_is_needed))
        head = _find_head(checkpoint, config, chosen)
        _check_supported(head)
        places = head.row_indices(chosen)
        weight = _read_rows(head.weight, places, dtype, device)
        beside = {n: _read_rows(t, places, None, device).flatten() for n, t in head.per_row.items()}
    bias, scale = beside.get("bias"), beside.get("weight_scale")
    return PrunedHead(weight, chosen, bias=bias, scale=scale, shape=shape or _shape(config))


def _shape(config: ModelConfig) -> Shape:
    """Soft cap (Gemma), logit scale (Cohere) or its inverse (Granite), by the config's names."""

    def number(name: str, default: float) -> float:
        value = config.inner.get(name)
        return float(value) if isinstance(value, int | float) and value else default

    scale = number("logit_scale", 1.0) / number("logits_scaling", 1.0)
    return Shape(scale, number("final_logit_softcapping", 0.0))


def _is_needed(name: str) -> bool:
    return is_head_tensor(name) or name.rpartition(".")[2] in ("d2t", "t2d")


def _find_head(checkpoint: Checkpoint, config: ModelConfig, vocab: DraftVocab) -> Head:
    tensors = checkpoint.tensors
    if find_tensor(tensors, "d2t") is not None:
        own = read_drafter_head(tensors, vocab.rows, config.size("draft_vocab_size"))
        if own is not None:
            return own
    return read_target_head(tensors, config.untied)


def _check_supported(head: Head) -> None:
    """Checks that a `PrunedHead` can hold all that belongs to the rows.

    Raises:
        HeadError: more than a bias and one scale for each row.
    """
    unknown = {*head.per_row, *head.scalars} - {"bias", "weight_scale"}
    if unknown or "weight_scale" in head.scalars:
        raise HeadError(
            f"{head.weight} with {', '.join(sorted(unknown | set(head.scalars)))}",
            expected="a bias and one scale for each row at most",
            hint="prune the head before quantising it",
        )


def _read_rows(
    stored: Stored, places: RowIndices, dtype: torch.dtype | None, device: torch.device | str
) -> Tensor:
    """Some rows as a tensor, converted and moved block by block."""
    if stored.dtype not in DTYPES:
        raise HeadError(f"{stored}", expected=f"one of {', '.join(DTYPES)}")
    stored_dtype = DTYPES[stored.dtype]
    if stored_dtype in SCALED:
        dtype = None  # the scales belong to these bits
    shape = len(places), *stored.shape[1:]
    if dtype in (None, stored_dtype) and torch.device(device).type == "cpu":
        memory = _huge_page_memory(len(places) * stored.row_bytes)
        stored.read_rows(places, memory)
        return torch.frombuffer(memory, dtype=stored_dtype).view(shape)
    rows = torch.empty(shape, dtype=dtype or stored_dtype, device=device)
    done = 0
    for block in stored.rows(places):
        values = torch.frombuffer(block, dtype=stored_dtype).view(-1, *shape[1:])
        rows[done : done + len(values)].copy_(values)
        done += len(values)
    return rows


def _huge_page_memory(size: int) -> memoryview:
    """New memory, in huge pages where the system has them.

    Filling new memory is mostly page faults, and a huge page takes one where 512 small ones would.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return memoryview(bytearray(size))
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)
