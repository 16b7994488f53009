"""EAGLE-1, EAGLE-3 and MTP in a real vLLM: outputs, drafts, memory, and the target's logits.

Runs where vllm is importable and VOCABFREQ_SMOLLM2 names the target's folder (docs/vllm.md).
"""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tokenizers import Tokenizer

from vocabfreq.frequencies.draft_vocab import DraftVocab

if find_spec("vllm") is not None:  # torch, which the helpers need, comes with it
    from real import tinydrafters
    from real.vllmruns import Run, run

V, K, D = 49_152, 2_048, 3
SHARED = Path(__file__).parents[3] / "shared"
TARGET = os.environ.get("VOCABFREQ_SMOLLM2")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
    pytest.mark.skipif(TARGET is None, reason="VOCABFREQ_SMOLLM2 names no target"),
]


class Method(NamedTuple):
    """Runs of one target, and the ids that its drafter keeps."""

    kept: DraftVocab
    vanilla: "Run"
    full: "Run"
    pruned: "Run"


@pytest.fixture(scope="module", params=["eagle", "eagle3", "mtp"])
def method(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Method:
    folder = tmp_path_factory.mktemp(request.param)
    drafting: dict[str, Any] = {"method": request.param, "num_speculative_tokens": D}
    target = Path(str(TARGET))
    if request.param == "mtp":
        target = tinydrafters.write_mtp(folder / "target", target)
        kept, prompts = ids_and_walks()
    else:
        drafter = SHARED / "smollm2-eagle"
        if request.param == "eagle3" and not drafter.is_dir():
            pytest.skip(f"no folder {drafter}")
        if request.param == "eagle":
            drafter = tinydrafters.write_eagle1(folder / "drafter", target)
        drafting["model"] = str(drafter)
        kept, prompts = ids_and_texts(target)
    kept.save(folder / "kept.safetensors")
    plugin_config = {"vocabfreq": {"vocab": str(folder / "kept.safetensors")}}
    model: dict[str, Any] = {"model": str(target)}
    vanilla = run(folder / "vanilla", prompts, **model)
    full = run(folder / "full", prompts, **model, speculative_config=drafting)
    pruned = run(
        folder / "pruned",
        prompts,
        **model,
        speculative_config=drafting,
        additional_config=plugin_config,
    )
    return Method(kept, vanilla, full, pruned)


def ids_and_texts(target: Path) -> tuple[DraftVocab, list[list[int]]]:
    """The lowest ids, and some of the others: draft ids are not target ids."""
    ids = [*range(V // 48), *range(V // 48, V, 47)][:K]
    encoder = Tokenizer.from_file(str(target / "tokenizer.json"))
    texts = ("1000000000000000000", "The capital of France is", " Paris Paris Paris Paris")
    prompts = [encoder.encode(text).ids for text in texts]
    return DraftVocab.from_ids(ids, rows=V), prompts


def ids_and_walks() -> tuple[DraftVocab, list[list[int]]]:
    """Blocks of 32 ids; the walks stay in a block, leave one, and come into one."""
    ids = np.flatnonzero(np.arange(V) // 32 % 24 == 3)
    assert len(ids) == K
    prompts = [[5, int(ids[64])], [9, 700, int(ids[58])], [8, int(ids[32]) - 8]]
    return DraftVocab.from_ids(ids, rows=V), prompts


def test_outputs_are_vanillas_whatever_the_drafter(method: Method) -> None:
    assert method.full.outputs == method.vanilla.outputs
    assert method.pruned.outputs == method.vanilla.outputs
    assert method.vanilla.drafted == [] and method.vanilla.accepted == 0
    assert method.full.accepted > 0 and method.pruned.accepted > 0
    assert {len(ids) for ids in method.vanilla.outputs} == {16}


def test_drafts_are_kept_ids_and_the_log_says_so(method: Method) -> None:
    assert len(method.kept) == K
    assert f"the drafter keeps {K:,} of {V:,} rows" in method.pruned.log
    assert "the drafter keeps" not in method.full.log + method.vanilla.log
    assert (method.full.draft_rows, method.pruned.draft_rows) == (V, K)
    kept = set(method.kept.target_ids.tolist())
    assert drafts(method.pruned) and drafts(method.pruned) <= kept
    assert not drafts(method.full) <= kept


def test_greedy_drafting_makes_no_tensor_of_v_columns(method: Method) -> None:
    assert method.pruned.drafted and method.pruned.wide == []
    assert method.full.wide and {shape[-1] for shape in method.full.wide} == {V}


def test_the_targets_head_and_logits_are_the_same_bits(method: Method) -> None:
    vanilla, full, pruned = method.vanilla, method.full, method.pruned
    assert pruned.head == full.head == vanilla.head
    assert pruned.logits[0] == full.logits[0] == vanilla.logits[0]  # prefill
    rows, others = rows_by_place(pruned), rows_by_place(full)
    common = rows.keys() & others.keys()
    assert len(common) >= 20
    assert {place: rows[place] for place in common} == {place: others[place] for place in common}


def drafts(run: "Run") -> set[int]:
    """Every id that was drafted."""
    return {one for step in run.drafted for ids in step for one in ids}


def rows_by_place(run: "Run") -> dict[tuple[int, int], str]:
    """(prompt, token) → digest of the target's logits for it, while no prompt has ended."""
    prompts = range(len(run.outputs))
    found = {(prompt, 0): run.logits[0][prompt] for prompt in prompts}
    place = [1 for _ in prompts]
    for drafted, rows in zip(run.drafted, run.logits[1:], strict=False):
        if len(rows) != len(prompts) * (1 + D):
            break
        for prompt in prompts:
            start = place[prompt]
            taken = agreeing(drafted[prompt], run.outputs[prompt][start:])
            for more in range(taken + 1):
                found[prompt, start + more] = rows[prompt * (1 + D) + more]
            place[prompt] += taken + 1
    return found


def agreeing(drafted: list[int], output: list[int]) -> int:
    """How many drafted ids the target took."""
    for number, (one, other) in enumerate(zip(drafted, output, strict=False)):
        if one != other:
            return number
    return min(len(drafted), len(output))
