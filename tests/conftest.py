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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Sums up in one line all tests that are skipped for one reason, a missing GPU say."""
    by_reason: dict[str, list[Any]] = {}  # reports, whose longrepr is (path, line, reason)
    for report in terminalreporter.stats.get("skipped", []):
        by_reason.setdefault(report.longrepr[2], []).append(report)
    for reason, reports in by_reason.items():
        if len({report.longrepr[:2] for report in reports}) > 1:
            folder = os.path.commonpath([report.longrepr[0] for report in reports])
            for report in reports:
                report.longrepr = (folder, None, reason)
