"""The pruned head: which rows it has, and that nothing else is touched."""

from pathlib import Path

import numpy as np
import pytest
import torch
from heads import DTYPES, by_definition, head_of, numbers, vocab_of
from torch import nn

from vocabfreq import DraftVocab, count
from vocabfreq.errors import FileFormatError, HeadError, SelectionError
from vocabfreq.runtime import GreedySampler, PrunedHead, Shape, expand_logits, prune_lm_head


def linear(rows: int = 100, width: int = 24, bias: bool = True, seed: int = 1) -> nn.Linear:
    made = nn.Linear(width, rows, bias=bias)
    made.weight.data = numbers(rows, width, seed=seed)
    if bias:
        made.bias.data = numbers(rows, seed=seed + 1)
    return made


def test_r1_tied_embeddings_stay_whole_and_apart() -> None:
    embedding = nn.Embedding(100, 24)
    head = nn.Linear(24, 100, bias=False)
    head.weight = embedding.weight
    before = embedding.weight.detach().clone()
    pruned = prune_lm_head(head, vocab_of(40, 100))
    pruned.weight.fill_(7)
    assert torch.equal(embedding.weight, before)
    assert pruned.weight.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()
    assert pruned.weight.untyped_storage().nbytes() == 40 * 24 * 4


def test_r1_every_id_kept_is_still_a_copy() -> None:
    weight = numbers(8, 4)
    prune_lm_head(weight, vocab_of(8, 8)).weight.fill_(7)
    assert torch.equal(weight, numbers(8, 4))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["transposed", "sliced", "every other"])
def test_r2_non_contiguous_weight(layout: str, dtype: torch.dtype) -> None:
    plain = numbers(100, 24, dtype=dtype, seed=1)
    weight = {
        "transposed": plain.t().contiguous().t(),
        "sliced": torch.cat([plain, plain], 1)[:, :24],
        "every other": plain.repeat_interleave(2, 0)[::2],
    }[layout]
    assert not weight.is_contiguous()
    vocab = vocab_of(40, 100)
    pruned = prune_lm_head(weight, vocab)
    assert pruned.weight.is_contiguous()
    assert torch.equal(pruned.weight, plain[torch.from_numpy(vocab.target_ids)])


def test_r6_another_dtype_or_device_is_refused() -> None:
    head = head_of()
    with pytest.raises(HeadError, match=r"bfloat16, the head of torch.float32; expected one dtype"):
        GreedySampler(head)(numbers(2, 24, dtype=torch.bfloat16))
    with pytest.raises(HeadError, match=r"hidden on meta, the head on cpu; expected one device"):
        GreedySampler(head)(torch.empty(2, 24, device="meta"))
    with pytest.raises(HeadError, match=r"hidden of \[2, 23\]; expected \[B, 24\]"):
        head(numbers(2, 23))
    with pytest.raises(HeadError, match=r"hidden of \[24\]"):
        head(numbers(24))


def test_r9_bias_and_row_scales_are_picked_with_the_rows() -> None:
    weight = numbers(100, 24, seed=1, most=5).to(torch.int8)
    scale, bias = numbers(100, 1, seed=2).abs() + 1, numbers(100, seed=3)
    quantised = nn.Module()
    quantised.weight = nn.Parameter(weight, requires_grad=False)
    quantised.bias = nn.Parameter(bias)
    vocab = vocab_of(40, 100)
    head = prune_lm_head(quantised, vocab, scale=scale)
    hidden = numbers(9, 24, seed=4)
    logits = hidden @ weight.float().T * scale[:, 0] + bias
    assert torch.equal(head(hidden), logits[:, torch.from_numpy(vocab.target_ids)])
    chosen = GreedySampler(head)(hidden)
    assert chosen.tolist() == by_definition(logits, vocab.target_ids.tolist())
    unscaled = prune_lm_head(weight.float(), vocab)
    assert chosen.tolist() != GreedySampler(unscaled)(hidden).tolist()


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.int8])
def test_r9_packed_and_block_wise_heads_are_refused(dtype: torch.dtype) -> None:
    weight = torch.zeros(100, 24, dtype=dtype)
    with pytest.raises(HeadError, match="one scale for each row"):
        prune_lm_head(weight, vocab_of(40, 100))
    with pytest.raises(HeadError, match=r"\[100, 3\] beside a weight|of torch\.(int32|uint8);"):
        prune_lm_head(weight, vocab_of(40, 100), scale=torch.ones(100, 3))


