"""Writes the folder of a pruned drafter, whole or not at all, and reads it back to compare.

Tensors are written piece by piece, so that none is ever in memory in full. `check_output` decides
which files and folders an output may replace.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vocabfreq.checkpoints.config import CONFIG, ModelConfig, read_config
from vocabfreq.checkpoints.folder import Checkpoint, open_checkpoint
from vocabfreq.checkpoints.head import HEAD, Head
from vocabfreq.checkpoints.tensors import Blocks, RowIndices, Tensor
from vocabfreq.checkpoints.vocab_mapping import MAPPING_NAMES
from vocabfreq.errors import FileFormatError, OverwriteError
from vocabfreq.formats.safetensors_file import BITS, SINGLE, encode_header, size_in_bytes
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import check_no_file, open_atomically, write_atomically

WEIGHT_SUFFIXES = (
    ".safetensors",
    ".bin",
    ".pt",
    ".pth",
    ".gguf",
    ".h5",
    ".msgpack",
    ".onnx",
    ".npz",
)
MAX_SMALL = 64 << 20


def check_output(out: Path, sources: list[Path], force: bool) -> None:
    """Refuses an output path that would replace a source or somebody else's files.

    Args:
        out: path of the output.
        sources: folders that are read.
        force: replace a model folder or a file that is there.

    Raises:
        OverwriteError: something is there, or it would replace what is read.
    """
    resolved = out.resolve()
    for source in (*(folder.resolve() for folder in sources), Path.cwd(), Path.home()):
        if resolved == source or resolved in source.parents:
            raise OverwriteError(f"{out} is or holds {source}", expected="an output of its own")
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not out.is_dir():
        if out.suffix != ".pt":  # may become a token map, whose writer looks at it
            check_no_file(out)
        return
    if not _is_replaceable(out):
        raise OverwriteError(
            f"{out} is in the way, and is no folder that prune wrote",
            expected=f"a folder of {CONFIG} with draft_vocab_size and {SINGLE}, or of "
            "freq_K.pt alone, without folders in it",
            hint="choose another name, or remove it by hand if nothing in it is needed",
        )
    if not force:
        raise OverwriteError(f"{out} is in the way", hint="--force (force=True) replaces it")


def _is_replaceable(folder: Path) -> bool:
    """Whether a folder looks like an output of prune: a drafter, or token maps alone."""
    paths = list(folder.iterdir())
    if folder.is_symlink() or any(path.is_symlink() or path.is_dir() for path in paths):
        return False
    if all(path.match("freq_*.pt") for path in paths):
        return True
    try:
        config = read_config(folder).raw
    except FileFormatError:
        return False
    return "draft_vocab_size" in config and (folder / SINGLE).is_file()


def write_drafter(
    folder: Path,
    drafter: Checkpoint,
    config: ModelConfig,
    head: Head,
    vocab: DraftVocab,
    rows: RowIndices,
) -> list[str]:
    """Writes weights, config.json, and copies of tokenizer, generation config, licence, card.

    Args:
        folder: an empty folder.
        drafter: the tensors that are copied, all but head, d2t and t2d.
        config: of the drafter.
        head: the head to prune.
        vocab: the kept ids.
        rows: int64 [K], the row of each in the head.

    Returns:
        The names of files of the drafter that were not copied.
    """
    not_copied = _copy_small_files(drafter.folder, folder)
    dropped = head.names if head.owner == "drafter" else frozenset()
    pieces = [
        copy_tensor(name, tensor)
        for name, tensor in drafter.tensors.items()
        if name not in dropped and name.rpartition(".")[2] not in MAPPING_NAMES
    ]
    pieces += _head_pieces(head, rows)
    if not vocab.is_identity:  # vLLM has no place for a map where every id is kept, and refuses it
        pieces += [array_piece("d2t", vocab.d2t), array_piece("t2d", vocab.t2d)]
    write_safetensors(folder / SINGLE, pieces, {"format": "pt", **drafter.metadata})
    text = json.dumps(config.pruned(vocab.rows, len(vocab)), indent=2, ensure_ascii=False)
    write_atomically(folder / CONFIG, f"{text}\n".encode())
    return not_copied


def _copy_small_files(source: Path, target: Path) -> list[str]:
    """Copies files that are no weights, no index and no config.

    Returns:
        The names of other things in the folder: folders, other weights, large files.
    """
    not_copied = []
    for path in sorted(source.iterdir()):
        if path.name.startswith(".") or path.name == CONFIG or path.name.endswith(".index.json"):
            continue
        is_file = path.is_file()
        if is_file and path.suffix not in WEIGHT_SUFFIXES and path.stat().st_size <= MAX_SMALL:
            shutil.copyfile(path, target / path.name)
        elif not path.name.endswith((".safetensors", "pytorch_model.bin")):
            not_copied.append(path.name)
    return not_copied


def verify_drafter(folder: Path, head: Head, vocab: DraftVocab, rows: RowIndices) -> None:
    """Reads a pruned folder back and compares head, d2t and t2d with their sources, bit for bit.

    Args:
        folder: what `write_drafter` wrote.
        head: the head that was pruned.
        vocab: the kept ids.
        rows: int64 [K], the row of each in the head.

    Raises:
        FileFormatError: something differs; names it.
    """
    with open_checkpoint(folder) as written:
        for piece in _head_pieces(head, rows):
            if not _is_equal(written.tensors[piece.name], piece):
                raise _differs(piece.name, "its bytes")
        arrays = {n: written.tensors[n].array() for n in MAPPING_NAMES if n in written.tensors}
    if bool(arrays) == vocab.is_identity or not all(
        _decodes(name, array, vocab) for name, array in arrays.items()
    ):
        raise _differs(folder, "d2t and t2d")
    ids = rows if head.target_ids is None else head.target_ids[rows]
    if not np.array_equal(ids, vocab.target_ids):
        raise _differs(folder, "the ids of the rows")


def _decodes(name: str, array: npt.NDArray[Any], vocab: DraftVocab) -> bool:
    """Whether d2t or t2d decodes to the kept ids, ascending."""
    if name == "t2d":
        return DraftVocab.from_t2d(array).fingerprint == vocab.fingerprint
    decoded = DraftVocab.from_d2t(array, rows=vocab.rows, force=True)
    return np.array_equal(decoded.ranked, vocab.target_ids)


def _is_equal(tensor: Tensor, piece: "Piece") -> bool:
    """Whether a written tensor has the dtype, shape and bytes of a piece."""
    if (tensor.dtype, tensor.shape) != (piece.dtype, piece.shape):
        return False
    offset, buffer = tensor.start, bytearray()
    for block in piece.blocks():
        buffer = buffer if len(buffer) == len(block) else bytearray(len(block))
        tensor.source.read_into(memoryview(buffer), offset)
        dtype = np.uint8 if len(buffer) % 8 else np.uint64  # eight bytes at a time if possible
        if not np.array_equal(np.frombuffer(buffer, dtype), np.frombuffer(block, dtype)):
            return False
        offset += len(block)
    return True


def _differs(subject: object, part: str) -> FileFormatError:
    return FileFormatError(
        f"{subject}: {part} are not what was to be written",
        expected="the same bits",
        hint="nothing was kept; check the disk, and that nothing changed the source meanwhile",
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


def copy_tensor(name: str, tensor: Tensor) -> Piece:
    """A tensor as it is."""
    return Piece(name, tensor.dtype, tensor.shape, tensor.blocks)


def slice_rows(name: str, tensor: Tensor, rows: RowIndices) -> Piece:
    """Some rows of a tensor, in the given order."""
    shape = (len(rows), *tensor.shape[1:])
    return Piece(name, tensor.dtype, shape, lambda: tensor.rows(rows))


def array_piece(name: str, array: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Piece:
    """A small array of int64 or bool."""
    dtype = "BOOL" if array.dtype == np.bool_ else "I64"
    data = np.ascontiguousarray(array, "?" if dtype == "BOOL" else "<i8")
    return Piece(name, dtype, array.shape, lambda: iter([data.view(np.uint8).data]))


def _head_pieces(head: Head, rows: RowIndices) -> list[Piece]:
    """The tensors of the new head, under the names that servers look for."""
    prefix = HEAD.removesuffix("weight")
    return [
        slice_rows(HEAD, head.weight, rows),
        *(slice_rows(prefix + suffix, tensor, rows) for suffix, tensor in head.per_row.items()),
        *(copy_tensor(prefix + suffix, tensor) for suffix, tensor in head.scalars.items()),
    ]


def write_safetensors(path: Path, pieces: Sequence[Piece], metadata: Mapping[str, str]) -> None:
    """Writes a safetensors file, whole or not at all.

    The order is that of the safetensors library: wide dtypes first, which keeps all aligned, then
    by name. Equal pieces give equal bytes.

    Raises:
        FileFormatError: a piece gave another number of bytes than its shape needs.
    """
    ordered = sorted(pieces, key=lambda piece: (-BITS[piece.dtype], piece.name))
    entries = {piece.name: (piece.dtype, piece.shape) for piece in ordered}
    with open_atomically(path) as file:
        file.write(encode_header(entries, metadata))
        for piece in ordered:
            written = sum(file.write(block) for block in piece.blocks())
            if written != size_in_bytes(piece.dtype, piece.shape):
                raise FileFormatError(
                    f"{piece.name} gave {written:,} bytes",
                    expected=f"{piece.dtype} {list(piece.shape)}",
                )
