"""`check_drafter`: problems of a drafter folder, and what each engine does with them.

>>> for finding in check_drafter("eagle3-llama3-32k"):
...     print(finding.level, finding.problem)
error tie_word_embeddings is true beside a pruned head

Only headers, config.json, d2t and t2d are read, no weights. `findings` has the kinds of findings,
`vocab_mapping` the checks of d2t and t2d; here are those of sizes, settings and the target.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from vocabfreq.checkpoints.config import (
    NORM,
    ModelConfig,
    download_hint,
    drafter_kind,
    read_config,
)
from vocabfreq.checkpoints.findings import Finding, make_finding
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import (
    HEAD,
    Head,
    is_head_name,
    is_head_tensor,
    read_head,
    read_target_head,
)
from vocabfreq.checkpoints.tensors import Tensor, find_tensor
from vocabfreq.checkpoints.vocab_mapping import check_mapping, is_d2t
from vocabfreq.errors import FileFormatError, SourceError
from vocabfreq.tokenizer.fingerprint import TOKENIZER, tokenizer_sha256

SIZES = ("vocab_size", "draft_vocab_size", "hidden_size", "target_hidden_size")


def check_drafter(drafter: str | Path, target: str | Path | None = None) -> list[Finding]:
    """Checks a drafter folder without loading it.

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
            raise SourceError(f"no folder {str(folder)!r}", hint=download_hint(str(folder)))
    found = list(_check_folder(Path(drafter), None if target is None else Path(target)))
    return sorted(found, key=lambda finding: finding.level != "error")


def _check_folder(drafter: Path, target: Path | None) -> Iterator[Finding]:
    try:
        config = read_config(drafter)
        for name in SIZES:
            config.size(name)
    except FileFormatError as error:
        yield make_finding("config-broken", error.wrong)
        return
    try:
        checkpoint = open_checkpoint(drafter)
    except FileFormatError as error:
        yield make_finding("weights-broken", error.wrong)
        return
    with checkpoint:
        yield from _check_checkpoint(config, checkpoint, target)


def _check_checkpoint(
    config: ModelConfig, checkpoint: Checkpoint, target: Path | None
) -> Iterator[Finding]:
    try:
        kind = drafter_kind(config, checkpoint.tensors)
    except FileFormatError as error:
        yield make_finding("not-a-drafter", error.wrong)
        return
    try:
        head = read_head(checkpoint.tensors, "drafter")
        if kind == "eagle3":
            yield from _check_eagle3(config, checkpoint.tensors, head)
        elif find_tensor(checkpoint.tensors, "d2t"):
            names = ", ".join(config.architectures)
            yield make_finding(
                "map-not-taken", f"there is a d2t, but {names} has no place for a map"
            )
    except FileFormatError as error:
        yield make_finding("head-broken", error.wrong)
    if target is not None:
        has_head = any(map(is_head_name, checkpoint.tensors))
        yield from _check_target(config, target, has_head)


def _check_eagle3(
    config: ModelConfig, tensors: Mapping[str, Tensor], head: Head | None
) -> Iterator[Finding]:
    rows, size = config.size("vocab_size"), _draft_size(config, tensors)
    is_pruned = rows is not None and size is not None and size < rows
    yield from _check_sizes(config, tensors, head)
    if config.tied and is_pruned:
        yield make_finding("tied", "tie_word_embeddings is true beside a pruned head")
    if not config.states_norm:
        yield make_finding("norm-missing", f"config.json does not set {NORM}")
    if rows is not None and size is not None:
        d2t, t2d = (find_tensor(tensors, name) for name in ("d2t", "t2d"))
        yield from check_mapping(d2t, t2d, rows, size)
    if head is None and is_pruned:
        yield make_finding("head-missing", f"there is no {HEAD} for K = {size:,}, V = {rows:,}")
    elif head is None and config.size("draft_vocab_size") and not config.tied:
        yield make_finding("head-shared", f"there is no {HEAD}, but a draft_vocab_size")


def _draft_size(config: ModelConfig, tensors: Mapping[str, Tensor]) -> int | None:
    """K by config.json, or else by d2t, or else by the head."""
    size = config.size("draft_vocab_size")
    if size is not None:
        return size
    d2t, weight = (find_tensor(tensors, name) for name in ("d2t", HEAD))
    if d2t is not None and is_d2t(d2t):
        return d2t.shape[0]
    return weight.shape[0] if weight is not None and weight.shape else None