def test_r10_refresh_is_pruning_again_in_place() -> None:
    vocab = vocab_of(40, 100)
    head = prune_lm_head(linear(), vocab)
    addresses = [part.data_ptr() for part in (head.weight, head.bias) if part is not None]
    new = linear(seed=9)
    head.refresh(new)
    again = prune_lm_head(new, vocab)
    assert torch.equal(head.weight, again.weight)
    assert head.bias is not None and again.bias is not None
    assert torch.equal(head.bias, again.bias)
    assert addresses == [head.weight.data_ptr(), head.bias.data_ptr()]


def test_r10_refresh_refuses_what_does_not_fit_and_changes_nothing() -> None:
    head = prune_lm_head(linear(), vocab_of(40, 100))
    before = head.weight.clone()
    for wrong, match in (
        (linear(bias=False), "the old head has a bias, the new has none"),
        (linear(width=23), r"expected torch.float32 \[40, 24\]"),
        (linear().to(torch.bfloat16), "expected torch.float32"),
        (linear(rows=20), "have no row in a head of"),
    ):
        with pytest.raises(HeadError, match=match):
            head.refresh(wrong)
    assert torch.equal(head.weight, before)


def test_m13_identity_has_no_map() -> None:
    head = prune_lm_head(numbers(50, 24, seed=1), DraftVocab.from_ids(range(50), rows=50))
    assert head.target_ids is None
    hidden = numbers(9, 24, seed=2)
    logits = hidden @ head.weight.T
    assert GreedySampler(head)(hidden).tolist() == by_definition(logits, range(50))
    assert torch.equal(expand_logits(head, logits), logits)


def test_m7_padded_rows_are_accepted_and_missing_ones_refused() -> None:
    vocab = DraftVocab.from_ids([5, 1, 3], rows=8)
    assert torch.equal(prune_lm_head(numbers(12, 4), vocab).weight, numbers(12, 4)[[1, 3, 5]])
    with pytest.raises(HeadError, match=r"1 of 3 ids, up to 5, have no row in a head of \[5, 4\]"):
        prune_lm_head(numbers(5, 4), vocab)


