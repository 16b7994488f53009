"""The token map, for drafters that share the target's head and have no place for a map."""

from pathlib import Path

from vocabfreq.checkpoints.output import new_folder
from vocabfreq.formats.writing import write
from vocabfreq.frequencies.draft_vocab import DraftVocab


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
