"""`vocabfreq bench` and what it stands on: nothing wrong is ever timed."""

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
from vocabfreq.measure.bench import Setup, baselines, runner, timing
from vocabfreq.measure.bench.baselines import Contender
from vocabfreq.measure.bench.runner import check, truth
from vocabfreq.measure.bench.setup import DTYPES
from vocabfreq.runtime.head import PrunedHead, prune_lm_head
from vocabfreq.runtime.sampler import GreedySampler

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
    monkeypatch.setitem(timing.COPY_BYTES, "cpu", 1 << 16)
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

    monkeypatch.setattr(timing, "_clock_cpu", count)
    yield read
    assert not read


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_every_contender_is_timed_at_every_shape(dtype: str) -> None:
    result = benching.run(replace(TINY, dtype=dtype))
    assert [(cell.size, cell.batch_size) for cell in result.cells] == [
        (20, 1),
        (20, 3),
        (90, 1),
        (90, 3),
    ]
    for cell in result.cells:
        assert {one.contender for one in cell.timings} == OTHERS | {"ours, torch"}
        assert [one.task for one in cell.timings if one.ours] == ["greedy", "sample"]
        assert cell.head_bytes == cell.size * 24 * DTYPES[dtype].itemsize
        for one in cell.timings:
            assert 0 < one.lowest_us <= one.median_us <= one.highest_us
            assert set(one.ratios) == {cell.auto}
            assert (one.share_of_copy is not None) == one.ours
            assert one.ratios[cell.auto] == 1 or not one.ours


