"""An output folder that appears whole or not at all, and what may be in its way."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vocabfreq.checkpoints.config import CONFIG, read_config
from vocabfreq.errors import FileFormatError, OverwriteError, VocabfreqError

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
            raise _file_in_the_way(out)
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


def _file_in_the_way(out: Path) -> OverwriteError:
    return OverwriteError(
        f"{out} is a file", expected="a folder to be made", hint="choose another name"
    )


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


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`, which becomes `out` if all goes well.

    Raises:
        VocabfreqError: the disk is full, say.
        OverwriteError: a file is in the way.
    """
    if out.exists() and not out.is_dir():
        raise _file_in_the_way(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}.", suffix=".tmp"))
    try:
        temporary.chmod(0o777 & ~_umask())
        yield temporary
        _replace(temporary, out)
    except OSError as error:
        raise VocabfreqError(f"making {out} failed: {error}", hint="nothing was kept") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace(new: Path, out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        new.replace(out)
        return
    old = new.with_name(new.name + ".old")
    out.rename(old)
    try:
        new.rename(out)
    except BaseException:
        old.rename(out)
        raise
    shutil.rmtree(old)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
