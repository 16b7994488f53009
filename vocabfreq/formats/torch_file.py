"""`.pt` files: plain values written and read without torch, the rest by torch, never trusted.

`torch.save` of a list or dict of integers is a zip archive with one pickle. Writing that takes no
torch, and the bytes depend on the value alone. Reading one takes neither torch nor an unpickler:
`_parse_plain_pickle` follows the dozen instructions that make integers, lists and dicts, and gives
up at any other. Everything else goes through `load_weights_only`.
"""

import io
import pickle
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import FileFormatError, require
from vocabfreq.storage.atomic import write_atomically

MAX_BYTES = 256 << 20  # of a list, a mapping or a vector; V = 262,144 int64 are 2 MB
MAX_PICKLE = 20 << 20  # of what is not tensors; 262,144 ids with counts are 3 MB
ZIP_MAGIC = b"PK\x03\x04"  # what torch takes for an archive
_EPOCH = (1980, 1, 1, 0, 0, 0)
_OPERANDS = {"APPEND": 1, "SETITEM": 2}
_INTEGERS = {"BININT", "BININT1", "BININT2", "LONG1"}
_IGNORED = {"PROTO", "FRAME", "BINPUT", "LONG_BINPUT", "MEMOIZE"}  # the memo is never read


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
    """Writes numpy arrays as tensors, or a dict of arrays and integers, by `torch.save`.

    Raises:
        MissingExtraError: torch is not installed.
    """
    torch = require("torch", "runtime")

    def convert(part: Any) -> Any:
        return torch.from_numpy(np.array(part)) if isinstance(part, np.ndarray) else part

    parts = {k: convert(v) for k, v in value.items()} if isinstance(value, dict) else convert(value)
    buffer = io.BytesIO()
    torch.save(parts, buffer)
    write_atomically(path, buffer.getvalue())


def load(path: Path) -> Any:
    """Reads a `.pt` file of plain values and tensors; nothing in it is executed.

    Raises:
        FileFormatError: it is too large, holds other objects, or is broken.
        MissingExtraError: it holds more than plain integers, and torch is not installed.
    """
    check_size(path)
    plain = _load_plain(path)
    if plain is not None:
        return plain
    return load_weights_only(
        path,
        expected="plain integers (not numpy ones), lists, dicts and tensors",
        hint="make it again from plain integers",
    )


def load_weights_only(path: Path, *, expected: str, hint: str, mmap: bool = False) -> Any:
    """`torch.load` with `weights_only=True`, on the CPU, for untrusted files.

    The argument is passed since an environment variable can switch its default off.

    Args:
        path: the file.
        expected: what the file should hold, for the error.
        hint: what to do about a file that holds something else.
        mmap: map an archive, so that only the parts that are read take memory; older files, which
            are no archives, are read whole.

    Raises:
        FileFormatError: it holds other objects, or is broken.
        MissingExtraError: torch is not installed.
    """
    torch = require("torch", "runtime")
    try:
        return torch.load(
            path, map_location="cpu", weights_only=True, mmap=mmap and _is_archive(path)
        )
    except Exception as error:  # torch, pickle and zipfile each have their own
        raise FileFormatError(
            f"{path.name} cannot be read with weights_only=True: {_reason(error)}",
            expected=expected,
            hint=f"nothing in it was executed; {hint}",
        ) from None


def _reason(error: Exception) -> str:
    """The line of torch's long message that names the object, else its first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    naming = [line for line in lines if "Unsupported" in line or "global" in line.lower()]
    return (naming or lines or [type(error).__name__])[0][:200]


def check_size(path: Path) -> None:
    """Refuses a file that is too large for a list, a mapping or a vector.

    Raises:
        FileFormatError: naming the size.
    """
    size = path.stat().st_size
    if size > MAX_BYTES:
        raise FileFormatError(
            f"{path.name} has {size:,} bytes",
            expected=f"a list, a mapping or a vector, of at most {MAX_BYTES:,} bytes",
        )


def _load_plain(path: Path) -> Any:
    """The value of an archive of plain integers, None if it is anything else."""
    try:
        return _parse_plain_pickle(_read_pickle(path))
    except FileFormatError:
        raise
    except Exception as error:  # zipfile and pickletools raise many kinds
        if isinstance(error, zipfile.BadZipFile) and _is_archive(path):
            raise FileFormatError(f"{path.name} is a broken archive: {error}") from None
        return None  # torch names the problem


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == ZIP_MAGIC


def _read_pickle(path: Path) -> bytes:
    """The one pickle of an archive, empty if it has none or several.

    Raises:
        FileFormatError: the archive is compressed, or unpacks to too much.
    """
    with zipfile.ZipFile(path) as archive:
        records = archive.infolist()
        compressed = [r.filename for r in records if r.compress_type != zipfile.ZIP_STORED]
        unpacked = sum(record.file_size for record in records)
        pickles = [record for record in records if record.filename.endswith("/data.pkl")]
        pickled = max((record.file_size for record in pickles), default=0)
        if unpacked > MAX_BYTES:
            raise FileFormatError(
                f"{path.name} unpacks to {unpacked:,} bytes",
                expected=f"at most {MAX_BYTES:,} bytes",
            )
        if compressed:  # a few bytes can become millions
            raise FileFormatError(
                f"{path.name} is compressed ({compressed[0][:80]!r})",
                expected="a file as torch.save writes it, which compresses nothing",
            )
        if pickled > MAX_PICKLE:
            raise FileFormatError(
                f"{path.name} holds a pickle of {pickled:,} bytes",
                expected=f"at most {MAX_PICKLE:,} bytes; tensors lie outside it",
            )
        return archive.read(pickles[0].filename) if len(pickles) == 1 else b""


def _parse_plain_pickle(data: bytes) -> Any:
    """The integers, lists and dicts of a pickle, None if it holds anything else.

    The instructions are those of the pickletools documentation; a mark is where a batch begins.
    """
    stack: list[Any] = []
    marks: list[int] = []
    for op, argument, _ in pickletools.genops(data):
        if op.name in _INTEGERS:
            stack.append(argument)
        elif op.name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if op.name == "EMPTY_LIST" else {})
        elif op.name == "MARK":
            marks.append(len(stack))
        elif op.name in ("APPEND", "APPENDS", "SETITEM", "SETITEMS"):
            start = marks.pop() if op.name.endswith("S") else len(stack) - _OPERANDS[op.name]
            batch = stack[start:]
            del stack[start:]
            if isinstance(stack[-1], list):
                stack[-1].extend(batch)
            else:
                stack[-1].update(zip(batch[::2], batch[1::2], strict=True))
        elif op.name not in _IGNORED and op.name != "STOP":
            return None
    return stack[0] if len(stack) == 1 else None
