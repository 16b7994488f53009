"""Prunes the head of a drafter: a folder that servers load, or the token map that they take.

    >>> prune_drafter("eagle3-llama3", table, "eagle3-llama3-32k", size=32_768)
    Pruned(eagle3-llama3-32k: 32,768 of 128,256 rows of the drafter's lm_head.weight)

Only the kept rows are read, a block at a time, and read again to compare.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.checkpoints.config import (
    NORM,
    ModelConfig,
    drafter_kind,
    drafter_kind_by_config,
    read_config,
)
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import (
    Head,
    embedding_head,
    is_head_tensor,
    read_drafter_head,
    read_target_head,
)
from vocabfreq.checkpoints.tensors import find_tensor
from vocabfreq.checkpoints.vocab_mapping import is_ambiguous
from vocabfreq.checkpoints.writing import (
    check_output,
    verify_drafter,
    write_drafter,
)
from vocabfreq.errors import FileFormatError, RefusedError
from vocabfreq.formats import write
from vocabfreq.formats.reading import VocabLike, load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import new_folder
from vocabfreq.tokenizer.fingerprint import check_tokenizers


@dataclass(frozen=True, repr=False)
class Pruned:
    """The result of `prune_drafter`.

    Attributes:
        path: the folder, or the token map.
        vocab: the kept ids, of as many rows as the config says.
        source: the tensor that the rows come from; None for a token map.
        head_bytes: bytes of the source's head and of the new one; zeros for a token map.
        remarks: sentences for the user.
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
    vocab: VocabLike,
    out: str | Path,
    target: str | Path | None = None,
    *,
    force: bool = False,
    allow_other_tokenizer: bool = False,
    **selection: Any,
) -> Pruned:
    """Prunes a drafter folder to the rows of some target ids.

    Args:
        drafter: folder of an EAGLE-3 drafter with or without a head of its own, pruned before or
            not; for EAGLE-1, EAGLE-2 and MTP only a token map is written.
        vocab: the ids to keep, a table that selects them, or a file or Hub repo of either.
        out: the new folder; for a token map a folder or a file that ends in `.pt`.
        target: folder of the target; needed where the drafter has no head of its own.
        force: replace an output that is in the way, if it looks like one of ours.
        allow_other_tokenizer: accept ids that were counted with another tokenizer.json than that
            of a folder, with a remark.
        **selection: arguments of `FrequencyTable.select` for a table: `size`, `coverage`, `pins` …

    Raises:
        FileFormatError: a folder lacks something, is broken, or has a head that cannot be sliced
            by rows; names it.
        SelectionError: an id has no row; says how many.
        MismatchError: the tokenizer of a folder is not the one that counted.
        RefusedError: vocabulary, drafter and target have different numbers of rows.
        OverwriteError: something is in the way of `out`.
    """
    folders = [Path(folder) for folder in (drafter, target) if folder is not None]
    out = Path(out)
    check_output(out, folders, force)
    config = read_config(folders[0])
    kept_vocab = load_vocab(vocab, selection, config.size("vocab_size"))
    _check_rows(kept_vocab, config, folders[1:])
    remarks = list(check_tokenizers(kept_vocab.tokenizer, folders, allow_other_tokenizer))
    if drafter_kind_by_config(config) == "shared":
        return _write_token_map(config, kept_vocab, out, force, remarks)
    with ExitStack() as stack:
        checkpoint = stack.enter_context(open_checkpoint(folders[0]))
        if drafter_kind(config, checkpoint.tensors) == "shared":
            return _write_token_map(config, kept_vocab, out, force, remarks)
        head = _find_head(checkpoint, config, kept_vocab.rows, folders[1:], stack)
        rows = head.row_indices(kept_vocab)
        with new_folder(out) as folder:
            not_copied = write_drafter(folder, checkpoint, config, head, kept_vocab, rows)
            verify_drafter(folder, head, kept_vocab, rows)
        remarks += _folder_remarks(checkpoint, config, head)
        if not_copied:
            remarks.append(f"not copied: {', '.join(not_copied)}")
        weight = head.weight
        sizes = weight.nbytes, weight.nbytes // weight.shape[0] * len(kept_vocab)
        return Pruned(out, kept_vocab, f"the {head.owner}'s {weight.name}", sizes, tuple(remarks))


