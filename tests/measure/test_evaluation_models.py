"""The transformers engine on tiny random models: drafting never changes the output."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tiny import save_tokenizer, tiny_tokenizer

from vocabfreq import DraftVocab
from vocabfreq.errors import MismatchError
from vocabfreq.measure.eval import EvaluationError, Plan, RunResult, RunSpec, evaluate
from vocabfreq.measure.eval.compare import Alternatives, TargetGaps

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers", reason="the engine needs transformers")

from vocabfreq.measure.eval.transformers_engine import run  # noqa: E402 (after the skip)

pytestmark = pytest.mark.filterwarnings("default")  # those of transformers are its own
ROWS, PROMPTS = 300, ("the abc the", "hello ab", "x")
CONFIGS = {
    "eos_token": "<|im_end|>",
    "tokenizer_class": "PreTrainedTokenizerFast",
}


def save_model(folder: Path, seed: int, **config: Any) -> Path:
    """A random Llama of two layers."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "eos_token_id": 264}
    wide = {"vocab_size": ROWS, "initializer_range": 0.5, "tie_word_embeddings": False}
    made = transformers.LlamaConfig(**{**sizes, **heads, **wide, **config})
    transformers.LlamaForCausalLM(made).float().save_pretrained(folder)
    return save_tokenizer(tiny_tokenizer(), folder, tokenizer_config=CONFIGS)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("target"), 1)


@pytest.fixture(scope="module")
def drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("drafter"), 2)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocab") / "kept.safetensors"
    DraftVocab.from_ids(range(0, ROWS, 2), rows=ROWS, coverage={"all sources": 0.5}).save(path)
    return path


@pytest.fixture(scope="module")
def spec(target: Path) -> RunSpec:
    return RunSpec(
        "transformers",
        str(target),
        max_tokens=24,
        dtype="float32",
        prompts=PROMPTS,
        options={"device": "cpu"},
    )


@pytest.fixture(scope="module")
def vanilla(spec: RunSpec) -> RunResult:
    return run(spec)


def test_plain_decoding_is_that_of_generate(spec: RunSpec, vanilla: RunResult) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(spec.target)
    for ids, output in zip(vanilla.prompt_ids, vanilla.outputs, strict=True):
        made = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False)
        assert made[0, len(ids) :].tolist() == output
    assert (vanilla.drafts, vanilla.acceptance_length, vanilla.draft_steps) == (0, 1.0, None)
    assert vanilla.target_seconds_per_forward and vanilla.draft_seconds_per_step is None


@pytest.mark.parametrize("tokens", [1, 3, 5])
@pytest.mark.parametrize("who", ["self", "other"])
@pytest.mark.parametrize("pruned", [False, True])
def test_drafting_does_not_change_the_output(
    spec: RunSpec,
    vanilla: RunResult,
    drafter: Path,
    kept: Path,
    tokens: int,
    who: str,
    pruned: bool,
) -> None:
    result = run(
        replace(
            spec,
            drafter="self" if who == "self" else str(drafter),
            vocab=str(kept) if pruned else None,
            spec_tokens=tokens,
        )
    )
    assert result.outputs == vanilla.outputs
    assert result.draft_steps is not None and len(result.draft_steps) == result.drafts
    assert result.accepted == sum(accepted for _, accepted in result.draft_steps)
    assert sum(result.accepted_per_position) == result.accepted
    assert result.draft_tokens == tokens * result.drafts
    assert result.coverage == (0.5 if pruned else 1.0)
    if pruned:
        assert all(i % 2 == 0 for ids, _ in result.draft_steps for i in ids)
    if who == "self" and not pruned:
        assert result.accepted_per_position == [result.drafts] * tokens


def test_every_accepted_token_is_in_the_output(spec: RunSpec, drafter: Path) -> None:
    result = run(replace(spec, drafter=str(drafter), spec_tokens=3, prompts=PROMPTS[:1]))
    made = 1 + result.accepted + result.drafts
    assert len(result.outputs[0]) <= made < len(result.outputs[0]) + 4


