"""The vLLM plugin on drafters that are built as vLLM builds them; real ones are in tests/real."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from heads import by_definition, numbers, vocab_of
from torch import Tensor, nn

from vocabfreq import DraftVocab
from vocabfreq.errors import FileFormatError, MismatchError, RefusedError, SelectionError
from vocabfreq.vllm.config import PluginConfig, read_plugin_config, select_ids
from vocabfreq.vllm.drafter import prune_drafter

V, H = 100, 24


class UnquantizedEmbeddingMethod:
    """As vLLM names it."""


class Head(nn.Module):
    """A ParallelLMHead: rows are padded to a multiple of 64."""

    def __init__(self, rows: int = V, seed: int = 1) -> None:
        super().__init__()
        weight = torch.cat([numbers(rows, H, seed=seed), torch.full((-rows % 64, H), 9.0)])
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.org_vocab_size, self.bias, self.tp_size = rows, None, 1
        self.quant_method: Any = UnquantizedEmbeddingMethod()


class Processor(nn.Module):
    """A LogitsProcessor."""

    def __init__(self, vocab_size: int, scale: float = 1.0, soft_cap: float | None = None) -> None:
        super().__init__()
        self.vocab_size, self.scale, self.soft_cap = vocab_size, scale, soft_cap
        self.logits_as_input = False

    def forward(self, head: Any, hidden: Tensor) -> Tensor:
        logits = (hidden @ head.weight.T)[:, : head.org_vocab_size]
        if self.soft_cap is not None:
            logits = (logits / self.soft_cap).tanh() * self.soft_cap
        scaled: Tensor = logits * self.scale
        return scaled


class Eagle1(nn.Module):
    """Shares the target's head."""

    def __init__(self, head: Head, **shape: Any) -> None:
        super().__init__()
        self.lm_head, self.logits_processor = head, Processor(V, **shape)

    def compute_logits(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.logits_processor(self.lm_head, hidden)
        return logits


class Eagle3(Eagle1):
    """Has a head of its own and a d2t, and widens by it."""

    def __init__(self, vocab: DraftVocab) -> None:
        super().__init__(Head(len(vocab)))
        self.logits_processor = Processor(len(vocab))
        offsets = torch.from_numpy(vocab.d2t.copy())
        self.draft_id_to_target_id: Any = nn.Parameter(offsets, requires_grad=False)

    def compute_logits(self, hidden: Tensor) -> Tensor:
        logits = super().compute_logits(hidden)
        if self.draft_id_to_target_id is None:
            assert logits.shape[1] == V
            return logits
        wide = logits.new_full((len(hidden), V), float("-inf"))
        wide[:, torch.arange(logits.shape[1]) + self.draft_id_to_target_id] = logits
        return wide


class SharedHead(nn.Module):
    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden * 2 - 1


class Layer(nn.Module):
    def __init__(self, head: Head) -> None:
        super().__init__()
        self.shared_head = SharedHead(head)


class Mtp(nn.Module):
    """The head is in a layer, behind a norm."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.layers, self.lm_head = nn.ModuleList([Layer(head)]), head
        self.logits_processor = Processor(V)

    def compute_logits(self, hidden: Tensor, spec_step_idx: int = 0) -> Tensor:
        shared: Any = self.layers[spec_step_idx]
        shared = shared.shared_head
        logits: Tensor = self.logits_processor(shared.head, shared(hidden))
        return logits


def proposer_of(model: nn.Module, rows: int = V, tokenizer: str = "nowhere") -> Any:
    config = SimpleNamespace(tokenizer=tokenizer, get_vocab_size=lambda: rows)
    return SimpleNamespace(
        model=model,
        vllm_config=SimpleNamespace(model_config=config),
        use_local_argmax_reduction=False,
    )


@pytest.fixture
def plugin_config(tmp_path: Path) -> PluginConfig:
    vocab_of(30, V).save(tmp_path / "kept.safetensors")
    return PluginConfig(str(tmp_path / "kept.safetensors"))


def kept_ids() -> list[int]:
    return [int(i) for i in vocab_of(30, V).target_ids]


@pytest.mark.parametrize("kind", ["eagle1", "eagle3", "mtp", "capped"])
def test_ids_and_logits_are_those_of_the_full_head_without_the_others(
    kind: str, plugin_config: PluginConfig
) -> None:
    head = Head()
    before = head.weight.clone()
    made: dict[str, Callable[[], nn.Module]] = {
        "eagle1": lambda: Eagle1(head),
        "capped": lambda: Eagle1(head, scale=0.5, soft_cap=30.0),
        "eagle3": lambda: Eagle3(DraftVocab.from_ids({*kept_ids(), *range(0, V, 2)}, rows=V)),
        "mtp": lambda: Mtp(head),
    }
    model: Any = made[kind]()
    hidden = numbers(7, H, seed=3)
    full = model.compute_logits(hidden)
    proposer = proposer_of(model)
    prune_drafter(proposer, plugin_config)
    assert proposer.use_local_argmax_reduction is True
    assert model.get_top_tokens(hidden).tolist() == by_definition(full, kept_ids())
    logits = model.compute_logits(hidden)
    assert logits.shape == (7, V)
    torch.testing.assert_close(logits[:, kept_ids()], full[:, kept_ids()])
    assert logits.isinf().sum() == 7 * (V - 30)
    assert torch.equal(head.weight, before)  # the target's own


def test_greedy_drafting_makes_nothing_as_wide_as_the_target(
    plugin_config: PluginConfig,
) -> None:
    model = Eagle1(Head())
    prune_drafter(proposer_of(model), plugin_config)
    hidden = numbers(64, H)
    top: Any = model.get_top_tokens
    top(hidden)
    with torch.profiler.profile(profile_memory=True) as seen:
        top(hidden)
    assert max(abs(event.self_cpu_memory_usage) for event in seen.events()) < 64 * V * 4


def test_a_head_without_another_user_is_freed(plugin_config: PluginConfig) -> None:
    import gc
    import weakref

    model = Eagle3(DraftVocab.from_ids(range(V), rows=V))
    old = weakref.ref(model.lm_head.weight)
    prune_drafter(proposer_of(model), plugin_config)
    gc.collect()
    assert old() is None


def test_drafters_that_pruning_would_change_are_refused(
    plugin_config: PluginConfig, tok: Path
) -> None:
    split, quantised = Head(), Head()
    split.tp_size, quantised.quant_method = 2, SimpleNamespace()
    for model, match in (
        (Eagle1(split), "over 2 ranks"),
        (Eagle1(quantised), "with SimpleNamespace"),
        (Eagle1(Head(), scale=-1.0), "positive scale"),
        (nn.Linear(2, 2), "has no lm_head"),
    ):
        with pytest.raises(RefusedError, match=match):
            prune_drafter(proposer_of(model), plugin_config)
    for name in ("masked_embedding", "_suppress_idx"):  # of Gemma 4
        other = Eagle1(Head())
        setattr(other, name, torch.zeros(1))
        with pytest.raises(RefusedError, match=f"Eagle1 with {name}"):
            prune_drafter(proposer_of(other), plugin_config)
        assert isinstance(other.lm_head, Head)
    with pytest.raises(RefusedError, match="for V = 100, the target has 120"):
        prune_drafter(proposer_of(Eagle1(Head()), rows=120), plugin_config)
    few = Eagle3(DraftVocab.from_ids(range(1, 11), rows=V))
    with pytest.raises(SelectionError, match="have no row in the drafter's head"):
        prune_drafter(proposer_of(few), plugin_config)


@pytest.mark.parametrize(
    ("d2t", "match"),
    [
        ([0] * 50, "looks? like a map that was never loaded"),
        ([*range(48), -60, 1], "-12"),
        ([*range(48), 60, 1], "108"),
        ([0, 0, 0, -1, *[0] * 46], "2"),
    ],
)
def test_the_d2t_of_a_drafter_is_checked(
    d2t: list[int], match: str, plugin_config: PluginConfig
) -> None:
    model: Any = Eagle3(DraftVocab.from_ids({*kept_ids(), *range(0, V, 2)}, rows=V))
    model.draft_id_to_target_id = nn.Parameter(torch.tensor(d2t), requires_grad=False)
    with pytest.raises(FileFormatError, match=match):
        prune_drafter(proposer_of(model), plugin_config)
    assert isinstance(model.lm_head, Head)


def test_a_d2t_that_does_not_ascend_is_followed(plugin_config: PluginConfig) -> None:
    order = torch.randperm(V, generator=torch.Generator().manual_seed(0))
    model: Any = Eagle3(DraftVocab.from_ids(range(V), rows=V))
    model.draft_id_to_target_id = nn.Parameter(order - torch.arange(V), requires_grad=False)
    hidden = numbers(7, H, seed=3)
    full = model.compute_logits(hidden)
    prune_drafter(proposer_of(model), plugin_config)
    assert model.get_top_tokens(hidden).tolist() == by_definition(full, kept_ids())


def test_ids_of_another_tokenizer_are_refused(tok: Path, tmp_path: Path) -> None:
    vocab = DraftVocab.from_ids(kept_ids(), rows=V, tokenizer="0" * 64)
    vocab.save(tmp_path / "other.safetensors")
    plugin_config = PluginConfig(str(tmp_path / "other.safetensors"))
    with pytest.raises(MismatchError, match="0000"):
        prune_drafter(proposer_of(Eagle1(Head()), tokenizer=str(tok)), plugin_config)
    allowed = PluginConfig(plugin_config.vocab, allow_other_tokenizer=True)
    prune_drafter(proposer_of(Eagle1(Head()), tokenizer=str(tok)), allowed)


def test_a_tokenizer_of_the_hub_is_compared_in_the_cache(
    tok: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vocabfreq.tokenizer import fingerprint

    vocab = DraftVocab.from_ids(kept_ids(), rows=V, tokenizer="0" * 64)
    vocab.save(tmp_path / "other.safetensors")
    plugin_config = PluginConfig(str(tmp_path / "other.safetensors"))
    target = SimpleNamespace(
        tokenizer="org/model", tokenizer_revision="a", get_vocab_size=lambda: V
    )
    cached = {("org/model", "tokenizer.json", "a"): str(tok / "tokenizer.json")}
    monkeypatch.setattr(
        fingerprint,
        "try_to_load_from_cache",
        lambda name, file, revision: cached.get((name, file, revision)),
    )
    with pytest.raises(MismatchError, match="0000"):
        select_ids(plugin_config, target)
    cached.clear()  # what is not known passes
    assert len(select_ids(plugin_config, target)[0]) == 30


def test_tokenizer_names_that_are_no_repo_pass(plugin_config: PluginConfig) -> None:
    target = SimpleNamespace(tokenizer="/no/such/folder", get_vocab_size=lambda: V)
    assert len(select_ids(plugin_config, target)[0]) == 30


def test_options_are_checked() -> None:
    assert read_plugin_config({}) is None
    assert read_plugin_config({"other": 1}) is None
    plugin_config = read_plugin_config({"vocabfreq": {"vocab": "o/n", "coverage": 0.95}})
    assert plugin_config is not None and plugin_config.selection == {"coverage": 0.95}
    assert read_plugin_config({"vocabfreq": {"vocab": "o/n", "size": "25%"}}) == PluginConfig(
        "o/n", "25%"
    )
    for wrong in ("o/n", {}, {"vocab": 3}, {"vocab": "o/n", "sizes": 3}):
        with pytest.raises(SelectionError, match="vocabfreq"):
            read_plugin_config({"vocabfreq": wrong})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", True),
        ("size", 0.25),
        ("size", [8192]),
        ("coverage", "0.95"),
        ("coverage", True),
        ("multiple_of", "128"),
        ("allow_other_tokenizer", "false"),
        ("allow_other_tokenizer", 1),
    ],
)
def test_a_value_of_another_kind_is_refused(name: str, value: Any) -> None:
    match = f"has {name} {re.escape(repr(value))}; expected .* as {name}"
    with pytest.raises(SelectionError, match=match):
        read_plugin_config({"vocabfreq": {"vocab": "o/n", name: value}})


@pytest.mark.parametrize("key", ["vocabfrq", "vocab_freq", "VocabFreq", "vocabfreqs"])
def test_a_mistyped_key_is_refused(key: str) -> None:
    with pytest.raises(SelectionError, match=f"has '{key}'; expected 'vocabfreq'"):
        read_plugin_config({key: {"vocab": "o/n"}})


def logged(caplog: pytest.LogCaptureFixture) -> str:
    return "".join(one.getMessage() for one in caplog.records if one.name == "vllm.vocabfreq")


def test_the_log_says_whether_memory_grows_or_is_freed(
    plugin_config: PluginConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "vllm.vocabfreq")
    shared = Head()
    prune_drafter(proposer_of(Eagle1(shared)), plugin_config, Eagle1(shared))
    assert f"keeps 30 of {V} rows" in logged(caplog)
    assert "the target keeps the head that both had, so memory grows by 0.0 MB" in logged(caplog)
    caplog.clear()
    own = Eagle3(DraftVocab.from_ids({*kept_ids(), *range(0, V, 2)}, rows=V))
    rows = own.lm_head.org_vocab_size
    prune_drafter(proposer_of(own), plugin_config, Eagle1(shared))
    assert f"keeps 30 of {rows} rows" in logged(caplog)  # of the drafter's, not of V
    assert "MB of memory are freed" in logged(caplog)


def test_a_drafter_that_does_not_call_its_processor_is_refused(plugin_config: PluginConfig) -> None:
    class OwnLogits(Eagle1):
        def compute_logits(self, hidden: Tensor) -> Tensor:
            return hidden @ self.lm_head.weight.T

    model: Any = OwnLogits(Head())
    prune_drafter(proposer_of(model), plugin_config)
    with pytest.raises(RefusedError, match="did not call its logits processor"):
        model.get_top_tokens(numbers(2, H))


def test_an_unknown_proposer_is_refused_before_its_head_is_replaced(
    plugin_config: PluginConfig,
) -> None:
    proposer = proposer_of(Eagle1(Head()))
    del proposer.use_local_argmax_reduction
    with pytest.raises(RefusedError, match="has no use_local_argmax_reduction"):
        prune_drafter(proposer, plugin_config)
    assert isinstance(proposer.model.lm_head, Head)


def test_a_head_of_fewer_rows_names_id_and_row(plugin_config: PluginConfig) -> None:
    with pytest.raises(SelectionError, match=r"id \d+ is row \d+ of the drafter's head"):
        prune_drafter(proposer_of(Eagle1(Head(rows=40))), plugin_config)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stand-ins for the classes of vLLM that the plugin wraps."""
    import sys
    from types import ModuleType

    from vocabfreq.vllm import plugin

    class EngineArgs:
        def __init__(self, **config: Any) -> None:
            self.config = SimpleNamespace(**config)

        def create_engine_config(self) -> Any:
            return self.config

    class SpecDecodeBaseProposer:
        def __init__(self, model: Any, config: Any) -> None:
            self.model, self.vllm_config = model, config
            self.use_local_argmax_reduction = False

        def load_model(self, target: Any) -> str:
            return f"loaded for {target}"

    names = {"vllm.engine.arg_utils": EngineArgs, plugin.LOADERS[0][0]: SpecDecodeBaseProposer}
    for name, held in names.items():
        parts = name.split(".")
        for depth in range(1, len(parts) + 1):
            path = ".".join(parts[:depth])
            monkeypatch.setitem(sys.modules, path, sys.modules.get(path) or ModuleType(path))
        setattr(sys.modules[name], held.__name__, held)
    monkeypatch.setattr(plugin, "_hooked", [])
    return SimpleNamespace(Args=EngineArgs, Proposer=SpecDecodeBaseProposer, hooks=plugin)


def test_the_plugin_is_inert_unless_it_is_configured(
    engine: Any, plugin_config: PluginConfig
) -> None:
    from vocabfreq.vllm import register

    register()
    register()  # twice is once
    assert engine.hooks._hooked == ["SpecDecodeBaseProposer"]
    config = proposer_of(Eagle1(Head())).vllm_config
    config.additional_config, config.speculative_config = {}, None
    assert engine.Args(additional_config={}).create_engine_config().additional_config == {}
    model: Any = Eagle1(Head())
    proposer = engine.Proposer(model, config)
    assert proposer.load_model("t") == "loaded for t"
    assert not hasattr(model, "get_top_tokens") and isinstance(model.lm_head, Head)
    config.additional_config = {"vocabfreq": {"vocab": plugin_config.vocab}}
    assert proposer.load_model("t") == "loaded for t"
    assert proposer.use_local_argmax_reduction and len(model.lm_head.weight) == 30


def test_a_wrong_configuration_is_refused_before_anything_loads(
    engine: Any, plugin_config: PluginConfig
) -> None:
    additional_config = {"vocabfreq": {"vocab": plugin_config.vocab}}
    engine.hooks.hook()
    for speculative_config in (None, SimpleNamespace(method="ngram")):
        arguments = engine.Args(
            additional_config=additional_config, speculative_config=speculative_config
        )
        with pytest.raises(RefusedError, match="expected a drafter to prune: eagle, eagle3, mtp"):
            arguments.create_engine_config()
    fits = proposer_of(Eagle1(Head())).vllm_config.model_config
    speculative_config = SimpleNamespace(method="eagle")
    shape = {"additional_config": additional_config, "speculative_config": speculative_config}
    assert engine.Args(**shape, model_config=fits).create_engine_config().model_config is fits
    wider = proposer_of(Eagle1(Head()), rows=120).vllm_config.model_config
    with pytest.raises(RefusedError, match="for V = 100, the target has 120"):
        engine.Args(**shape, model_config=wider).create_engine_config()
    engine.hooks._hooked.clear()  # a vLLM that has none of the classes
    arguments = engine.Args(additional_config=additional_config, speculative_config=None)
    with pytest.raises(RefusedError, match=r"vLLM .* has none of SpecDecodeBaseProposer"):
        arguments.create_engine_config()
