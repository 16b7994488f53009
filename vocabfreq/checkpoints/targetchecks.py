"""Checks of a drafter against its target."""

from collections.abc import Iterator
from pathlib import Path

from vocabfreq.checkpoints.config import ModelConfig, read_config
from vocabfreq.checkpoints.findings import Finding, finding
from vocabfreq.checkpoints.folder import open_checkpoint
from vocabfreq.checkpoints.head import target_head
from vocabfreq.checkpoints.headrows import is_head_tensor
from vocabfreq.errors import FileFormatError
from vocabfreq.tokenizer.fingerprint import TOKENIZER, tokenizer_sha256


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