def _check_sizes(
    config: ModelConfig, tensors: Mapping[str, Tensor], head: Head | None
) -> Iterator[Finding]:
    """Compares the sizes in config.json with the shapes of the tensors."""
    rows, size, hidden = map(config.size, ("vocab_size", "draft_vocab_size", "hidden_size"))
    weight, embedding, fusion = (
        find_tensor(tensors, name) for name in (HEAD, "embed_tokens.weight", "fc.weight")
    )
    if rows is None:
        yield make_finding("size-missing", "config.json has no vocab_size")
    elif size is None and weight is not None and weight.shape[:1] < (rows,):
        yield make_finding(
            "size-missing", "config.json has no draft_vocab_size beside a pruned head"
        )
    if rows and size and size > rows:
        yield make_finding("sizes", f"draft_vocab_size {size:,} is more than vocab_size {rows:,}")
    if head is not None:
        yield from _check_shape(
            head.weight, (size or rows, hidden), "draft_vocab_size, hidden_size"
        )
    if embedding is not None:
        yield from _check_shape(embedding, (rows, None), "vocab_size")
    if fusion is not None:
        yield from _check_shape(fusion, (hidden, None), "hidden_size")
        width = config.size("target_hidden_size") or hidden
        if width and len(fusion.shape) == 2 and fusion.shape[1] % width:
            yield make_finding(
                "sizes",
                f"{fusion} takes {fusion.shape[1]:,} values, no multiple of the target's "
                f"{width:,} (target_hidden_size, or else hidden_size)",
            )


def _check_shape(tensor: Tensor, expected: tuple[int | None, ...], names: str) -> Iterator[Finding]:
    """Compares a shape with sizes of config.json; None stands for any."""
    if len(tensor.shape) != len(expected) or any(
        size not in (None, found) for found, size in zip(tensor.shape, expected, strict=True)
    ):
        sizes = ", ".join("…" if size is None else str(size) for size in expected)
        yield make_finding("sizes", f"{tensor}, but config.json says [{sizes}] ({names})")


def _check_target(config: ModelConfig, target: Path, has_head: bool) -> Iterator[Finding]:
    """Compares a drafter with its target: width, rows, the head it shares, the tokenizer."""
    try:
        target_config = read_config(target)
        hidden, rows = map(target_config.size, ("hidden_size", "vocab_size"))
    except FileFormatError as error:
        yield make_finding("target-broken", f"the target: {error.wrong}")
        return
    expected = config.size("target_hidden_size") or config.size("hidden_size")
    if hidden and expected and hidden != expected:
        yield make_finding(
            "target-width",
            f"the target's hidden_size is {hidden:,}, the drafter was made for {expected:,}",
        )
    own_rows = config.size("vocab_size")
    if rows and own_rows and rows != own_rows:
        yield make_finding(
            "target-rows" if own_rows > rows else "target-rows-more",
            f"the target's vocab_size is {rows:,}, the drafter says {own_rows:,}",
        )
    if not has_head:
        yield from _check_shared_head(config, target, target_config)
    yield from _check_tokenizers(config.path.parent, target)


def _check_shared_head(
    config: ModelConfig, target: Path, target_config: ModelConfig
) -> Iterator[Finding]:
    hidden = config.size("hidden_size")
    try:
        with open_checkpoint(target, only=is_head_tensor) as checkpoint:
            weight = read_target_head(checkpoint.tensors, target_config.untied).weight
    except FileFormatError as error:
        yield make_finding("target-broken", f"the target: {error.wrong}")
        return
    if hidden and weight.shape[1] != hidden:
        yield make_finding(
            "target-width", f"the target's {weight} cannot serve a drafter of width {hidden:,}"
        )


def _check_tokenizers(drafter: Path, target: Path) -> Iterator[Finding]:
    own, other = tokenizer_sha256(drafter), tokenizer_sha256(target)
    if own is None or other is None or own == other:
        return
    hashes = f"sha256 {own} of the drafter, {other} of the target"
    differing = _count_differing_tokens(drafter / TOKENIZER, target / TOKENIZER)
    if differing is None:
        yield make_finding("tokenizer", f"{TOKENIZER} cannot be read; {hashes}")
    elif differing:
        yield make_finding("tokenizer", f"{differing:,} tokens have other ids; {hashes}")
    else:
        yield make_finding("tokenizer-file", f"{TOKENIZER} differs, its ids do not; {hashes}")


def _count_differing_tokens(first: Path, second: Path) -> int | None:
    """How many (token, id) pairs only one of two tokenizers has; None if one cannot be read."""
    from tokenizers import Tokenizer

    try:
        vocabs = [Tokenizer.from_file(str(path)).get_vocab(True) for path in (first, second)]
    except Exception:  # the library has one kind of error for everything
        return None
    return len(set(vocabs[0].items()) ^ set(vocabs[1].items()))
