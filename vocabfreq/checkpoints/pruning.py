"""Prunes the head of a drafter: a folder that servers load, or the token map that they take.

    >>> prune_drafter("eagle3-llama3", table, "eagle3-llama3-32k", size=32_768)
    Pruned(eagle3-llama3-32k: 32,768 of 128,256 rows of the drafter's lm_head.weight)

Only the rows that are kept are read, a block at a time, and read again to compare.

What a person should know about a pruned drafter.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.checkpoints.config import (
    ModelConfig,
    find,
    kind_by_config,
    kind_by_tensors,
    read_config,
)
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import Head, embedding, is_head_tensor, own_head, target_head
from vocabfreq.checkpoints.tensors import Ids
from vocabfreq.checkpoints.writing import (
    check_free,
    verify,
    write_drafter,
    write_token_map,
)
from vocabfreq.errors import FileFormatError, RefusedError
from vocabfreq.formats.reading import Chooser, choose
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import new_folder
from vocabfreq.tokenizer.fingerprint import check_tokenizers

NORM = "norm_before_residual"


def folder_remarks(
    config: ModelConfig, head: Head, masked: bool, left_out: list[str]
) -> Iterator[str]:
    """For a folder.

    Args:
        config: of the drafter.
        head: what was pruned.
        masked: whether the drafter has a t2d, which tells offsets from ids.
        left_out: files that were not copied.
    """
    if NORM not in config.raw and NORM not in config.inner:
        yield (
            f"config.json does not say {NORM}, and readers differ on what that means (vLLM takes "
            "true in a speculators folder and false elsewhere, speculators false): write what the "
            "drafter was trained with"
        )
    if head.old is not None and not masked and _unclear(head.old):
        yield (
            "d2t was taken for offsets; it could hold target ids as well, and no t2d tells: see "
            "which they are in what wrote them"
        )
    dtype = config.raw.get("dtype", config.raw.get("torch_dtype"))
    if dtype == "bfloat16" and head.weight.dtype not in ("BF16", "F16"):
        yield f"the head is {head.weight.dtype}, as in the {head.owner}; config.json says {dtype}"
    if left_out:
        yield f"not copied: {', '.join(left_out)}"


def _unclear(old: Ids) -> bool:
    """Whether the numbers of a d2t make sense as offsets and as target ids."""
    offsets = old - np.arange(len(old))
    return len(old) > 1 and bool((np.diff(offsets) > 0).all())


def map_remarks(config: ModelConfig, path: Path) -> Iterator[str]:
    """For a token map."""
    name = ", ".join(config.architectures) or "this drafter"
    yield (
        f"{name} shares the target's head, and its folder has no place for a map: "
        "servers that load folders would refuse it"
    )
    yield f"SGLang takes the map: --speculative-token-map {path}"
    yield "vLLM takes it through the vocabfreq plugin"


@dataclass(frozen=True, repr=False)
class Pruned:
    """What was written.

    Attributes:
        path: the folder, or the token map.
        vocab: the kept ids, of as many rows as the config says.
        source: where the rows came from; None for a token map.
        head_bytes: bytes of the source's head and of the new one; zeros for a token map.
        remarks: what a person should know.
    """

    path: Path
    vocab: DraftVocab
    source: str | None
    head_bytes: tuple[int, int]
    remarks: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`folder` or `token-map`."""
        return "token-map" if self.source is None else "folder"

    def __repr__(self) -> str:
        """Path, K, V and source."""
        origin = f" rows of {self.source}" if self.source else " ids, a token map"
        return f"Pruned({self.path}: {len(self.vocab):,} of {self.vocab.rows:,}{origin})"


