"""The kernels against their definition: interpreted on a CPU, compiled where there is a GPU.

Triton asks TRITON_INTERPRET when it is imported and when a kernel is defined, so it is set here, at
collection, before any test runs. No other test module imports triton or the kernels when it is
collected, and on a machine without CUDA nothing could use them compiled, so the process loses
nothing; `test_the_kernels_are_interpreted_here` tells if that ever changes. Children that must
compile (`test_kernels_compile`) drop the variable.
"""

import os
from importlib.util import find_spec

import pytest

pytest.importorskip("torch", reason="torch is not installed")
if find_spec("triton") is None:
    if os.environ.get("VOCABFREQ_REQUIRE_REAL"):
        pytest.fail("triton is not installed, and VOCABFREQ_REQUIRE_REAL is set")
    pytest.skip("triton is not installed", allow_module_level=True)

import torch

GPU = torch.cuda.is_available()
if not GPU:
    os.environ["TRITON_INTERPRET"] = "1"

import triton  # noqa: E402  the variable comes first
import triton.language as tl  # noqa: E402
from torch import Tensor  # noqa: E402

from vocabfreq.runtime import kernels, launch, packed_keys, reference  # noqa: E402
from vocabfreq.runtime.reference import SampleParams, unpack_bitmask  # noqa: E402

# The interpreter computes with numpy, which warns of infinities that a GPU passes over.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INF, NAN = float("inf"), float("nan")
DTYPES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.fixture(
    params=[
        pytest.param("cpu", marks=pytest.mark.skipif(GPU, reason="compiled for the GPU here")),
        pytest.param(
            "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not GPU, reason="no CUDA device")]
        ),
    ]
)
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ints(*shape: int, seed: int = 0) -> Tensor:
    """Small whole numbers: products and sums are exact, ties are plenty."""
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(seed)).float()


def shuffled(rows: int, seed: int = 1) -> Tensor:
    """Target ids in no order."""
    return torch.randperm(3 * rows, generator=torch.Generator().manual_seed(seed))[:rows]


def grammar(batch: int, ids: Tensor, share: float) -> Tensor:
    """A bitmask that allows about this share of all ids; int32 [B, words]."""
    words = int(ids.max()) // 32 + 1
    bits = torch.rand(batch, words, 32, generator=torch.Generator().manual_seed(2)) < share
    values = (bits.long() << torch.arange(32)).sum(-1)
    return values.to(torch.int32)


def params(batch: int, device: str, temperature: float, **shape: float) -> SampleParams:
    seed, step = torch.tensor([-(2**40) - 77]), torch.tensor([2**33 + 5])
    temperatures = torch.full((batch,), temperature)
    return SampleParams(temperatures.to(device), seed.to(device), step.to(device), **shape)


def head_is_right(hidden: Tensor, weight: Tensor, ids: Tensor | None, **options: Tensor) -> None:
    """Keys equal to the reference's, and ids too when written into poisoned buffers."""
    wanted = reference.greedy(hidden, weight, ids, **options)
    assert launch.greedy(hidden, weight, ids, **options).equal(wanted)
    out, scratch = poisoned(hidden, len(weight))
    assert launch.greedy(hidden, weight, ids, **options, out=out, scratch=scratch) is out
    assert out.equal(packed_keys.unpack_ids(wanted))


def logits_are_right(logits: Tensor, ids: Tensor | None, bitmask: Tensor | None = None) -> None:
    wanted = reference.greedy_logits(logits, ids, bitmask)
    assert launch.greedy_logits(logits, ids, bitmask).equal(wanted)
    out, scratch = poisoned(logits, logits.shape[1])
    assert launch.greedy_logits(logits, ids, bitmask, out=out, scratch=scratch) is out
    assert out.equal(packed_keys.unpack_ids(wanted))


