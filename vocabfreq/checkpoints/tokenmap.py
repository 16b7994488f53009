"""The token map, for drafters that share the target's head and have no place for a map."""

from pathlib import Path

from vocabfreq.checkpoints.output import new_folder
from vocabfreq.formats.torchfile import save_plain
from vocabfreq.vocab import DraftVocab


def write_token_map(vocab: DraftVocab, out: Path) -> Path:
    """Writes `freq_K.pt`, a plain list of target ids by rank.

    Args:
        vocab: the kept ids.
        out: a file that ends in `.pt`, or a folder to be made.

    Returns:
        The path of the file.
    """
    ids = vocab.ranked.tolist()
    if out.suffix == ".pt":
        save_plain(ids, out)
        return out
    name = f"freq_{len(vocab)}.pt"
    with new_folder(out) as folder:
        save_plain(ids, folder / name)
    return out / name