def prune_drafter(
    drafter: str | Path,
    vocab: Chooser,
    out: str | Path,
    target: str | Path | None = None,
    *,
    force: bool = False,
    allow_other_tokenizer: bool = False,
    **wish: Any,
) -> Pruned:
    """Prunes a drafter folder to the rows of some target ids.

    Args:
        drafter: folder of an EAGLE-3 drafter with or without a head of its own, pruned before or
            not; for EAGLE-1, EAGLE-2 and MTP only a token map is written.
        vocab: the ids to keep, a table that selects them, or a file or Hub repo of either.
        out: the new folder; for a token map a folder or a file that ends in `.pt`.
        target: folder of the target; needed where the drafter has no head of its own.
        force: replace an output that is in the way, if it looks like one of ours.
        allow_other_tokenizer: take ids that were counted with another tokenizer.json than that of
            a folder, and say so in the remarks.
        **wish: what a table selects by, as in `FrequencyTable.select`: `size`, `coverage`, `pins` …

    Raises:
        FileFormatError: a folder lacks something, is broken, or has a head that rows cannot be
            taken from; names it.
        SelectionError: an id has no row; says how many.
        MismatchError: the tokenizer of a folder is not the one that counted.
        RefusedError: vocabulary, drafter and target have different numbers of rows.
        OverwriteError: something is in the way of `out`.
    """
    folders = [Path(folder) for folder in (drafter, target) if folder is not None]
    out = Path(out)
    check_free(out, folders, force)
    config = read_config(folders[0])
    chosen = choose(vocab, wish, config.size("vocab_size"))
    _check_rows(chosen, config, folders[1:])
    remarks = tuple(check_tokenizers(chosen.tokenizer, folders, allow_other_tokenizer))
    if kind_by_config(config) == "shared":
        return _token_map(config, chosen, out, force, remarks)
    with ExitStack() as stack:
        own = stack.enter_context(open_checkpoint(folders[0]))
        if kind_by_config(config) is None and kind_by_tensors(config, own.tensors) == "shared":
            return _token_map(config, chosen, out, force, remarks)
        head = _choose_head(own, config, chosen.rows, folders[1:], stack)
        return _folder(own, config, head, chosen, out, remarks)


def _check_rows(vocab: DraftVocab, config: ModelConfig, target: list[Path]) -> None:
    """V is one number: of the vocabulary, the drafter and the target."""
    said = config.size("vocab_size")
    if said not in (None, vocab.rows):
        raise RefusedError(
            f"the vocabulary is for V = {vocab.rows:,}, {config.path} says vocab_size {said:,}",
            expected="one number of rows",
            hint="take ids that were chosen for the target of this drafter",
        )
    for folder in target:
        theirs = read_config(folder)
        rows = theirs.size("vocab_size")
        if rows not in (None, vocab.rows):
            raise RefusedError(
                f"the drafter and the vocabulary are for V = {vocab.rows:,}, {theirs.path} says "
                f"vocab_size {rows:,}",
                expected="one number of rows",
                hint="give the target that the drafter was trained for",
            )


def _choose_head(
    own: Checkpoint, config: ModelConfig, rows: int, target: list[Path], stack: ExitStack
) -> Head:
    head = own_head(own.tensors, rows, config.size("draft_vocab_size"))
    if head is None and config.tied:
        head = embedding(own.tensors, "drafter")
    if head is None:
        head = _head_of(target, own, stack)
    hidden = config.size("hidden_size")
    if hidden is not None and head.weight.shape[1] != hidden:
        raise FileFormatError(
            f"the {head.owner}'s {head.weight} has rows of {head.weight.shape[1]}",
            expected=f"{hidden}, the hidden_size of the drafter",
        )
    return head


def _head_of(target: list[Path], own: Checkpoint, stack: ExitStack) -> Head:
    if not target:
        raise FileFormatError(
            f"{str(own.folder)!r} has no head of its own",
            expected="lm_head.weight in it, or the target's",
            hint="name the target's folder with --target (target=…)",
        )
    theirs = stack.enter_context(open_checkpoint(target[0], only=is_head_tensor))
    return target_head(theirs.tensors, read_config(target[0]).untied)


def _folder(
    own: Checkpoint,
    config: ModelConfig,
    head: Head,
    vocab: DraftVocab,
    out: Path,
    remarks: tuple[str, ...],
) -> Pruned:
    places = head.places(vocab, vocab.rows)
    with new_folder(out) as folder:
        left_out = write_drafter(folder, own, config, head, vocab, places)
        verify(folder, head, vocab, places)
    before, masked = head.weight.nbytes, find(own.tensors, "t2d") is not None
    return Pruned(
        out,
        vocab,
        f"the {head.owner}'s {head.weight.name}",
        (before, before // head.weight.shape[0] * len(vocab)),
        (*remarks, *folder_remarks(config, head, masked, left_out)),
    )


def _token_map(
    config: ModelConfig, vocab: DraftVocab, out: Path, force: bool, remarks: tuple[str, ...]
) -> Pruned:
    path = write_token_map(vocab, out, force)
    return Pruned(path, vocab, None, (0, 0), (*remarks, *map_remarks(config, path)))
