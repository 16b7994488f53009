"""The plugin in a real vLLM: outputs are vanilla's token for token, and the drafter is pruned.

Runs where vllm is importable and VOCABFREQ_SMOLLM2 names the target's folder (docs/vllm.md).
"""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from vocabfreq.frequencies.draft_vocab import DraftVocab

SHARED = Path(__file__).parents[3] / "shared"
TARGET = os.environ.get("VOCABFREQ_SMOLLM2")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
    pytest.mark.skipif(TARGET is None, reason="VOCABFREQ_SMOLLM2 names no target"),
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"no folder {SHARED}"),
]


def test_pruned_and_full_drafters_give_vanillas_output(tmp_path: Path) -> None:
    DraftVocab.from_ids(np.arange(8_192), rows=49_152).save(tmp_path / "ids.safetensors")
    code = "from vocabfreq.cli import main; main()"
    words = ["eval", "--engine", "vllm", "--target", str(TARGET), "--dtype", "float32", "--json"]
    words += ["--drafter", str(SHARED / "smollm2-eagle"), "--sizes", "ids,full", "--limit", "1"]
    words += ["--vocab", str(tmp_path / "ids.safetensors"), "--max-tokens", "24"]
    words += ["--prompts", str(SHARED / "data/mt_bench_questions.jsonl")]
    words += ["--work-dir", str(tmp_path / "parts")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "fr-spec" in json.dumps(json.loads(done.stdout))
    log = "".join(path.read_text() for path in (tmp_path / "parts").glob("*.log"))
    assert "the drafter keeps 8,192 of 49,152 rows" in log
