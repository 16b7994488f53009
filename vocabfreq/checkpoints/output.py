"""An output folder that appears whole or not at all, and what may be in its way."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from vocabfreq.checkpoints.config import CONFIG
from vocabfreq.errors import OverwriteError, VocabfreqError

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
    if not force:
        raise OverwriteError(f"{out} is in the way", hint="--force (force=True) replaces it")
    if out.is_dir() and not _is_replaceable(out):
        raise OverwriteError(
            f"{out} is a folder without config.json or freq_K.pt",
            expected="a model folder to replace",
            hint="remove it by hand if nothing in it is needed",
        )


def _is_replaceable(folder: Path) -> bool:
    return (folder / CONFIG).is_file() or any(folder.glob("freq_*.pt"))


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder beside `out`, which becomes `out` if all goes well.

    Raises:
        VocabfreqError: the disk is full, say.
    """
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
    shutil.rmtree(old) if old.is_dir() else old.unlink()


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
