"""What is wrong with a drafter folder, and what each engine would make of it.

>>> for finding in check_drafter("eagle3-llama3-32k"):
...     print(finding.level, finding.what)
error tie_word_embeddings is true beside a pruned head

Checks of the maps in a drafter: d2t and t2d.

Checks of what config.json says against the tensors.

Checks of a drafter against its target.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.config import (
    Kind,
    ModelConfig,
    find,
    kind_by_config,
    kind_by_tensors,
    read_config,
)
from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import Head, is_head_name, is_head_tensor, plain_head, target_head
from vocabfreq.checkpoints.pruning import NORM
from vocabfreq.checkpoints.tensors import Tensor, is_map
from vocabfreq.errors import FileFormatError, SourceError
from vocabfreq.storage.resolve import looks_like_repo
from vocabfreq.tokenizer.fingerprint import TOKENIZER, tokenizer_sha256

Array = npt.NDArray[Any]


def check_d2t(d2t: Tensor, t2d: Tensor | None, rows: int, size: int) -> Iterator[Finding]:
    """What is wrong with offsets.

    Args:
        d2t: the tensor.
        t2d: the mask, if there is one; it can tell offsets from ids.
        rows: V.
        size: K.
    """
    if not is_map(d2t):
        yield finding("d2t-shape", f"{d2t}, not whole numbers [K]")
        return
    offsets = d2t.array().astype(np.int64)
    if len(offsets) != size:
        yield finding("d2t-shape", f"{d2t} has {len(offsets):,} entries for K = {size:,} rows")
    ids = offsets + np.arange(len(offsets))
    if len(offsets) < rows and not offsets.any():
        yield finding("d2t-zero", f"all {len(offsets):,} offsets of d2t are 0 although K < V")
    elif _holds_ids(offsets, mask_of(t2d, rows), rows):
        yield finding("d2t-absolute", _absolute(offsets, ids, rows))
    elif not _ascending(ids, rows):
        yield from _wrong_ids(ids, rows)
    elif mask_of(t2d, rows) is None and len(ids) > 1 and _ascending(offsets, rows):
        yield finding(
            "d2t-unclear",
            f"d2t could hold offsets or target ids: {offsets[0]} … {offsets[-1]} are unique and "
            "ascending either way, and no t2d tells",
        )


def mask_of(t2d: Tensor | None, rows: int) -> Array | None:
    """The mask as truth values [V]; None where there is none that can be one."""
    fits = t2d is not None and t2d.dtype == "BOOL" and t2d.shape == (rows,)
    return t2d.array() if fits and t2d is not None else None


def _holds_ids(offsets: Array, mask: Array | None, rows: int) -> bool:
    """Whether these are target ids where offsets belong, as far as that can be told."""
    ids = offsets + np.arange(len(offsets))
    if mask is not None:
        as_offsets, as_ids = (
            _kept(one, rows)[1] == len(one) and np.array_equal(_kept(one, rows)[0], mask)
            for one in (ids, offsets)
        )
        if as_offsets or as_ids:
            return not as_offsets
    return not _ascending(ids, rows) and _ascending(offsets, rows)


def _kept(ids: Array, rows: int) -> tuple[Array, int]:
    """The mask of ids, and how many different ones it has."""
    kept = np.zeros(rows, bool)
    kept[ids[(ids >= 0) & (ids < rows)]] = True
    return kept, int(kept.sum())


def _ascending(ids: Array, rows: int) -> bool:
    """Whether these are unique ascending target ids."""
    return bool(len(ids) and ids[0] >= 0 and ids[-1] < rows and (np.diff(ids) > 0).all())


def _absolute(offsets: Array, ids: Array, rows: int) -> str:
    wrong = np.flatnonzero((ids < 0) | (ids >= rows))
    as_offsets = (
        f"as offsets they give id {ids[wrong[0]]} at row {wrong[0]}, beyond V = {rows:,}"
        if len(wrong)
        else "as offsets they give other ids than t2d keeps"
    )
    return (
        f"d2t holds target ids, not offsets: {offsets[0]} … {offsets[-1]} are unique ids below V; "
        f"{as_offsets}"
    )


def _wrong_ids(ids: Array, rows: int) -> Iterator[Finding]:
    wrong = np.flatnonzero((ids < 0) | (ids >= rows))
    if len(wrong):
        place = wrong[0]
        yield finding(
            "d2t-range",
            f"d2t gives id {ids[place]} at row {place} ({len(wrong):,} such), outside 0 … "
            f"{rows - 1:,}",
        )
    order = np.argsort(ids, kind="stable")
    again = order[1:][np.diff(ids[order]) == 0]
    if len(again):
        place = again.min()
        yield finding(
            "d2t-repeated",
            f"d2t gives id {ids[place]} again at row {place} ({len(again):,} repeated)",
        )
    if not len(wrong) and not len(again):
        place = np.flatnonzero(np.diff(ids) < 0)[0] + 1
        yield finding("d2t-unsorted", f"the ids of d2t are not ascending, first at row {place}")


def check_t2d(t2d: Tensor | None, d2t: Tensor | None, rows: int, size: int) -> Iterator[Finding]:
    """Whether the mask keeps what d2t keeps.

    Args:
        t2d: the mask, if there is one.
        d2t: the offsets, if there are some.
        rows: V.
        size: K.
    """
    if t2d is None:
        if d2t is not None and size < rows:
            yield finding("t2d-missing", "there is a d2t but no t2d")
        return
    mask = mask_of(t2d, rows)
    if mask is None:
        yield finding("t2d-disagrees", f"{t2d}, not BOOL [{rows}]")
        return
    if d2t is None or not is_map(d2t):
        if mask.sum() != size:
            yield finding("t2d-disagrees", f"t2d keeps {mask.sum():,} ids for K = {size:,} rows")
        return
    offsets = d2t.array().astype(np.int64)
    ids = offsets if _holds_ids(offsets, mask, rows) else offsets + np.arange(len(offsets))
    differing = np.flatnonzero(_kept(ids, rows)[0] != mask)
    if len(differing):
        yield finding(
            "t2d-disagrees",
            f"t2d and d2t disagree on {len(differing):,} ids, the first is {differing[0]}",
        )


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


def check_target(config: ModelConfig, target: Path, has_head: bool) -> Iterator[Finding]:
    """What does not fit together.

    Args:
        config: of the drafter.
        target: folder of the target.
        has_head: whether the drafter has a head of its own.
    """
    try:
        theirs = read_config(target)
        sizes = theirs.size("hidden_size"), theirs.size("vocab_size")
    except FileFormatError as error:
        yield finding("target-broken", f"the target: {error.wrong}")
        return
    yield from _sizes(config, *sizes)
    if not has_head:
        yield from _shared_head(config, target, theirs)
    yield from _tokenizers(config.path.parent, target)


def _sizes(config: ModelConfig, hidden: int | None, rows: int | None) -> Iterator[Finding]:
    wanted = config.size("target_hidden_size") or config.size("hidden_size")
    if hidden and wanted and hidden != wanted:
        yield finding(
            "target-width",
            f"the target's hidden_size is {hidden:,}, the drafter was made for {wanted:,}",
        )
    said = config.size("vocab_size")
    if rows and said and rows != said:
        code = "target-rows" if said > rows else "target-rows-more"
        yield finding(code, f"the target's vocab_size is {rows:,}, the drafter says {said:,}")


def _shared_head(config: ModelConfig, target: Path, theirs: ModelConfig) -> Iterator[Finding]:
    hidden = config.size("hidden_size")
    try:
        with open_checkpoint(target, only=is_head_tensor) as opened:
            weight = target_head(opened.tensors, theirs.untied).weight
    except FileFormatError as error:
        yield finding("target-broken", f"the target: {error.wrong}")
        return
    if hidden and weight.shape[1] != hidden:
        yield finding(
            "target-width", f"the target's {weight} cannot serve a drafter of width {hidden:,}"
        )


def _tokenizers(drafter: Path, target: Path) -> Iterator[Finding]:
    own, theirs = tokenizer_sha256(drafter), tokenizer_sha256(target)
    if own is None or theirs is None or own == theirs:
        return
    shown = f"sha256 {own} of the drafter, {theirs} of the target"
    differing = _differing_tokens(drafter / TOKENIZER, target / TOKENIZER)
    if differing is None:
        yield finding("tokenizer", f"{TOKENIZER} cannot be read; {shown}")
    elif differing:
        yield finding("tokenizer", f"{differing:,} tokens have other ids; {shown}")
    else:
        yield finding("tokenizer-file", f"{TOKENIZER} differs, its ids do not; {shown}")


def _differing_tokens(one: Path, other: Path) -> int | None:
    from tokenizers import Tokenizer

    try:
        first, second = (Tokenizer.from_file(str(path)).get_vocab(True) for path in (one, other))
    except Exception:  # the library has one kind of error for everything
        return None
    return len(set(first.items()) ^ set(second.items()))


SIZES = ("vocab_size", "draft_vocab_size", "hidden_size", "target_hidden_size")


def check_drafter(drafter: str | Path, target: str | Path | None = None) -> list[Finding]:
    """Looks at a folder without loading it.

    Args:
        drafter: folder of a drafter.
        target: folder of its target, to compare with.

    Returns:
        Errors first; empty when nothing was found.

    Raises:
        SourceError: one of the two is no folder.
        MissingExtraError: the weights are a torch file, and torch is not installed.
    """
    for folder in (drafter, target):
        if folder is not None and not Path(folder).is_dir():
            hint = f"hf download {folder} --local-dir DIR" if looks_like_repo(str(folder)) else ""
            raise SourceError(f"no folder {str(folder)!r}", hint=hint)
    found = list(_check(Path(drafter), None if target is None else Path(target)))
    return sorted(found, key=lambda one: one.level != "error")


def _check(drafter: Path, target: Path | None) -> Iterator[Finding]:
    try:
        config = read_config(drafter)
        for name in SIZES:
            config.size(name)
    except FileFormatError as error:
        yield finding("config-broken", error.wrong)
        return
    try:
        opened = open_checkpoint(drafter)
    except FileFormatError as error:
        yield finding("weights-broken", error.wrong)
        return
    with opened as checkpoint:
        yield from _check_open(config, checkpoint, target)


def _check_open(
    config: ModelConfig, checkpoint: Checkpoint, target: Path | None
) -> Iterator[Finding]:
    try:
        kind = kind_by_config(config) or kind_by_tensors(config, checkpoint.tensors)
    except FileFormatError as error:
        yield finding("not-a-drafter", error.wrong)
        return
    head: Head | None = None
    try:
        head = plain_head(checkpoint.tensors, "drafter")
        yield from _check_kind(kind, config, checkpoint, head)
    except FileFormatError as error:
        yield finding("head-broken", error.wrong)
    if target is not None:
        has_head = any(map(is_head_name, checkpoint.tensors))
        yield from check_target(config, target, has_head)


def _check_kind(
    kind: Kind, config: ModelConfig, checkpoint: Checkpoint, head: Head | None
) -> Iterator[Finding]:
    if kind == "eagle3":
        yield from _check_eagle3(config, checkpoint, head)
    elif find(checkpoint.tensors, "d2t"):
        names = ", ".join(config.architectures)
        yield finding("map-not-taken", f"there is a d2t, but {names} has no place for a map")


def _check_eagle3(
    config: ModelConfig, checkpoint: Checkpoint, head: Head | None
) -> Iterator[Finding]:
    tensors = checkpoint.tensors
    rows, size = config.size("vocab_size"), draft_size(config, tensors)
    pruned = rows is not None and size is not None and size < rows
    yield from check_sizes(config, tensors, head)
    yield from check_words(config, pruned)
    if rows is not None and size is not None:
        yield from _check_maps(checkpoint, rows, size)
    if head is None and pruned:
        yield finding("head-missing", f"there is no lm_head.weight for K = {size:,}, V = {rows:,}")
    elif head is None and config.size("draft_vocab_size") and not config.tied:
        yield finding("head-shared", "there is no lm_head.weight, but a draft_vocab_size")


def _check_maps(checkpoint: Checkpoint, rows: int, size: int) -> Iterator[Finding]:
    d2t, t2d = (find(checkpoint.tensors, name) for name in ("d2t", "t2d"))
    if d2t is not None and size == rows:
        yield finding("map-of-all", f"there is a d2t although K = V = {rows:,}")
    if d2t is not None:
        yield from check_d2t(d2t, t2d, rows, size)
    elif size < rows:
        yield finding("d2t-missing", f"there is no d2t for K = {size:,} of V = {rows:,}")
    yield from check_t2d(t2d, d2t, rows, size)
