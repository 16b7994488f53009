"""GreedySampler against the contract written as a loop, on every path and batch size."""

import pytest
import torch
from heads import DTYPES, INF, NAN, bitmask_of, by_definition, head_of, numbers, vocab_of

from vocabfreq import DraftVocab
from vocabfreq.errors import HeadError
from vocabfreq.runtime import GreedySampler, PrunedHead, draft_chain, prune_lm_head, reference
from vocabfreq.runtime.packed_keys import unpack_ids

POISON = -77


def poisoned(size: int) -> torch.Tensor:
    return torch.full((size,), POISON)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [0, 1, 3, 5, 8, 63, 130])
@pytest.mark.parametrize(("size", "width", "rows"), [(1, 1, 9), (7, 24, 100), (600, 37, 701)])
def test_r3_r5_equal_to_the_loop(
    size: int, width: int, rows: int, batch: int, dtype: torch.dtype
) -> None:
    full, hidden = numbers(rows, width, dtype=dtype, seed=1), numbers(batch, width, dtype=dtype)
    vocab = vocab_of(size, rows)
    head = prune_lm_head(full, vocab)
    wanted = by_definition(hidden.float() @ full.float().T, vocab.target_ids.tolist())
    sampler, out = GreedySampler(head), poisoned(batch)
    assert sampler(hidden, out=out) is out
    assert out.tolist() == wanted
    assert sampler(hidden).tolist() == wanted
    assert unpack_ids(reference.greedy(hidden, *head.tensors)).tolist() == wanted
    out = poisoned(batch)
    assert sampler.of_logits(head(hidden), out=out).tolist() == wanted


def test_r5_a_thousand_rows_and_an_odd_number_of_ids() -> None:
    full, hidden = numbers(40_001, 3, seed=1), numbers(1_000, 3)
    vocab = vocab_of(32_001, 40_001)
    logits = (hidden @ full.T)[:, torch.from_numpy(vocab.target_ids)]
    wanted = torch.from_numpy(vocab.target_ids)[logits.argmax(1)]
    assert torch.equal(GreedySampler(prune_lm_head(full, vocab))(hidden), wanted)


def test_r3_reference_takes_the_lowest_target_id_of_unsorted_ones() -> None:
    ids = torch.tensor([9, 2, 7, 4])
    logits = torch.tensor([[1.0, 1.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 3.0, 3.0]])
    assert unpack_ids(reference.greedy_logits(logits, ids)).tolist() == [2, 2, 4]


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("dtype", DTYPES)
def test_r4_nan_and_infinities(dtype: torch.dtype, batch: int) -> None:
    head = head_of(6, 4, 10)
    ids = head.vocab.target_ids.tolist()
    rows = [
        [NAN] * 6,
        [-INF] * 6,
        [INF] * 6,
        [NAN, NAN, NAN, INF, NAN, 1.0],
        [-INF, NAN, 0, 0, 1, 1],
    ]
    logits = torch.tensor(rows, dtype=dtype).repeat(batch, 1)
    wanted = [ids[0], ids[0], ids[0], ids[3], ids[4]] * batch
    assert GreedySampler(head).of_logits(logits).tolist() == wanted
    assert unpack_ids(reference.greedy_logits(logits, head.target_ids)).tolist() == wanted


@pytest.mark.parametrize("batch", [1, 9])
def test_r4_nan_in_hidden(batch: int) -> None:
    head = head_of()
    hidden = torch.full((batch, 24), NAN)
    assert GreedySampler(head)(hidden).tolist() == [int(head.vocab.target_ids[0])] * batch


@pytest.mark.parametrize("dtype", DTYPES)
def test_r12_minus_zero_ties_zero(dtype: torch.dtype) -> None:
    head = head_of(3, 4, 10)
    ids = head.vocab.target_ids.tolist()
    logits = torch.tensor([[-1.0, -0.0, 0.0], [-1.0, 0.0, -0.0], [-0.0, 0.0, -1.0]], dtype=dtype)
    assert GreedySampler(head).of_logits(logits).tolist() == [ids[1], ids[1], ids[0]]
    assert unpack_ids(reference.greedy_logits(logits, head.target_ids)).tolist() == [
        ids[1],
        ids[1],
        ids[0],
    ]


@pytest.mark.parametrize("rows", [100, 64, 33])
def test_r11_grammar_masks(rows: int) -> None:
    full, hidden, vocab = numbers(rows, 24, seed=1), numbers(4, 24), vocab_of(20, rows)
    kept = vocab.target_ids.tolist()
    others = [i for i in range(rows) if i not in kept]
    allowed = [range(rows), others, [kept[3], *others], kept[5::2]]
    chosen = GreedySampler(prune_lm_head(full, vocab))(hidden, bitmask=bitmask_of(allowed, rows))
    assert chosen.tolist() == by_definition(hidden @ full.T, kept, allowed)
    assert chosen[1] == -1


def test_r11_allowed_ids_of_minus_infinity_beat_forbidden_ones() -> None:
    head = head_of(3, 4, 10)
    ids = head.vocab.target_ids.tolist()
    mask = bitmask_of([[ids[2], ids[1]]], 10)
    logits = torch.tensor([[5.0, -INF, NAN]])
    assert GreedySampler(head).of_logits(logits, bitmask=mask).tolist() == [ids[1]]


