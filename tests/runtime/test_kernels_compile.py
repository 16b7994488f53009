"""Every configuration compiles for sm_80, sm_90 and sm_100, without spills; no GPU is needed.

The interpreter takes what the compiler refuses, so passing there says little. Compilation runs in
a process of its own: where TRITON_INTERPRET is set when triton is imported, as `test_kernels` does,
nothing can be compiled.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import kernelcases
import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or find_spec("triton") is None, reason="triton is not installed"
)
EVERY = [(t, case.name) for t in kernelcases.TARGETS for case in kernelcases.cases(t)]


@cache
def compiled() -> Mapping[tuple[int, str], dict[str, Any]]:
    script = Path(kernelcases.__file__)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, script, "--json"], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return {(row["target"], row["case"]): row for row in json.loads(run.stdout)}


@pytest.mark.parametrize(("target", "name"), EVERY, ids=[f"sm_{t}-{name}" for t, name in EVERY])
def test_compiles_without_spills(target: int, name: str) -> None:
    row = compiled()[target, name]
    assert "error" not in row, row["error"]
    assert row["spilled"] == 0
    assert row["registers"] <= 255
    assert row["shared"] <= kernelcases.SHARED[target]