def test_a_stop_id_ends_a_text_in_the_middle_of_a_step(
    spec: RunSpec, vanilla: RunResult, tmp_path: Path
) -> None:
    stop = vanilla.outputs[0][5]
    place = vanilla.outputs[0].index(stop)
    stopping = str(save_model(tmp_path, 1, eos_token_id=stop))
    one = replace(spec, target=stopping, prompts=PROMPTS[:1])
    for tokens in (0, 4):
        result = run(replace(one, drafter="self" if tokens else None, spec_tokens=tokens))
        assert result.outputs == [vanilla.outputs[0][: place + 1]]
    on = replace(one, options={"device": "cpu", "ignore_eos": True})
    assert run(on).outputs == [vanilla.outputs[0]]


def test_sliding_windows_can_be_cut_back(spec: RunSpec, tmp_path: Path) -> None:
    torch.manual_seed(3)
    config = transformers.Gemma3TextConfig(
        vocab_size=ROWS,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        head_dim=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=6,
        initializer_range=0.5,
        layer_types=["sliding_attention", "full_attention"],
    )
    transformers.Gemma3ForCausalLM(config).float().save_pretrained(tmp_path)
    save_tokenizer(tiny_tokenizer(), tmp_path, tokenizer_config=CONFIGS)
    one = replace(spec, target=str(tmp_path))
    plain = run(one)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    made = model.generate(torch.tensor(plain.prompt_ids[:1]), max_new_tokens=24, do_sample=False)
    assert made[0, len(plain.prompt_ids[0]) :].tolist() == plain.outputs[0]
    drafted = run(replace(one, drafter="self", spec_tokens=3))
    assert drafted.outputs == plain.outputs
    assert drafted.accepted_per_position == [drafted.drafts] * 3


def test_a_drafter_of_another_tokenizer_is_refused(spec: RunSpec, tmp_path: Path) -> None:
    save_model(tmp_path, 4)
    other = tiny_tokenizer()
    other.add_special_tokens(["<|more|>"])
    save_tokenizer(other, tmp_path, tokenizer_config=CONFIGS)
    with pytest.raises(MismatchError, match="the drafter's tokenizer has 266 tokens"):
        run(replace(spec, drafter=str(tmp_path), spec_tokens=2))


def test_models_that_cannot_be_loaded_are_named(spec: RunSpec, tmp_path: Path) -> None:
    with pytest.raises(EvaluationError, match="cannot be loaded"):
        run(replace(spec, target=str(tmp_path)))
    with pytest.raises(EvaluationError, match="dtype 'int8'; expected one of bfloat16"):
        run(replace(spec, dtype="int8"))


def test_a_gap_is_that_of_the_logits(spec: RunSpec, vanilla: RunResult) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(spec.target)
    prefix = (*vanilla.prompt_ids[0], *vanilla.outputs[0][:3])
    with torch.no_grad():
        logits = model(torch.tensor([prefix])).logits[0, -1]
    best, other = vanilla.outputs[0][3], int(logits.argmin())
    measure = TargetGaps(spec.target, "float32", {"device": "cpu"})
    (gap,) = measure([Alternatives(prefix, other, best)])
    assert gap.gap == pytest.approx(float(logits.max() - logits.min()), rel=1e-5)
    assert gap.limit < 1e-3 < gap.gap


def test_a_sweep_in_fresh_processes(target: Path, kept: Path, tmp_path: Path) -> None:
    plan = Plan(
        "transformers",
        str(target),
        "self",
        str(kept),
        sizes=("ids", "full"),
        max_tokens=12,
        dtype="float32",
        prompts=PROMPTS,
        options={"device": "cpu"},
    )
    found = evaluate(plan, tmp_path / "parts")
    assert [row.error for row in found.rows] == [None] * 3
    vanilla, pruned, full = found.rows
    assert found.ok and vanilla.acceptance_length == 1.0 and full.acceptance_length == 4.0
    assert pruned.prediction is not None and pruned.acceptance_length is not None
    assert pruned.acceptance_length < 4.0
    assert all(row.forward_ratio for row in (pruned, full))
