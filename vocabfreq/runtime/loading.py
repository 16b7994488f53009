"""`load_pruned_head`: the kept rows of a head that is on disk or on the Hub, and no others.

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
from vocabfreq.runtime.head import PrunedHead, Shape

SHAPES = ("final_logit_softcapping", "logit_scale", "logits_scaling")
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
    **wish: Any,
) -> PrunedHead:
    """Reads the kept rows of a model's head; peak memory is the pruned head, not the full one.

    Args:
        model: a folder, or `owner/name[@revision]` on the Hub, of which only the file with the head
            is fetched. A target, whose head may be its embedding, or a drafter with a head of its
            own, of which a map (d2t) is followed.
        vocab: as in `prune_lm_head`.
        dtype: of the result; None for that of the file.
        device: where to.
        shape: logit scale and soft cap of the model; None for what its config says.
        **wish: how a table selects.

    Raises:
        FileFormatError: the folder lacks something or is broken; names it.
        SelectionError: an id has no row, or the wish cannot be met.
        HeadError: the head cannot be taken apart by rows.
    """
    folder = fetch_checkpoint(model, _wanted)
    rows = read_config(folder).size("vocab_size")
    chosen = load_vocab(vocab, wish, rows)
    with ExitStack() as stack:
        found = stack.enter_context(open_checkpoint(folder, only=_wanted))
        head = _head(found, folder, chosen)
        _check_beside(head)
        places = head.row_indices(chosen)
        weight = _read(head.weight, places, dtype, device)
        beside = {n: _read(t, places, None, device).flatten() for n, t in head.per_row.items()}
    bias, scale = beside.get("bias"), beside.get("weight_scale")
    shape = shape or _shape(read_config(folder))
    return PrunedHead(weight, chosen, bias=bias, scale=scale, shape=shape)


def _shape(config: ModelConfig) -> Shape:
    """Soft cap (Gemma), logit scale (Cohere) or its inverse (Granite), by the config's names."""
    told = {name: config.inner.get(name) for name in SHAPES}
    numbers = {n: float(v) for n, v in told.items() if isinstance(v, int | float) and v}
    scale = numbers.get("logit_scale", 1.0) / numbers.get("logits_scaling", 1.0)
    return Shape(scale, numbers.get("final_logit_softcapping", 0.0))


def _wanted(name: str) -> bool:
    return is_head_tensor(name) or name.rpartition(".")[2] in ("d2t", "t2d")


def _head(found: Checkpoint, folder: Path, vocab: DraftVocab) -> Head:
    config = read_config(folder)
    if find_tensor(found.tensors, "d2t") is not None:
        own = read_drafter_head(found.tensors, vocab.rows, config.size("draft_vocab_size"))
        if own is not None:
            return own
    return read_target_head(found.tensors, config.untied)


def _check_beside(head: Head) -> None:
    """What goes with the rows has to be what a `PrunedHead` knows."""
    unknown = {*head.per_row, *head.scalars} - {"bias", "weight_scale"}
    if unknown or "weight_scale" in head.scalars:
        raise HeadError(
            f"{head.weight} with {', '.join(sorted(unknown | set(head.scalars)))}",
            expected="a bias and one scale for each row at most",
            hint="prune the head before quantising it",
        )


def _read(
    stored: Stored, places: RowIndices, dtype: torch.dtype | None, device: torch.device | str
) -> Tensor:
    """Some rows as a tensor, converted and moved block by block."""
    if stored.dtype not in DTYPES:
        raise HeadError(f"{stored}", expected=f"one of {', '.join(DTYPES)}")
    kind = DTYPES[stored.dtype]
    if kind in (torch.int8, torch.float8_e4m3fn, torch.float8_e5m2):
        dtype = None  # the scales belong to these bits
    shape = len(places), *stored.shape[1:]
    if dtype in (None, kind) and torch.device(device).type == "cpu":
        memory = anonymous(len(places) * stored.row_bytes)
        stored.read_rows(places, memory)
        return torch.frombuffer(memory, dtype=kind).view(shape)
    rows = torch.empty(shape, dtype=dtype or kind, device=device)
    done = 0
    for block in stored.rows(places):
        part = torch.frombuffer(block, dtype=kind).view(-1, *shape[1:])
        rows[done : done + len(part)].copy_(part)
        done += len(part)
    return rows


def anonymous(size: int) -> memoryview:
    """New memory, in large pages where the system has them.

    Filling new memory takes most of its time for asking for each small page.
    """
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return memoryview(bytearray(size))
    pages = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)
