"""Reads a pruned folder back and compares it with what it was made from, bit for bit."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.drafter import MAPS, head_pieces
from vocabfreq.checkpoints.folder import open_checkpoint
from vocabfreq.checkpoints.headrows import Head
from vocabfreq.checkpoints.tensors import Ids, Tensor
from vocabfreq.checkpoints.writing import Piece
from vocabfreq.errors import FileFormatError
from vocabfreq.frequencies.draft_vocab import DraftVocab


def verify(folder: Path, head: Head, vocab: DraftVocab, places: Ids) -> None:
    """Compares.

    Args:
        folder: what was written.
        head: what the rows were taken from.
        vocab: the kept ids.
        places: int64 [K], the row of each.

    Raises:
        FileFormatError: something was not written as it should be; names it.
    """
    with open_checkpoint(folder) as written:
        for piece in head_pieces(head, places):
            _compare(written.tensors[piece.name], piece)
        maps = {name: written.tensors[name].array() for name in MAPS if name in written.tensors}
    if bool(maps) == vocab.is_identity or not all(_decodes(*m, vocab) for m in maps.items()):
        raise _differs(folder, "d2t and t2d")
    ids = places if head.old is None else head.old[places]
    if not np.array_equal(ids, vocab.target_ids):
        raise _differs(folder, "the ids of the rows")


def _decodes(name: str, array: npt.NDArray[Any], vocab: DraftVocab) -> bool:
    if name == "t2d":
        return DraftVocab.from_t2d(array).fingerprint == vocab.fingerprint
    again = DraftVocab.from_d2t(array, rows=vocab.rows, force=True)
    return np.array_equal(again.ranked, vocab.target_ids)


def _compare(tensor: Tensor, piece: Piece) -> None:
    same, place = (tensor.dtype, tensor.shape) == (piece.dtype, piece.shape), tensor.start
    buffer = bytearray()
    for block in piece.blocks() if same else ():
        buffer = buffer if len(buffer) == len(block) else bytearray(len(block))
        tensor.source.read_into(memoryview(buffer), place)
        same = same and _equal(buffer, block)
        place += len(block)
    if not same:
        raise _differs(piece.name, "its bytes")


def _equal(one: bytearray, other: memoryview) -> bool:
    """Eight bytes at a time where that goes up."""
    kind = np.uint8 if len(one) % 8 else np.uint64
    return np.array_equal(np.frombuffer(one, kind), np.frombuffer(other, kind))


def _differs(where: object, what: str) -> FileFormatError:
    return FileFormatError(
        f"{where}: {what} are not what was to be written",
        expected="the same bits",
        hint="nothing was kept; check the disk, and that nothing changed the source meanwhile",
    )
