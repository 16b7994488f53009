"""`.pt` files: plain values written and read without torch, the rest by torch, never trusted.

`torch.save` of a list or dict of integers is a zip archive with one pickle. Writing that takes no
torch, and the bytes depend on the value alone. Reading one takes none either, and no unpickler: the
dozen instructions that make integers, lists and dicts are followed here, any other is refused.
Everything else goes through `torch.load` with `weights_only=True` passed, since an environment
variable can switch that default off.
"""

import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

from vocabfreq.errors import FileFormatError, require
from vocabfreq.storage.atomic import write_atomically

MAX_BYTES = 256 << 20  # of a list, a mapping or a vector; V = 262,144 int64 are 2 MB
MAX_PICKLE = 20 << 20  # of what is not tensors; 262,144 ids with counts are 3 MB
_EPOCH = (1980, 1, 1, 0, 0, 0)
_TAKES = {"APPEND": 1, "SETITEM": 2}
_NUMBERS = {"BININT", "BININT1", "BININT2", "LONG1"}
_IGNORED = {"PROTO", "FRAME", "BINPUT", "LONG_BINPUT", "MEMOIZE"}  # what is kept is never recalled


def save_plain(value: list[int] | dict[int, int], path: Path) -> None:
    """Writes plain integers as `torch.save` does; equal values give equal bytes."""
    records = {
        "data.pkl": pickle.dumps(value, protocol=2),
        "byteorder": b"little",
        "version": b"3\n",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", _EPOCH), data)
    write_atomically(path, buffer.getvalue())


def save_tensors(value: Any, path: Path) -> None:
    """Writes tensors, or a dict of tensors and integers, by `torch.save`.

    Raises:
        MissingExtraError: torch is not installed.
    """
    torch = require("torch", "runtime")
    buffer = io.BytesIO()
    torch.save(value, buffer)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> Any:
    """Reads a `.pt` file of plain values and tensors; nothing in it is executed.

    Raises:
        FileFormatError: it is too large for what it should be, holds other objects, or is broken.
        MissingExtraError: it holds more than plain integers, and torch is not installed.
    """
    check_size(path)
    plain = _plain(path)
    return _by_torch(path) if plain is None else plain


def check_size(path: Path) -> None:
    """Refuses a file that is too large for what it should be.

    Raises:
        FileFormatError: naming the size.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise FileFormatError(
            f"{path.name} has {size:,} bytes",
            expected=f"a list, a mapping or a vector, of at most {MAX_BYTES:,} bytes",
        )


def _plain(path: Path) -> Any:
    """The value of an archive of plain integers, None if it is anything else."""
    try:
        return _followed(_pickle_in(path))
    except FileFormatError:
        raise
    except Exception as error:  # zipfile and pickletools raise many kinds
        with path.open("rb") as file:
            packed = file.read(4) == b"PK\x03\x04"  # what torch takes for an archive
        if packed and isinstance(error, zipfile.BadZipFile):
            raise FileFormatError(f"{path.name} is a broken archive: {error}") from None
        return None  # torch says what is wrong with it


def _pickle_in(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        packed = [i.filename for i in archive.infolist() if i.compress_type != zipfile.ZIP_STORED]
        unpacked = sum(info.file_size for info in archive.infolist())
        pickled = max(
            (i.file_size for i in archive.infolist() if _is_pickle(i.filename)), default=0
        )
        if unpacked > MAX_BYTES:
            raise FileFormatError(
                f"{path.name} unpacks to {unpacked:,} bytes",
                expected=f"at most {MAX_BYTES:,} bytes",
            )
        if packed:  # a few bytes can become millions
            raise FileFormatError(
                f"{path.name} is compressed ({packed[0][:80]!r})",
                expected="a file as torch.save writes it, which compresses nothing",
            )
        if pickled > MAX_PICKLE:
            raise FileFormatError(
                f"{path.name} holds a pickle of {pickled:,} bytes",
                expected=f"at most {MAX_PICKLE:,} bytes; tensors lie outside it",
            )
        names = [name for name in archive.namelist() if _is_pickle(name)]
        return archive.read(names[0]) if len(names) == 1 else b""


def _is_pickle(name: str) -> bool:
    return name.endswith("/data.pkl")


def _followed(data: bytes) -> Any:
    """What a pickle of plain integers, lists and dicts holds, None if it holds anything else.

    The instructions are those of the pickletools documentation; a mark is where a batch begins.
    """
    stack: list[Any] = []
    marks: list[int] = []
    for op, argument, _ in pickletools.genops(data):
        if op.name in _NUMBERS:
            stack.append(argument)
        elif op.name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if op.name == "EMPTY_LIST" else {})
        elif op.name == "MARK":
            marks.append(len(stack))
        elif op.name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            _fill(stack, marks.pop() if op.name.endswith("S") else len(stack) - _TAKES[op.name])
        elif op.name not in _IGNORED and op.name != "STOP":
            return None
    return stack[0] if len(stack) == 1 else None


def _fill(stack: list[Any], start: int) -> None:
    """Puts what stands above `start` into the list or dict below it."""
    batch = stack[start:]
    del stack[start:]
    if isinstance(stack[-1], list):
        stack[-1].extend(batch)
    else:
        stack[-1].update(zip(batch[::2], batch[1::2], strict=True))


def _by_torch(path: Path) -> Any:
    torch = require("torch", "runtime")
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch, pickle and zipfile each have their own
        raise FileFormatError(
            f"{path.name} cannot be read with weights_only=True: {_reason(error)}",
            expected="plain integers (not numpy ones), lists, dicts and tensors",
            hint="nothing in it was executed; make it again from plain integers",
        ) from None


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Unsupported" in line or "GLOBAL" in line or "global" in line]
    return (told or lines or [type(error).__name__])[0][:200]