def _check_rows(vocab: DraftVocab, config: ModelConfig, target: list[Path]) -> None:
    """V must be one number in the vocabulary, the drafter and the target."""
    others = "the vocabulary is"
    hint = "take ids that were chosen for the target of this drafter"
    for stated in (config, *map(read_config, target)):
        rows = stated.size("vocab_size")
        if rows not in (None, vocab.rows):
            raise RefusedError(
                f"{others} for V = {vocab.rows:,}, {stated.path} says vocab_size {rows:,}",
                expected="one number of rows",
                hint=hint,
            )
        others = "the drafter and the vocabulary are"
        hint = "give the target that the drafter was trained for"


def _find_head(
    checkpoint: Checkpoint, config: ModelConfig, rows: int, target: list[Path], stack: ExitStack
) -> Head:
    """The drafter's own head, its tied embedding, or the head of the target."""
    tensors = checkpoint.tensors
    head = read_drafter_head(tensors, rows, config.size("draft_vocab_size"))
    if head is None and config.tied:
        head = embedding_head(tensors, "drafter")
    if head is None:
        if not target:
            raise FileFormatError(
                f"{str(checkpoint.folder)!r} has no head of its own",
                expected="lm_head.weight in it, or the target's",
                hint="name the target's folder with --target (target=…)",
            )
        opened = stack.enter_context(open_checkpoint(target[0], only=is_head_tensor))
        head = read_target_head(opened.tensors, read_config(target[0]).untied)
    hidden = config.size("hidden_size")
    if hidden is not None and head.weight.shape[1] != hidden:
        raise FileFormatError(
            f"the {head.owner}'s {head.weight} has rows of {head.weight.shape[1]}",
            expected=f"{hidden}, the hidden_size of the drafter",
        )
    return head


def _folder_remarks(checkpoint: Checkpoint, config: ModelConfig, head: Head) -> Iterator[str]:
    if not config.states_norm:
        yield (
            f"config.json does not set {NORM}, and its default differs (vLLM: true in a "
            "speculators folder, else false; speculators: false): set it as the drafter was trained"
        )
    has_t2d = find_tensor(checkpoint.tensors, "t2d") is not None
    if head.target_ids is not None and not has_t2d and is_ambiguous(head.target_ids):
        yield (
            "d2t was taken for offsets; it could hold target ids as well, and there is no t2d to "
            "decide: look up in the tool that wrote it which they are"
        )
    dtype = config.raw.get("dtype", config.raw.get("torch_dtype"))
    if dtype == "bfloat16" and head.weight.dtype not in ("BF16", "F16"):
        yield f"the head is {head.weight.dtype}, as in the {head.owner}; config.json says {dtype}"


def _write_token_map(
    config: ModelConfig, vocab: DraftVocab, out: Path, force: bool, remarks: list[str]
) -> Pruned:
    """Writes `freq_K.pt` for a drafter that shares the target's head, as `out` or into it."""
    path = out
    if out.suffix == ".pt":
        write(vocab, out, "token-map", force=force)
    else:
        path = out / f"freq_{len(vocab)}.pt"
        with new_folder(out) as folder:
            write(vocab, folder / path.name, "token-map")
    name = ", ".join(config.architectures) or "this drafter"
    remarks += [
        f"{name} shares the target's head, and its folder has no place for a map: "
        "servers that load folders would refuse it",
        f"SGLang takes the map: --speculative-token-map {path}",
        "vLLM takes it through the vocabfreq plugin",
    ]
    return Pruned(path, vocab, None, (0, 0), tuple(remarks))
