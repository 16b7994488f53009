"""What is wrong with a drafter folder, and what each engine would make of it.

>>> for finding in check_drafter("eagle3-llama3-32k"):
...     print(finding.level, finding.what)
error tie_word_embeddings is true beside a pruned head
"""

from collections.abc import Iterator
from pathlib import Path

from vocabfreq.checkpoints.config import ModelConfig, read_config
from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.headrows import Head, is_head_name, plain_head
from vocabfreq.checkpoints.kinds import Kind, find, kind_by_config, kind_by_tensors
from vocabfreq.checkpoints.mapchecks import check_d2t, check_t2d
from vocabfreq.checkpoints.sizechecks import check_sizes, check_words, draft_size
from vocabfreq.checkpoints.targetchecks import check_target
from vocabfreq.errors import FileFormatError, SourceError
from vocabfreq.storage.resolve import looks_like_repo

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
