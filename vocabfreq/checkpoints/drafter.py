"""Writes the folder of a pruned drafter."""

import json
from pathlib import Path

from vocabfreq.checkpoints.config import CONFIG, ModelConfig
from vocabfreq.checkpoints.folder import SINGLE, Checkpoint
from vocabfreq.checkpoints.headrows import HEAD, Head
from vocabfreq.checkpoints.output import copy_small_files
from vocabfreq.checkpoints.tensors import Ids
from vocabfreq.checkpoints.writing import Piece, copied, numbers, picked, write_safetensors
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import write_atomically

MAPS = ("d2t", "t2d")


def write_drafter(
    folder: Path, own: Checkpoint, config: ModelConfig, head: Head, vocab: DraftVocab, places: Ids
) -> list[str]:
    """Writes weights, config.json and the small files.

    Args:
        folder: where to.
        own: the drafter.
        config: of the drafter.
        head: what the rows are taken from.
        vocab: the kept ids.
        places: int64 [K], the row of each.

    Returns:
        The names of files of the drafter that were left out.
    """
    left_out = copy_small_files(own.folder, folder)
    pieces = [*_others(own, head), *head_pieces(head, places), *_maps(vocab)]
    write_safetensors(folder / SINGLE, pieces, {"format": "pt", **own.metadata})
    text = json.dumps(config.pruned(vocab.rows, len(vocab)), indent=2, ensure_ascii=False)
    write_atomically(folder / CONFIG, f"{text}\n".encode())
    return left_out


def head_pieces(head: Head, places: Ids) -> list[Piece]:
    """The tensors of the new head, under the names that servers look for."""
    prefix = HEAD.removesuffix("weight")
    return [
        picked(HEAD, head.weight, places),
        *(picked(prefix + suffix, tensor, places) for suffix, tensor in head.beside.items()),
        *(copied(prefix + suffix, tensor) for suffix, tensor in head.scalars.items()),
    ]


def _maps(vocab: DraftVocab) -> list[Piece]:
    """None where every id is kept: vLLM has no place for a map then, and refuses it."""
    if vocab.is_identity:
        return []
    return [numbers("d2t", vocab.d2t), numbers("t2d", vocab.t2d)]


def _others(own: Checkpoint, head: Head) -> list[Piece]:
    """Everything that is neither head nor map."""
    dropped = head.names if head.owner == "drafter" else frozenset()
    return [
        copied(name, tensor)
        for name, tensor in own.tensors.items()
        if name not in dropped and name.rpartition(".")[2] not in MAPS
    ]