def test_a_ratio_is_the_median_over_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = replace(TINY, sizes=(20,), batch_sizes=(1,))
    turns = {"full head, argmax": [10.0, 200.0, 60.0], "ours, torch": [10.0, 100.0, 20.0]}

    def taken(calls: list[Any], setup: Setup) -> list[list[float]]:
        names = [one.name for one in made]
        return [*(turns.get(name, [1.0, 1.0, 1.0]) for name in names), [2.0, 2.0, 2.0]]

    made: list[Contender] = []
    whole = baselines.contenders

    def noted(full: Tensor, head: PrunedHead, batch: int) -> list[Contender]:
        made[:] = whole(full, head, batch)
        return made

    monkeypatch.setattr(runner, "contenders", noted)
    monkeypatch.setattr(runner, "take_turns", taken)
    cell = benching.run(kept).cells[0]
    first = cell.timings[0]
    assert (first.median_us, first.lowest_us, first.highest_us) == (60, 10, 200)
    assert first.ratios == {"ours, torch": 2.0}  # the median of 1, 2 and 3, not 60 / 20
    ours = next(one for one in cell.timings if one.ours)
    assert cell.copy_gb_per_s == pytest.approx(2 * (1 << 16) / 2 / 1e3)
    assert ours.share_of_copy == pytest.approx(20 * 24 * 2 / 20 / (1 << 16))


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
def test_a_wrong_contender_stops_it(name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = baselines.contenders

    def broken(full: Tensor, head: PrunedHead, batch: int) -> list[Contender]:
        return [
            one
            if one.name != name
            else replace(one, call=lambda hidden, one=one: wrong(one.call(hidden)))  # type: ignore[misc]
            for one in whole(full, head, batch)
        ]

    monkeypatch.setattr(runner, "contenders", broken)
    with pytest.raises(WrongResultError, match=f"{name} .* gave the id .*no speed is told"):
        benching.run(replace(TINY, sizes=(2,), batch_sizes=(7,)))


def head_of(full: Tensor, ids: list[int]) -> PrunedHead:
    return prune_lm_head(full, DraftVocab.from_ids(np.array(ids), rows=len(full)))


def test_ours_has_to_give_the_lowest_of_a_tie_and_others_any() -> None:
    full = torch.tensor([[1.0], [2.0], [2.0], [3.0]])
    hidden = torch.ones(1, 1)
    head, known = head_of(full, [0, 1, 2]), truth(hidden, full, exact=True)
    other = Contender("other", "greedy", lambda _: torch.tensor([0]))
    ours = replace(other, name="ours", backend="torch")
    check(other, torch.tensor([2]), head, known)
    check(ours, torch.tensor([1]), head, known)
    with pytest.raises(WrongResultError, match=r"ours \(greedy\) gave the id 2 for row 0"):
        check(ours, torch.tensor([2]), head, known)
    with pytest.raises(WrongResultError, match="gave the id 3.*with the score -inf"):
        check(other, torch.tensor([3]), head, known)
    check(replace(other, whole=True), torch.tensor([3]), head, known)


def test_rounding_is_allowed_and_no_more() -> None:
    full = torch.tensor([[1.0], [1.0 + 2**-7], [0.9]], dtype=torch.bfloat16)
    hidden = torch.ones(1, 1, dtype=torch.bfloat16)
    head, known = head_of(full, [0, 1, 2]), truth(hidden, full, exact=False)
    ours = Contender("ours", "greedy", lambda _: torch.tensor([0]), "torch")
    check(ours, torch.tensor([0]), head, known)
    with pytest.raises(WrongResultError, match="gave the id 2"):
        check(ours, torch.tensor([2]), head, known)


def test_a_contender_that_cannot_be_compiled_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(_: Tensor) -> Tensor:
        raise OSError("no compiler\nand much more")

    whole = baselines.contenders
    monkeypatch.setattr(
        runner,
        "contenders",
        lambda *given: [Contender("c", "greedy", fails, compiled=True), *whole(*given)],
    )
    cell = benching.run(replace(TINY, sizes=(20,), batch_sizes=(1,))).cells[0]
    assert cell.left_out == {"c": "OSError: no compiler"}
    assert "c" not in {one.contender for one in cell.timings}


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_what_cannot_be_measured_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(HeadError, match=said):
        replace(TINY, **change)


def test_a_head_beyond_memory_is_told() -> None:
    with pytest.raises(HeadError, match=r"2,000,000\.0 GB.*\n?.*fits into the memory of the cpu"):
        benching.run(replace(TINY, hidden_size=10**6, vocab_size=10**9))


def test_defaults_fit_the_device() -> None:
    here = benching.usual("cpu", runs=None)
    assert (here.hidden_size, here.sizes, here.batch_sizes) == (1024, (32_768,), (1, 8))
    assert benching.usual("cpu", vocab_size=100).sizes == (25,)
    assert benching.usual("cpu", vocab_size=3).sizes == (1,)
    known = "cuda" if torch.cuda.is_available() else "cpu"
    assert benching.usual("auto").device == known


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu_is_told() -> None:
    with pytest.raises(HeadError, match="no CUDA device here"):
        benching.usual("cuda")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu_graphs_are_timed_too() -> None:
    cell = benching.run(replace(TINY, device="cuda", batch_sizes=(3,))).cells[0]
    modes = {(one.contender, one.mode) for one in cell.timings}
    assert {(cell.auto, "eager"), (cell.auto, "graph")} <= modes
    assert ("softmax, multinomial", "graph") not in modes


SMALL = ("--device", "cpu", "--hidden-size", "24", "--vocab-size", "90", "--runs", "1")


class Told(NamedTuple):
    code: object
    out: str
    err: str


@pytest.fixture
def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Told]:
    """The verb, in this process."""

    def run(*arguments: str) -> Told:
        monkeypatch.setattr(sys, "argv", ["vocabfreq", "bench", *SMALL, *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Told(ended.value.code, *capsys.readouterr())

    return run


def test_the_command_prints_a_table(bench: Callable[..., Told]) -> None:
    told = bench("--batch-sizes", "1, 3", "-q")
    assert (told.code, told.err) == (0, "")
    assert f"torch {torch.__version__}" in told.out and "threads: " in told.out
    assert "H = 24, V = 90, bfloat16" in told.out and "ours, torch" in told.out
    assert "Figures of a GPU are missing, and none is estimated" in told.out


def test_the_command_prints_json_and_progress(bench: Callable[..., Told]) -> None:
    told = bench("--sizes", "20,30", "--dtype", "float32", "--json")
    assert told.code == 0 and "checking ids" in told.err
    held = json.loads(told.out)
    assert held["setup"]["sizes"] == [20, 30] and held["setup"]["dtype"] == "float32"
    assert set(held["machine"]) == {"device", "torch", "triton", "threads", "python"}
    assert len(held["cells"]) == 4 and held["cells"][0]["timings"][0]["median_us"] > 0


def test_a_wrong_answer_ends_with_1_and_without_a_figure(
    bench: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GreedySampler, "__call__", lambda *_, out: out.zero_())
    told = bench("--json", "-q")
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("error: ours, torch (greedy) gave the id 0")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
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
def test_bad_values_are_refused_in_words(
    arguments: list[str], code: int, said: str, bench: Callable[..., Told]
) -> None:
    told = bench(*arguments)
    assert (told.code, told.out) == (code, "")
    assert said in told.err


def test_without_torch_there_is_a_hint() -> None:
    code = "import sys; sys.modules['torch'] = None; from vocabfreq.cli import main; main()"
    command = [sys.executable, "-c", code, "bench"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: torch is not installed\npip install 'vocabfreq[runtime]'\n"