def test_hidden_may_have_any_strides() -> None:
    head, sampler = head_of(), GreedySampler(head_of())
    plain = numbers(9, 24, seed=3)
    for hidden in (plain.t().contiguous().t(), torch.cat([plain, plain], 1)[:, :24]):
        assert torch.equal(sampler(hidden), GreedySampler(head)(plain))
    assert torch.equal(sampler(plain[:1].expand(7, 24)), sampler(plain[:1]).expand(7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("batch", [1, 4, 5, 64])
def test_random_floats_are_within_rounding_of_the_maximum(batch: int, dtype: torch.dtype) -> None:
    made = torch.Generator().manual_seed(5)
    full = torch.randn(3_000, 130, generator=made).to(dtype)
    hidden = torch.randn(batch, 130, generator=made).to(dtype)
    head = prune_lm_head(full, vocab_of(700, 3_000))
    exact = hidden.double() @ head.weight.double().T
    bound = 2 * torch.finfo(dtype).eps * (hidden.double().abs() @ head.weight.double().abs().T)
    places = torch.from_numpy(head.vocab.to_draft(GreedySampler(head)(hidden).numpy()))
    chosen = exact.gather(1, places[:, None])[:, 0]
    assert (exact.amax(1) - chosen <= bound.amax(1)).all()


def test_buffers_of_one_call_do_not_leak_into_the_next() -> None:
    full, vocab = numbers(200, 16, seed=1), vocab_of(90, 200)
    sampler = GreedySampler(prune_lm_head(full, vocab))
    for seed, batch in enumerate([64, 1, 8, 3, 63, 2]):
        hidden = numbers(batch, 16, seed=seed)
        assert sampler(hidden).tolist() == by_definition(hidden @ full.T, vocab.target_ids.tolist())


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_nothing_large_is_allocated_after_the_first_call(batch: int) -> None:
    full, vocab = numbers(4_000, 64, seed=1).bfloat16(), vocab_of(2_000, 4_000)
    sampler, hidden = GreedySampler(prune_lm_head(full, vocab)), numbers(batch, 64).bfloat16()
    out = poisoned(batch)
    sampler(hidden, out=out)
    with torch.profiler.profile(profile_memory=True) as seen:
        sampler(hidden, out=out)
    largest = max(abs(event.self_cpu_memory_usage) for event in seen.events())
    assert largest <= 8 * batch  # a truth value or a number for each row


@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")  # torch warns about itself
def test_torch_compile_traces_in_one_graph_and_agrees() -> None:
    torch._dynamo.reset()
    head = head_of()
    sampler, mask = GreedySampler(head), bitmask_of([range(50)] * 5, 100)
    compiled = torch.compile(lambda h, m: sampler(h * 2, bitmask=m) + 1, fullgraph=True)
    hidden = numbers(5, 24)
    assert torch.equal(compiled(hidden, mask), sampler(hidden, bitmask=mask) + 1)
    assert torch.equal(compiled(hidden, None), sampler(hidden) + 1)


def test_custom_ops_are_registered_as_torch_wants_them() -> None:
    from vocabfreq.runtime.dispatch import greedy_op

    head, hidden = head_of(), numbers(3, 24)
    args = (hidden, *head.tensors, None, False, False, poisoned(3))
    result = torch.library.opcheck(greedy_op, args, raise_exception=False)
    assert set(result.values()) == {"SUCCESS"}, result


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"out": torch.empty(3, dtype=torch.int32)}, "expected torch.int64"),
        ({"out": torch.empty(2, dtype=torch.int64)}, r"expected torch.int64 \[3\]"),
        ({"out": torch.empty(6, dtype=torch.int64)[::2]}, "not contiguous"),
        ({"bitmask": torch.empty(3, 3, dtype=torch.int32)}, r"expected torch.int32 \[3, 4\]"),
        ({"bitmask": torch.empty(3, 4, dtype=torch.int64)}, "a bit for each target id"),
        ({"bitmask": torch.empty(2, 4, dtype=torch.int32)}, r"expected torch.int32 \[3, 4\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given: dict[str, torch.Tensor], match: str) -> None:
    with pytest.raises(HeadError, match=match):
        GreedySampler(head_of())(numbers(3, 24), **given)


def test_backends_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(HeadError, match="backend 'cuda'; expected auto, triton or torch"):
        GreedySampler(head_of(), backend="cuda")  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(HeadError, match="no Triton for cpu"):
            GreedySampler(head_of(), backend="triton")


def test_a_chain_drafts_one_token_after_the_other() -> None:
    full = torch.eye(10)
    head = prune_lm_head(full, DraftVocab.from_ids([1, 2, 4, 8], rows=10))
    assert isinstance(head, PrunedHead)

    def step(ids: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        assert torch.equal(hidden.argmax(1), ids)
        return full[ids * 2 % 10]

    drafted = draft_chain(step, GreedySampler(head), full[[1, 4]], 3)
    assert drafted.tolist() == [[1, 2, 4], [4, 8, 1]]  # 8 → 6, which is not kept: all logits tie
