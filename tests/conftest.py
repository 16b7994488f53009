"""Fixtures that tests of every room use."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tiny import Lines, save_tokenizer, tiny_tokenizer

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch, which is not imported yet

# In the background of a shell SIGINT is ignored, which children would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def tok(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the tiny tokenizer."""
    eos = {"eos_token": "<|im_end|>"}
    return save_tokenizer(tiny_tokenizer(), tmp_path_factory.mktemp("tiny"), tokenizer_config=eos)


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """Writes raw lines (bytes, text, or objects as JSON) to a file."""

    def write(*rows: Any, name: str = "rows.jsonl", end: bytes = b"\n") -> Path:
        path = tmp_path / name
        path.write_bytes(b"".join(_raw(row) + end for row in rows))
        return path

    return write


def _raw(row: Any) -> bytes:
    if isinstance(row, bytes):
        return row
    return (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False)).encode()
