"""SGLang: its reader of `--speculative-token-map`.

    python check_sglang.py FOLDER

`load_token_map` reads our freq_K.pt by its path, and as `owner/repo/freq_K.pt` out of a Hub cache
made for this check. Both must give K unique ids, the ones that our `npy` keeps, by falling count.

The function is in a module that imports much of the server, CUDA kernels included, and needs none
of that. So all modules of sglang but this one and `environ`, from which it reads settings, are
replaced by stubs. The function itself is the wheel's.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any
from unittest.mock import MagicMock

import numpy as np
from our_files import OurFiles

MODULE = "sglang.srt.speculative.spec_utils"
REAL = {MODULE, "sglang.srt.environ"}
PACKAGES = {"sglang", "sglang.srt", "sglang.srt.speculative"}
REVISION = "0" * 40


class Stub(ModuleType):
    """A module in which every name is a mock."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{self.__name__}.{name}")


class Stubs(MetaPathFinder, Loader):
    """Finds the two real modules of sglang, and stubs for all others."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a stub; None for modules that are real or not of sglang."""
        if name.split(".")[0] != "sglang" or name in REAL:
            return None
        spec = ModuleSpec(name, self, is_package=True)
        found = PathFinder.find_spec(name, path) if name in PACKAGES else None
        spec.submodule_search_locations = list(
            (found and found.submodule_search_locations) or [f"no folder of {name}"]
        )
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """An empty module."""
        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing."""


def load_token_map() -> Callable[[str], Any]:
    """The function, from the wheel.

    Raises:
        RuntimeError: it was replaced too.
    """
    sys.meta_path.insert(0, Stubs())
    function = import_module(MODULE).load_token_map
    if not (
        isinstance(function, FunctionType) and "site-packages" in function.__code__.co_filename
    ):
        raise RuntimeError(f"{function} is not from the wheel")
    return function


def put_in_cache(path: Path, cache: Path) -> str:
    """Puts a file into a Hub cache, as a model repository's; returns its name there."""
    repository = cache / "models--owner--repo"
    snapshot = repository / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(REVISION)
    (snapshot / path.name).write_bytes(path.read_bytes())
    return f"owner/repo/{path.name}"


def check(ours: OurFiles, files: str, read: Any) -> None:
    """Compares the ids that were read with our other files."""
    ids = read.numpy()
    counts = np.array([ours.counts.get(int(i), 0) for i in ids])
    faults = {
        f"dtype {ids.dtype}": ids.dtype != np.int64,
        f"{len(np.unique(ids)):,} unique ids of {len(ids):,}": len(np.unique(ids)) != len(ours.d2t)
        or len(ids) != len(ours.d2t),
        "other ids than npy": not np.array_equal(np.sort(ids), np.flatnonzero(ours.t2d)),
        "not by falling count": bool((np.diff(counts) > 0).any()),
    }
    wrong = [fault for fault, is_so in faults.items() if is_so]
    good = f"int64 [{len(ids)}], unique, the ids of npy, by falling count"
    ours.print_row("load_token_map", files, not wrong, "; ".join(wrong) or good)


def main() -> None:
    """Reads both ways."""
    ours = OurFiles.read(Path(sys.argv[1]))
    path = ours.folder / f"freq_{len(ours.d2t)}.pt"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HF_HUB_CACHE"] = cache  # before huggingface_hub is imported
        function = load_token_map()
        check(ours, "token-map, a local path", function(str(path)))
        check(ours, "token-map, owner/repo/file", function(put_in_cache(path, Path(cache))))


if __name__ == "__main__":
    main()