def test_from_a_table_a_file_and_a_list(tok: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the abc the hello")
    table = count([str(tmp_path / "a.txt")], str(tok))
    table.save(tmp_path / "vocab_freq.safetensors")
    wanted = table.select(270 - 10).target_ids
    weight = numbers(table.rows, 4)
    table.select(260).save(tmp_path / "kept.safetensors")
    (tmp_path / "ids.json").write_text(str(table.select(260).ranked.tolist()))
    heads = [
        prune_lm_head(weight, table, size=260),
        prune_lm_head(weight, tmp_path / "vocab_freq.safetensors", size=260),
        prune_lm_head(weight, str(tmp_path), size=260),
        prune_lm_head(weight, str(tmp_path / "kept.safetensors")),
        prune_lm_head(weight, str(tmp_path / "ids.json")),
    ]
    for head in heads:
        assert np.array_equal(head.vocab.target_ids, wanted)
    with pytest.raises(SelectionError, match="size given with a vocabulary of 260 ids"):
        prune_lm_head(weight, str(tmp_path / "kept.safetensors"), size=4)
    with pytest.raises(FileFormatError, match="no file"):
        prune_lm_head(weight, str(tmp_path / "nothing.safetensors"))


def test_not_a_head() -> None:
    with pytest.raises(HeadError, match="ReLU with no weight"):
        prune_lm_head(nn.ReLU(), vocab_of(4, 10))
    with pytest.raises(HeadError, match=r"Tensor with a weight of \[10\]"):
        prune_lm_head(torch.zeros(10), vocab_of(4, 10))
    with pytest.raises(HeadError, match=r"\[3, 4\]; expected \[4, H\]"):
        PrunedHead(torch.zeros(3, 4), vocab_of(4, 10))


@pytest.mark.parametrize("wrong", [0.0, -1.0, float("nan"), float("inf")])
def test_a_scale_that_would_change_the_argmax_is_refused(wrong: float) -> None:
    with pytest.raises(HeadError, match="logit_scale"):
        Shape(logit_scale=wrong)
    assert GreedySampler(prune_lm_head(linear(), vocab_of(4, 100), shape=Shape(0.5, 30.0)))


def test_logits_are_scaled_and_capped() -> None:
    vocab = vocab_of(40, 100)
    plain, shaped = (prune_lm_head(linear(), vocab, shape=s) for s in (None, Shape(0.5, 3.0)))
    hidden = numbers(5, 24)
    torch.testing.assert_close(shaped(hidden), 3 * (plain(hidden) * 0.5 / 3).tanh())
    sampled = [GreedySampler(head)(hidden) for head in (plain, shaped)]
    assert torch.equal(*sampled)


def test_expand_puts_logits_where_their_ids_are() -> None:
    head = head_of(3, 4, 8)
    logits = torch.arange(6.0).view(2, 3)
    for out in (None, torch.full((2, 11), 5.0)):
        wide = expand_logits(head, logits, out=out)
        assert torch.equal(wide[:, torch.from_numpy(head.vocab.target_ids)], logits)
        assert wide.isinf().sum() == wide.numel() - 6
    with pytest.raises(HeadError, match=r"expected torch.float32 \[2, 8\] or wider"):
        expand_logits(head, logits, out=torch.empty(2, 7))


def test_it_moves_and_converts_as_a_module() -> None:
    head = head_of().to(torch.bfloat16)
    assert head.weight.dtype == torch.bfloat16
    assert head.target_ids is not None and head.target_ids.dtype == torch.int64
    assert set(head.state_dict()) == {"weight", "target_ids"}
    assert "K=40 of V=100, H=24" in repr(head)


def test_a_state_of_other_ids_is_refused() -> None:
    head, other = (
        head_of(),
        prune_lm_head(numbers(100, 24), DraftVocab.from_ids(range(40), rows=100)),
    )
    with pytest.raises(HeadError, match="a state of 40 rows of other ids"):
        other.load_state_dict(head.state_dict())
    again = prune_lm_head(numbers(100, 24, seed=5), head.vocab)
    again.load_state_dict(head.state_dict())
    assert torch.equal(again.weight, head.weight)


def test_scales_keep_their_dtype_when_a_head_is_converted() -> None:
    weight, scale = numbers(100, 24, seed=1).to(torch.int8), torch.full((100,), 1e-8)
    head, hidden = prune_lm_head(weight, vocab_of(40, 100), scale=scale), numbers(9, 24)
    before = GreedySampler(head)(hidden)
    assert torch.equal(GreedySampler(head.half())(hidden), before)
    assert head.scale is not None and head.scale.dtype == torch.float32


def test_what_was_made_in_inference_mode_works_outside_of_it() -> None:
    with torch.inference_mode():
        head = prune_lm_head(linear(), vocab_of(40, 100))
        sampler = GreedySampler(head)
        first = sampler(numbers(9, 24))
    assert torch.equal(sampler(numbers(9, 24)), first)
    head.refresh(linear(seed=4))


@pytest.mark.parametrize("batch", [2, 9])
def test_hidden_states_get_gradients(batch: int) -> None:
    head, hidden = head_of(), numbers(batch, 24).requires_grad_()
    head(hidden).sum().backward()
    assert hidden.grad is not None
    assert torch.equal(hidden.grad, head.weight.sum(0).expand(batch, 24))


def test_float64_is_refused() -> None:
    with pytest.raises(HeadError, match="a weight of torch.float64; expected bfloat16"):
        prune_lm_head(numbers(100, 24).double(), vocab_of(4, 100))


@pytest.mark.parametrize("batch", [1, 9])
def test_float16_sums_beyond_its_range_do_not_tie_under_a_scale(batch: int) -> None:
    weight = torch.zeros(10, 64, dtype=torch.float16)
    weight[7], weight[3] = 2_000, 1_500
    head = prune_lm_head(weight, vocab_of(10, 10), scale=torch.full((10,), 1e-3))
    hidden = torch.ones(batch, 64, dtype=torch.float16)
    assert GreedySampler(head)(hidden).tolist() == [7] * batch
