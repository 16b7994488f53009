"""`vocabfreq bench` and its library: a wrong result is never timed."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from vocabfreq.cli import main
from vocabfreq.errors import HeadError, WrongResultError
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure import bench as benching
from vocabfreq.measure.bench import Setup, benchmark, implementations
from vocabfreq.measure.bench.correctness import check_ids, full_logits
from vocabfreq.measure.bench.implementations import Implementation
from vocabfreq.measure.bench.setup import DTYPES
from vocabfreq.runtime.greedy import GreedySampler
from vocabfreq.runtime.head import PrunedHead, prune_lm_head

TINY = Setup(24, 90, (20, 90), (1, 3), "bfloat16", "cpu", 3, 1)
OTHERS = {
    "full head, argmax",
    "scatter to V, argmax",
    "argmax, add offset",
    "softmax, multinomial",
    "softmax, race",
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small copies, and one thread, since threads wait for each other on a busy machine."""
    monkeypatch.setitem(benchmark.COPY_BYTES, "cpu", 1 << 16)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Fails a test that expects a refusal, should anything be timed before it."""
    read: list[int] = []

    def count(call: object, repeats: int) -> float:
        read.append(repeats)
        return 1.0

    monkeypatch.setattr(benchmark, "_clock_cpu", count)
    yield read
    assert not read


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_implementation_is_timed_at_every_shape(dtype: str) -> None:
    result = benching.run(replace(TINY, dtype=dtype))
    assert [(cell.size, cell.batch_size) for cell in result.cells] == [
        (20, 1),
        (20, 3),
        (90, 1),
        (90, 3),
    ]
    for cell in result.cells:
        assert {one.implementation for one in cell.timings} == OTHERS | {"ours, torch"}
        assert [one.task for one in cell.timings if one.ours] == ["greedy", "sample"]
        assert cell.head_bytes == cell.size * 24 * DTYPES[dtype].itemsize
        for one in cell.timings:
            assert 0 < one.min_us <= one.median_us <= one.max_us
            assert set(one.ratios) == {cell.default}
            assert (one.copy_bandwidth_share is not None) == one.ours
            assert one.ratios[cell.default] == 1 or not one.ours


def test_a_ratio_is_the_median_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(TINY, sizes=(20,), batch_sizes=(1,))
    turns = {"full head, argmax": [10.0, 200.0, 60.0], "ours, torch": [10.0, 100.0, 20.0]}

    def taken(calls: list[Any], setup: Setup) -> list[list[float]]:
        names = [one.name for one in made]
        return [*(turns.get(name, [1.0, 1.0, 1.0]) for name in names), [2.0, 2.0, 2.0]]

    made: list[Implementation] = []
    every = implementations.implementations

    def noted(full: Tensor, head: PrunedHead, batch: int) -> list[Implementation]:
        made[:] = every(full, head, batch)
        return made

    monkeypatch.setattr(benchmark, "implementations", noted)
    monkeypatch.setattr(benchmark, "take_turns", taken)
    cell = benching.run(small).cells[0]
    first = cell.timings[0]
    assert (first.median_us, first.min_us, first.max_us) == (60, 10, 200)
    assert first.ratios == {"ours, torch": 2.0}  # the median of 1, 2 and 3, not 60 / 20
    ours = next(one for one in cell.timings if one.ours)
    assert cell.copy_gb_per_s == pytest.approx(2 * (1 << 16) / 2 / 1e3)
    assert ours.copy_bandwidth_share == pytest.approx(20 * 24 * 2 / 20 / (1 << 16))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ids: ids + 1,  # other ids, most of them not kept
        lambda ids: ids * 0,
        lambda ids: ids - 1000,
        lambda ids: ids + 1000,
    ],
)
@pytest.mark.parametrize("name", sorted(OTHERS | {"ours, torch"}))
@pytest.mark.usefixtures("clocks")
def test_a_wrong_implementation_stops_it(
    name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = implementations.implementations

    def broken(full: Tensor, head: PrunedHead, batch: int) -> list[Implementation]:
        return [
            one
            if one.name != name
            else replace(one, draft=lambda hidden, one=one: wrong(one.draft(hidden)))  # type: ignore[misc]
            for one in every(full, head, batch)
        ]

    monkeypatch.setattr(benchmark, "implementations", broken)
    with pytest.raises(
        WrongResultError, match=rf"(?s){name} .* gave the id .*no speed is reported"
    ):
        benching.run(replace(TINY, sizes=(2,), batch_sizes=(7,)))


def head_of(full: Tensor, ids: list[int]) -> PrunedHead:
    return prune_lm_head(full, DraftVocab.from_ids(np.array(ids), rows=len(full)))


def test_ours_has_to_give_the_lowest_of_a_tie_and_others_any() -> None:
    full = torch.tensor([[1.0], [2.0], [2.0], [3.0]])
    hidden = torch.ones(1, 1)
    head, logits = head_of(full, [0, 1, 2]), full_logits(hidden, full, exact=True)
    other = Implementation("other", "greedy", lambda _: torch.tensor([0]))
    ours = replace(other, name="ours", backend="torch")
    check_ids(other, torch.tensor([2]), head, logits)
    check_ids(ours, torch.tensor([1]), head, logits)
    with pytest.raises(WrongResultError, match=r"ours \(greedy\) gave the id 2 for row 0"):
        check_ids(ours, torch.tensor([2]), head, logits)
    with pytest.raises(WrongResultError, match="gave the id 3.*with the score -inf"):
        check_ids(other, torch.tensor([3]), head, logits)
    check_ids(replace(other, full_head=True), torch.tensor([3]), head, logits)


def test_rounding_is_allowed_and_no_more() -> None:
    full = torch.tensor([[1.0], [1.0 + 2**-7], [0.9]], dtype=torch.bfloat16)
    hidden = torch.ones(1, 1, dtype=torch.bfloat16)
    head, logits = head_of(full, [0, 1, 2]), full_logits(hidden, full, exact=False)
    ours = Implementation("ours", "greedy", lambda _: torch.tensor([0]), "torch")
    check_ids(ours, torch.tensor([0]), head, logits)
    with pytest.raises(WrongResultError, match="gave the id 2"):
        check_ids(ours, torch.tensor([2]), head, logits)


def test_an_implementation_that_cannot_be_compiled_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: Tensor) -> Tensor:
        raise OSError("no compiler\nand much more")

    every = implementations.implementations
    monkeypatch.setattr(
        benchmark,
        "implementations",
        lambda *given: [Implementation("c", "greedy", fails, compiled=True), *every(*given)],
    )
    cell = benching.run(replace(TINY, sizes=(20,), batch_sizes=(1,))).cells[0]
    assert cell.skipped == {"c": "OSError: no compiler"}
    assert "c" not in {one.implementation for one in cell.timings}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (91,)}, "K 91; expected at most V, 90 rows"),
        ({"sizes": ()}, "no sizes; expected at least one"),
        ({"batch_sizes": (1, 0)}, "batch_sizes 0; expected whole numbers from 1"),
        ({"hidden_size": 2.5}, "hidden_size 2.5"),
        ({"runs": True}, "runs True"),
        ({"dtype": "int8"}, "dtype 'int8'; expected bfloat16, float16, float32"),
        ({"device": "tpu"}, "device 'tpu'; expected cpu, cuda or auto"),
    ],
)
def test_bad_setups_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HeadError, match=message):
        replace(TINY, **change)


def test_a_head_larger_than_memory_is_refused() -> None:
    with pytest.raises(HeadError, match=r"2,000,000\.0 GB.*\n?.*fits into the memory of the cpu"):
        benching.run(replace(TINY, hidden_size=10**6, vocab_size=10**9))


def test_defaults_fit_the_device() -> None:
    here = benching.default_setup("cpu", runs=None)
    assert (here.hidden_size, here.sizes, here.batch_sizes) == (1024, (32_768,), (1, 8))
    assert benching.default_setup("cpu", vocab_size=100).sizes == (25,)
    assert benching.default_setup("cpu", vocab_size=3).sizes == (1,)
    known = "cuda" if torch.cuda.is_available() else "cpu"
    assert benching.default_setup("auto").device == known


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_cuda_without_a_gpu_is_refused() -> None:
    with pytest.raises(HeadError, match="no CUDA device here"):
        benching.default_setup("cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_graphs_are_timed_too() -> None:
    cell = benching.run(replace(TINY, device="cuda", batch_sizes=(3,))).cells[0]
    modes = {(one.implementation, one.mode) for one in cell.timings}
    assert {(cell.default, "eager"), (cell.default, "graph")} <= modes
    assert ("softmax, multinomial", "graph") not in modes


SMALL = ("--device", "cpu", "--hidden-size", "24", "--vocab-size", "90", "--runs", "1")


class Output(NamedTuple):
    code: object
    out: str
    err: str


@pytest.fixture
def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Output]:
    """The verb, in this process."""

    def run(*arguments: str) -> Output:
        monkeypatch.setattr(sys, "argv", ["vocabfreq", "bench", *SMALL, *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        return Output(stop.value.code, *capsys.readouterr())

    return run


def test_the_command_prints_a_table(bench: Callable[..., Output]) -> None:
    output = bench("--batch-sizes", "1, 3", "-q")
    assert (output.code, output.err) == (0, "")
    assert f"torch {torch.__version__}" in output.out and "threads: " in output.out
    assert "H = 24, V = 90, bfloat16" in output.out and "ours, torch" in output.out
    assert "Figures of a GPU are missing, and none is estimated" in output.out


def test_the_command_prints_json_and_progress(bench: Callable[..., Output]) -> None:
    output = bench("--sizes", "20,30", "--dtype", "float32", "--json")
    assert output.code == 0 and "checking ids" in output.err
    result = json.loads(output.out)
    assert result["setup"]["sizes"] == [20, 30] and result["setup"]["dtype"] == "float32"
    assert set(result["machine"]) == {"device", "torch", "triton", "threads", "python"}
    assert len(result["cells"]) == 4 and result["cells"][0]["timings"][0]["median_us"] > 0


def test_a_wrong_answer_ends_with_1_and_without_a_figure(
    bench: Callable[..., Output], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GreedySampler, "__call__", lambda *_, out: out.zero_())
    output = bench("--json", "-q")
    assert (output.code, output.out) == (1, "")
    assert output.err.startswith("error: ours, torch (greedy) gave the id 0")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--sizes", "91"], 1, "K 91; expected at most V, 90 rows"),
        (["--sizes", "0"], 2, "'0'; expected whole numbers from 1"),
        (["--sizes", "1,,2"], 2, "'1,,2'; expected"),
        (["--batch-sizes", "²"], 2, "'²'; expected"),
        (["--batch-sizes", "-1"], 2, "'-1'; expected"),
        (["--hidden-size", "x"], 2, "--hidden-size"),
        (["--runs", "0"], 2, "--runs"),
        (["--dtype", "int8"], 2, "--dtype"),
    ],
)
def test_bad_options_are_refused(
    arguments: list[str], code: int, message: str, bench: Callable[..., Output]
) -> None:
    output = bench(*arguments)
    assert (output.code, output.out) == (code, "")
    assert message in output.err


def test_without_torch_there_is_a_hint() -> None:
    code = "import sys; sys.modules['torch'] = None; from vocabfreq.cli import main; main()"
    command = [sys.executable, "-c", code, "bench"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: torch is not installed\npip install 'vocabfreq[runtime]'\n"
