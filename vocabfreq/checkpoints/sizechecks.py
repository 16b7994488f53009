"""Checks of what config.json says against the tensors."""

from collections.abc import Iterator, Mapping

from vocabfreq.checkpoints.config import ModelConfig
from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.headrows import Head
from vocabfreq.checkpoints.kinds import find
from vocabfreq.checkpoints.remarks import NORM
from vocabfreq.checkpoints.tensors import Tensor, is_map


def draft_size(config: ModelConfig, tensors: Mapping[str, Tensor]) -> int | None:
    """K: what config.json says, or else what d2t or the head have."""
    said = config.size("draft_vocab_size")
    d2t, head = (find(tensors, name) for name in ("d2t", "lm_head.weight"))
    found = (d2t if d2t is not None and is_map(d2t) else None, head)
    return said or next((t.shape[0] for t in found if t is not None and t.shape), None)


def check_sizes(
    config: ModelConfig, tensors: Mapping[str, Tensor], head: Head | None
) -> Iterator[Finding]:
    """Sizes that the tensors don't have, or that config.json does not say."""
    rows, size, hidden = map(config.size, ("vocab_size", "draft_vocab_size", "hidden_size"))
    if rows is None:
        yield finding("size-missing", "config.json has no vocab_size")
    if size is None and _is_pruned(tensors, rows):
        yield finding("size-missing", "config.json has no draft_vocab_size beside a pruned head")
    if rows and size and size > rows:
        yield finding("sizes", f"draft_vocab_size {size:,} is more than vocab_size {rows:,}")
    if head is not None:
        yield from _differs(head.weight, (size or rows, hidden), "draft_vocab_size, hidden_size")
    embedding = find(tensors, "embed_tokens.weight")
    if embedding is not None:
        yield from _differs(embedding, (rows, None), "vocab_size")
    fusion = find(tensors, "fc.weight")
    if fusion is not None:
        yield from _differs(fusion, (hidden, None), "hidden_size")
        yield from _fusion(fusion, config.size("target_hidden_size") or hidden)


def _is_pruned(tensors: Mapping[str, Tensor], rows: int | None) -> bool:
    head = find(tensors, "lm_head.weight")
    return head is not None and rows is not None and head.shape[:1] < (rows,)


def _differs(tensor: Tensor, wanted: tuple[int | None, ...], names: str) -> Iterator[Finding]:
    fits = len(tensor.shape) == len(wanted)
    if not fits or any(w not in (None, n) for n, w in zip(tensor.shape, wanted, strict=True)):
        told = [w if w is not None else "…" for w in wanted]
        told_text = ", ".join(map(str, told))
        yield finding("sizes", f"{tensor}, but config.json says [{told_text}] ({names})")


def _fusion(fusion: Tensor, width: int | None) -> Iterator[Finding]:
    if width and len(fusion.shape) == 2 and fusion.shape[1] % width:
        yield finding(
            "sizes",
            f"{fusion} takes {fusion.shape[1]:,} values, no multiple of the target's {width:,} "
            "(target_hidden_size, or else hidden_size)",
        )


def check_words(config: ModelConfig, pruned: bool) -> Iterator[Finding]:
    """What config.json says, or leaves to readers.

    Args:
        config: of the drafter.
        pruned: whether it has fewer draft rows than target rows.
    """
    if config.tied and pruned:
        yield finding("tied", "tie_word_embeddings is true beside a pruned head")
    if NORM not in config.raw and NORM not in config.inner:
        yield finding("norm-missing", f"config.json does not say {NORM}")
