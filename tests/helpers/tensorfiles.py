"""Kinds of files that hold tensors: tests of them are skipped where torch is not installed."""

import os
from typing import Any

import pytest

TENSORS = ("vocab-freq", "mapping", "modelopt", "nemo")


class _Torch:
    """torch, when it is first needed; a test that needs it is skipped without."""

    def __getattr__(self, name: str) -> Any:
        if "PYTEST_CURRENT_TEST" not in os.environ:
            raise AttributeError(name)  # pytest looks at everything in a module that it collects
        return getattr(pytest.importorskip("torch", reason="these files hold tensors"), name)


torch: Any = _Torch()


def needs(*kinds: str) -> None:
    """Skips a test that writes tensors where there is no torch."""
    if set(kinds) & set(TENSORS):
        assert torch.save
