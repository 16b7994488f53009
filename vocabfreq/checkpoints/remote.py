"""A model on the Hub: only the files that hold wanted tensors, fetched into the client's cache."""

from collections.abc import Callable
from pathlib import Path

from vocabfreq.checkpoints.config import CONFIG
from vocabfreq.checkpoints.folder import INDEX, SINGLE, read_index
from vocabfreq.checkpoints.head import is_head_tensor
from vocabfreq.errors import FileFormatError
from vocabfreq.storage.resolve import Folder, open_folder


def local_folder(model: str | Path, wanted: Callable[[str], bool] = is_head_tensor) -> Path:
    """A local folder with the config and the files that hold wanted tensors.

    Args:
        model: a folder, or `owner/name[@revision]` on the Hub. A `Path` is always local.
        wanted: which tensors are, by name.

    Raises:
        FileFormatError: there is no such folder or repo, or it has no safetensors files.
    """
    if isinstance(model, Path):
        return model
    folder = open_folder(model, FileFormatError)
    if folder.root is not None:
        return folder.root
    config = folder.file(CONFIG)
    if config is None:
        raise FileFormatError(f"{folder.name} has no {CONFIG}", expected="a model repo")
    for name in _weights(folder, wanted):
        if folder.file(name) is None:
            raise FileFormatError(
                f"{folder.name} at {folder.revision} has no {name!r}",
                expected=f"{SINGLE}, or {INDEX} and its files",
            )
    return config.parent


def _weights(folder: Folder, wanted: Callable[[str], bool]) -> list[str]:
    index = folder.file(INDEX)
    if index is None:
        return [SINGLE]
    return sorted({file for name, file in read_index(index).items() if wanted(name)})
