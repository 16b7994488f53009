"""Writes a safetensors file piece by piece, without ever holding a whole tensor.

An output folder that appears whole or not at all, and what may be in its way.

Writes the folder of a pruned drafter.

The token map, for drafters that share the target's head and have no place for a map.

Reads a pruned folder back and compares it with what it was made from, bit for bit.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.config import CONFIG, ModelConfig, read_config
from vocabfreq.checkpoints.folder import SINGLE, Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import HEAD, Head
from vocabfreq.checkpoints.tensors import BITS, Blocks, Ids, Tensor, encode_header, size_in_bytes
from vocabfreq.errors import FileFormatError, OverwriteError
from vocabfreq.formats.writing import write
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import (
    check_no_file,
    new_folder,
    open_atomically,
    write_atomically,
)


@dataclass(frozen=True)
class Piece:
    """A tensor to be written.

    Attributes:
        name: in the new file.
        dtype: as safetensors writes it.
        shape: its dimensions.
        blocks: gives its bytes.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    blocks: Blocks


def copied(name: str, tensor: Tensor) -> Piece:
    """A tensor as it is."""
    return Piece(name, tensor.dtype, tensor.shape, tensor.blocks)


def picked(name: str, tensor: Tensor, places: Ids) -> Piece:
    """Some rows of a tensor."""
    shape = (len(places), *tensor.shape[1:])
    return Piece(name, tensor.dtype, shape, lambda: tensor.rows(places))


def numbers(name: str, array: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Piece:
    """A small array of int64 or bool."""
    dtype = "BOOL" if array.dtype == np.bool_ else "I64"
    data = np.ascontiguousarray(array, "?" if dtype == "BOOL" else "<i8")

    def blocks() -> Iterator[memoryview]:
        yield data.view(np.uint8).data

    return Piece(name, dtype, array.shape, blocks)


def write_safetensors(path: Path, pieces: Sequence[Piece], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file, whole or not at all.

    The order is that of the safetensors library: wide dtypes first, which keeps all aligned, then
    by name. Equal pieces give equal bytes.

    Raises:
        FileFormatError: a piece gave another number of bytes than its shape says.
    """
    ordered = sorted(pieces, key=lambda piece: (-BITS[piece.dtype], piece.name))
    entries = {piece.name: (piece.dtype, piece.shape) for piece in ordered}
    with open_atomically(path) as file:
        file.write(encode_header(entries, metadata))
        for piece in ordered:
            _write_piece(file, piece)


def _write_piece(file: BinaryIO, piece: Piece) -> None:
    written = sum(file.write(block) for block in piece.blocks())
    if written != size_in_bytes(piece.dtype, piece.shape):
        raise FileFormatError(
            f"{piece.name} gave {written:,} bytes", expected=f"{piece.dtype} {list(piece.shape)}"
        )


WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx", ".npz")
MAX_SMALL = 64 << 20


def check_free(out: Path, sources: list[Path], force: bool) -> None:
    """Refuses an output that is in the way of something.

    Args:
        out: where the output shall be.
        sources: folders that are read.
        force: replace a model folder or a file that is there.

    Raises:
        OverwriteError: something is there, or it would replace what is read.
    """
    whole = out.resolve()
    for source in (*(folder.resolve() for folder in sources), Path.cwd(), Path.home()):
        if whole == source or whole in source.parents:
            raise OverwriteError(f"{out} is or holds {source}", expected="an output of its own")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        if out.suffix != ".pt":  # may become a token map, whose writer looks at it
            check_no_file(out)
        return
    if not is_replaceable(out):
        raise OverwriteError(
            f"{out} is in the way, and is no folder that prune wrote",
            expected=f"a folder of {CONFIG} with draft_vocab_size and model.safetensors, or of "
            "freq_K.pt alone, without folders in it",
            hint="choose another name, or remove it by hand if nothing in it is needed",
        )
    if not force:
        raise OverwriteError(f"{out} is in the way", hint="--force (force=True) replaces it")


def is_replaceable(folder: Path) -> bool:
    """Whether it looks like what prune writes: a pruned drafter, or a token map alone."""
    inside = list(folder.iterdir())
    if folder.is_symlink() or any(path.is_symlink() or path.is_dir() for path in inside):
        return False
    if all(path.match("freq_*.pt") for path in inside):
        return True
    try:
        config = read_config(folder).raw
    except FileFormatError:
        return False
    return "draft_vocab_size" in config and (folder / "model.safetensors").is_file()


def copy_small_files(source: Path, target: Path) -> list[str]:
    """Copies what is no weights and no index: tokenizer, generation config, licence, card.

    Returns:
        The names of what was left out: folders, other weights, large files.
    """
    left_out = []
    for path in sorted(source.iterdir()):
        if path.name.startswith(".") or path.name == CONFIG or path.name.endswith(".index.json"):
            continue
        if not path.is_file() or path.suffix in WEIGHTS or path.stat().st_size > MAX_SMALL:
            left_out.append(path.name)
            continue
        shutil.copyfile(path, target / path.name)
    return [name for name in left_out if not name.endswith((".safetensors", "pytorch_model.bin"))]


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


def write_token_map(vocab: DraftVocab, out: Path, force: bool = False) -> Path:
    """Writes `freq_K.pt`, a plain list of target ids by rank, and reads it back.

    Args:
        vocab: the kept ids.
        out: a file that ends in `.pt`, or a folder to be made.
        force: replace a file of another kind.

    Returns:
        The path of the file.

    Raises:
        OverwriteError: something else is in the way.
        FileFormatError: the name says another number of ids.
    """
    if out.suffix == ".pt":
        write(vocab, out, "token-map", force=force)
        return out
    name = f"freq_{len(vocab)}.pt"
    with new_folder(out) as folder:
        write(vocab, folder / name, "token-map")
    return out / name


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