def poisoned(like: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """An `out` and a `scratch` in which anything left unwritten wins and shows."""
    most = torch.iinfo(torch.int64).max
    size = launch.scratch_size(len(like), rows)
    made = (torch.full((n,), most, device=like.device) for n in (len(like), size))
    out, scratch = made
    return out, scratch


def test_the_kernels_are_interpreted_here() -> None:
    assert launch.INTERPRETED is not GPU, (
        "something imported triton before TRITON_INTERPRET was set"
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("batch", "rows", "width"), [(1, 7, 16), (3, 65, 40), (17, 130, 33)])
def test_r5_a_head_of_odd_sizes(
    device: str, dtype: torch.dtype, batch: int, rows: int, width: int
) -> None:
    hidden, weight = ints(batch, width).to(device, dtype), ints(rows, width).to(device, dtype)
    head_is_right(hidden, weight, shuffled(rows).to(device))
    head_is_right(hidden, weight, None)


@pytest.mark.parametrize(("batch", "rows"), [(63, 1), (63, 65), (65, 33), (1, 1001)])
def test_r5_many_rows_and_many_tiles(device: str, batch: int, rows: int) -> None:
    hidden, weight = ints(batch, 20).to(device), ints(rows, 20, seed=1).to(device)
    head_is_right(hidden, weight, shuffled(rows).to(device))


def test_r5_an_empty_batch(device: str) -> None:
    hidden, weight, ids = ints(0, 8).to(device), ints(7, 8).to(device), shuffled(7).to(device)
    head_is_right(hidden, weight, ids)
    logits_are_right(ints(0, 7).to(device), ids)
    drawn = launch.sample(hidden, weight, ids, params(0, device, 1.0))
    assert [len(part) for part in drawn] == [0, 0, 0]


@pytest.mark.parametrize("form", ["transposed", "sliced", "expanded"])
def test_r2_hidden_of_any_strides(device: str, form: str) -> None:
    hidden = {
        "transposed": ints(40, 5).T,
        "sliced": ints(10, 90)[::2, 3:83:2],
        "expanded": ints(1, 40).expand(5, 40),
    }[form]
    head_is_right(hidden.to(device), ints(70, 40, seed=3).to(device), shuffled(70).to(device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("form", ["contiguous", "transposed", "sliced", "expanded"])
def test_r5_logits_of_any_strides(device: str, form: str, dtype: torch.dtype) -> None:
    logits = {
        "contiguous": ints(3, 2500),
        "transposed": ints(1025, 3).T,
        "sliced": ints(6, 200)[::2, 1:195:3],
        "expanded": ints(1, 65).expand(3, 65),
    }[form]
    ids = shuffled(logits.shape[1]).to(device)
    logits_are_right(logits.to(device, dtype), ids)
    logits_are_right(logits.to(device, dtype), None)


@pytest.mark.parametrize("hidden_dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
def test_r9_eight_bits_with_scale_and_bias(
    device: str, dtype: torch.dtype, hidden_dtype: torch.dtype
) -> None:
    hidden, weight = ints(3, 40).to(device, hidden_dtype), ints(70, 40).to(device, dtype)
    scale, bias = 2.0 ** ints(70, seed=4).to(device), ints(70, seed=5).to(device, hidden_dtype)
    head_is_right(hidden, weight, shuffled(70).to(device), scale=scale, bias=bias)


def test_r9_float8_read_as_bytes(device: str) -> None:
    numbers = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)[:, None].to(device)
    weight, hidden = numbers.repeat(1, 2), torch.tensor([[1.0, 0.0]], device=device).half()
    for row in (0, 1, 7, 8, 126, 127, 129, 254, 255):  # zero, subnormals, the ends, NaN
        byte = weight[row : row + 1]
        key = launch.greedy(hidden, byte.view(torch.uint8).contiguous(), None)
        assert key.equal(reference.greedy(hidden, byte.half(), None))


@pytest.mark.parametrize("share", [0.5, 0.0, 1.0])
def test_r11_a_grammar_that_allows_some_none_or_all(device: str, share: float) -> None:
    ids = shuffled(70)
    bitmask = grammar(3, ids, share).to(device)
    head_is_right(ints(3, 40).to(device), ints(70, 40).to(device), ids.to(device), bitmask=bitmask)
    logits_are_right(ints(3, 70).to(device), ids.to(device), bitmask)
    drawn = launch.sample_logits(
        ints(3, 70).to(device), ids.to(device), params(3, device, 1.0), bitmask
    )
    if not share:
        assert (drawn.keys == packed_keys.NOTHING).all()
        assert (drawn.logits == -INF).all() and (drawn.logsumexp == -INF).all()


def test_r11_an_allowed_minus_infinity_beats_a_forbidden_number(device: str) -> None:
    logits = torch.tensor([[5.0, -INF, NAN]], device=device)
    bitmask = torch.tensor([[0b110]], dtype=torch.int32, device=device)
    assert packed_keys.unpack_ids(launch.greedy_logits(logits, None, bitmask)).tolist() == [1]


def special(device: str) -> Tensor:
    rows = torch.tensor([NAN, -INF, INF])[:, None].repeat(1, 70)
    mixed = torch.full((1, 70), NAN)
    mixed[0, 50] = INF
    return torch.cat([rows, mixed]).to(device)


def test_r4_rows_of_nan_and_infinities(device: str) -> None:
    ids = torch.arange(100, 170, device=device)
    key = launch.greedy_logits(special(device), ids)
    assert packed_keys.unpack_ids(key).tolist() == [100, 100, 100, 150]
    logits_are_right(special(device), ids)
    for shape in ({}, {"soft_cap": 30.0}):
        for temperature in (0.0, 1.0):
            sampling = params(4, device, temperature, **shape)
            found = launch.sample_logits(special(device), ids, sampling)
            wanted = reference.sample_logits(special(device), ids, sampling)
            assert found.keys[:2].equal(wanted.keys[:2]) and found.keys[3] == wanted.keys[3]
            assert packed_keys.unpack_ids(found.keys).equal(packed_keys.unpack_ids(wanted.keys))
            torch.testing.assert_close(found.logits, wanted.logits)
            torch.testing.assert_close(found.logsumexp, wanted.logsumexp)


def test_r4_a_head_whose_products_are_nan(device: str) -> None:
    bias = torch.tensor([NAN, -INF, NAN, -INF], device=device)
    ids = torch.tensor([9, 4, 7, 5], device=device)
    key = launch.greedy(ints(2, 16).to(device), ints(4, 16).to(device), ids, bias)
    assert packed_keys.unpack_ids(key).tolist() == [4, 4]


def test_r3_a_tie_goes_to_the_lowest_target_id(device: str) -> None:
    hidden, weight = torch.ones(20, 16, device=device), torch.ones(200, 16, device=device)
    ids = shuffled(200).to(device)
    for key in (launch.greedy(hidden, weight, ids), launch.greedy_logits(hidden @ weight.T, ids)):
        assert (packed_keys.unpack_ids(key) == ids.min()).all()


def test_r12_the_zeros_tie(device: str) -> None:
    logits = torch.tensor([[-0.0, 0.0], [0.0, -0.0], [-1.0, -0.0]], device=device)
    assert packed_keys.unpack_ids(launch.greedy_logits(logits, None)).tolist() == [0, 0, 1]
    swapped = torch.tensor([8, 3], device=device)
    assert packed_keys.unpack_ids(launch.greedy_logits(logits, swapped)).tolist() == [3, 3, 3]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_random_numbers_within_the_rounding_bound(device: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    hidden = torch.randn(17, 200, generator=generator).to(device, dtype)
    weight = torch.randn(130, 200, generator=generator).to(device, dtype)
    chosen = packed_keys.unpack_ids(launch.greedy(hidden, weight, None))
    exact = hidden.double() @ weight.double().T
    bound = 200 * 2.0**-23 * (hidden.double().abs() @ weight.double().abs().T).amax(1)
    lost = exact.amax(1) - exact.gather(1, chosen[:, None])[:, 0]
    assert (lost <= 2 * bound).all()


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def philox_kernel(seed, step, rows, ids, words, K, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: N803
    k = tl.arange(0, BLOCK)[:, None]
    row = tl.arange(0, 16)[None, :]
    found = kernels.philox(tl.load(seed), tl.load(step), tl.load(rows + row), tl.load(ids + k))
    tl.store(words + row * K + k, found.to(tl.int64))


@pytest.mark.parametrize(("seed", "step"), [(0, 0), (2**40 + 3, 2**33 + 1), (-1, -(2**35))])
def test_philox_words_are_bit_equal(device: str, seed: int, step: int) -> None:
    ids, rows = shuffled(64).to(device), torch.arange(16, device=device) * 1000
    a, b = torch.tensor([seed], device=device), torch.tensor([step], device=device)
    words = torch.full((16, 64), -1, device=device)
    philox_kernel[(1,)](a, b, rows, ids, words, 64, BLOCK=64)
    low, high = b & 0xFFFFFFFF, (b >> 32) & 0xFFFFFFFF
    assert words.equal(reference.philox(a, ids[None, :], rows[:, None], low, high))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_sampling_at_temperature_0_is_greedy(device: str, dtype: torch.dtype) -> None:
    hidden, weight = ints(5, 40).to(device, dtype), ints(70, 40, seed=3).to(device, dtype)
    ids, sampling = shuffled(70).to(device), params(5, device, 0.0)
    found = launch.sample(hidden, weight, ids, sampling)
    wanted = reference.sample(hidden, weight, ids, sampling)
    assert found.keys.equal(wanted.keys) and found.keys.equal(reference.greedy(hidden, weight, ids))
    assert found.logits.equal(wanted.logits)
    torch.testing.assert_close(found.logsumexp, wanted.logsumexp)


@pytest.mark.parametrize("batch", [1, 17])
@pytest.mark.parametrize("shape", [{}, {"logit_scale": 0.25, "soft_cap": 3.0}], ids=["", "capped"])
def test_samples_are_the_references(device: str, batch: int, shape: dict[str, float]) -> None:
    generator = torch.Generator().manual_seed(8)
    hidden = torch.randn(batch, 40, generator=generator).to(device)
    weight = torch.randn(70, 40, generator=generator).to(device)
    ids = shuffled(70)
    bitmask = grammar(batch, ids, 0.7).to(device) if shape else None
    sampling = params(batch, device, 0.8, **shape)
    wanted = reference.sample(hidden, weight, ids.to(device), sampling, bitmask=bitmask)
    logits = reference.head_logits(hidden, weight)
    for found in (
        launch.sample(hidden, weight, ids.to(device), sampling, bitmask=bitmask),
        launch.sample_logits(logits, ids.to(device), sampling, bitmask),
    ):
        noisy, best = packed_keys.unpack_values(found.keys), packed_keys.unpack_values(wanted.keys)
        torch.testing.assert_close(noisy, best, rtol=0, atol=1e-4)
        same = found.keys == wanted.keys
        same |= packed_keys.unpack_ids(found.keys) == packed_keys.unpack_ids(wanted.keys)
        assert same.float().mean() > 0.9
        torch.testing.assert_close(found.logits[same], wanted.logits[same], rtol=0, atol=1e-4)
        exact = tempered(logits, sampling, ids.to(device), bitmask).logsumexp(1).float()
        torch.testing.assert_close(found.logsumexp, exact, rtol=0, atol=1e-4)


def tempered(logits: Tensor, sampling: SampleParams, ids: Tensor, bitmask: Tensor | None) -> Tensor:
    """Logits over the temperature in float64."""
    values = logits.double() * sampling.logit_scale
    if sampling.soft_cap:
        values = sampling.soft_cap * (values / sampling.soft_cap).tanh()
    values = values / sampling.temperature[:, None].double()
    mask = unpack_bitmask(bitmask, ids)
    return values if mask is None else values.masked_fill(~mask, -INF)


CONFIGS = [
    (bucket, config, sizes)
    for sizes in ((2, 2), (2, 1), (4, 4))
    for bucket in launch.BUCKETS
    for capability in (90, 100)
    for config in launch.configs(bucket, *sizes, capability)
]


@pytest.mark.parametrize(("bucket", "config", "sizes"), CONFIGS)
def test_every_configuration_gives_the_same(
    device: str,
    bucket: int,
    config: launch.Config,
    sizes: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dtype = {1: torch.int8, 2: torch.bfloat16, 4: torch.float32}[sizes[1]]
    hidden = ints(bucket - 1, 300).to(device, torch.float32 if sizes[0] == 4 else torch.bfloat16)
    weight, ids = ints(130, 300, seed=1).to(device, dtype), shuffled(130).to(device)
    meta = {"BLOCK_K": config.block_k, "BLOCK_H": config.block_h}
    if GPU:
        meta |= {"num_warps": config.num_warps, "num_stages": config.num_stages}
    monkeypatch.setattr(launch, "_head_kernel", lambda: (kernels.head_kernel, meta))
    assert launch.greedy(hidden, weight, ids).equal(reference.greedy(hidden, weight, ids))


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("bucket", launch.BUCKETS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.bfloat16, torch.float32], ids=str)
def test_a_card_times_the_configurations_of_its_bucket(
    bucket: int, dtype: torch.dtype, capability: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_capability", lambda _: capability)
    tensors = {"hidden": ints(1).bfloat16(), "weight": ints(1).to(dtype)}
    every = list(launch.ALL_CONFIGS)
    wanted = launch.configs(bucket, 2, dtype.itemsize, capability)
    assert set(launch._fitting(every, tensors, BLOCK_B=bucket)) == set(wanted)
    assert wanted


def test_large_batches_have_other_blocks_from_sm_100_on() -> None:
    """Other blocks for 64 batch rows spill registers there, with some versions of Triton."""
    lists = [launch.configs(64, 2, 2, capability) for capability in (80, 90, 100, 120)]
    assert lists[0] == lists[1] and lists[2] == lists[3]
    assert {config.block_k for config in lists[2]} == {64}
    assert launch.configs(64, 2, 1, 100) == lists[2]


@pytest.mark.parametrize("batch", [0, 1, 63, 70])
def test_samplers_give_the_same_by_triton_and_by_torch(batch: int, device: str) -> None:
    """The whole way, fused and, above 64 rows, through given logits; sampling too."""
    from heads import head_of, numbers

    from vocabfreq.runtime import GreedySampler, sample

    head, hidden = head_of(70, 24, 100).to(device), numbers(batch, 24, seed=3).to(device)
    out = torch.full((batch,), -77, device=device)
    assert GreedySampler(head, backend="triton")(hidden, out=out) is out
    assert torch.equal(out, GreedySampler(head, backend="torch")(hidden))
    drawn = [sample(head, hidden, seed=1, backend=b) for b in ("triton", "torch")]
    torch.testing.assert_close(drawn[0].logprobs, drawn[1].logprobs, rtol=1e-4, atol=1e-4)
