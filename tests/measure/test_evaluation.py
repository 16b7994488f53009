"""`vocabfreq eval` without models: prompts, the sweep, and numbers worked out by hand."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Lines

from vocabfreq import DraftVocab
from vocabfreq.cli import eval as eval_command
from vocabfreq.cli import main
from vocabfreq.errors import (
    MismatchError,
    MissingExtraError,
    SelectionError,
    SourceError,
    VocabfreqError,
)
from vocabfreq.measure.eval import EvaluationError, Plan, RunResult, RunSpec, evaluate, read_prompts
from vocabfreq.measure.eval.compare import (
    Alternatives,
    LogitGap,
    compare_outputs,
    first_differences,
    near_tie_limit,
)
from vocabfreq.measure.eval.engines import ENGINES, Engine
from vocabfreq.measure.eval.evaluation import predict
from vocabfreq.measure.eval.plan import load, save
from vocabfreq.measure.eval.sweep import sweep

# A worker with one more engine, which logs its calls to a file and can fail, wait or differ.
FAKE = """
import sys, time
from pathlib import Path
from types import ModuleType
from vocabfreq.measure.eval import engine_process, engines
from vocabfreq.measure.eval.engine_process import report
from vocabfreq.measure.eval.plan import RunResult

def run(spec):
    with open(spec.options["calls"], "a") as calls:
        print(spec.label, file=calls)
    report("warm")
    print("a library says this")
    if spec.method == spec.options.get("fails"):
        raise RuntimeError("out of memory")
    while spec.batch_size == spec.options.get("waits"):
        time.sleep(0.05)
    wrong = spec.method == spec.options.get("differs")
    outputs = [[5, 6 + wrong, 7, 8] for _ in spec.prompts]
    steps = [([5, 6, 9], 2), ([7, 8, 1], 1)] if spec.drafter else None
    numbers = dict(drafts=2, draft_tokens=6, accepted=3, accepted_per_position=[2, 1, 0],
        draft_seconds_per_step=0.01, target_seconds_per_forward=0.1) if spec.drafter else {}
    return RunResult(outputs, [[1, 2]] * len(outputs), 2.0 if spec.drafter else 4.0,
        draft_steps=steps, notes=["fake"], versions={"fake": "1"}, **numbers)

module = ModuleType("fake_engine")
module.run = run
sys.modules["fake_engine"] = module
engines.ENGINES["fake"] = engines.Engine("fake_engine", (), "")
sys.exit(engine_process.main())
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(ENGINES, "fake", Engine("fake_engine", (), ""))
    script = tmp_path / "fake_worker.py"
    script.write_text(FAKE)
    return [sys.executable, str(script)]


@pytest.fixture
def plan(tmp_path: Path, small_vocab: Path) -> Plan:
    return Plan(
        engine="fake",
        target="nowhere/target",
        drafter="nowhere/drafter",
        vocab=str(small_vocab),
        sizes=("ids", "full"),
        prompts=("one", "two"),
        options={"calls": str(tmp_path / "calls")},
    )


@pytest.fixture
def small_vocab(tmp_path: Path) -> Path:
    path = tmp_path / "kept.safetensors"
    DraftVocab.from_ids([5, 7, 8, 9], rows=10, coverage={"all sources": 0.8}).save(path)
    return path


def calls(plan: Plan) -> list[str]:
    return Path(plan.options["calls"]).read_text().splitlines()


def no_gap(alternatives: Any) -> list[LogitGap]:
    return [LogitGap(0.25, 0.5) for _ in alternatives]


# Prompts


def test_each_kind_of_prompt_is_read(lines: Lines) -> None:
    chat = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]
    rows = [{"turns": ["x", "y"]}, {"messages": chat}, {"prompt": "p"}, {"text": "t"}]
    assert read_prompts(lines(*rows, b"")) == (
        [{"role": "user", "content": "x"}],
        chat[:4],
        "p",
        "t",
    )


def test_a_chat_without_an_answer_is_a_prompt(lines: Lines) -> None:
    chat = [{"role": "user", "content": "a"}]
    assert read_prompts(lines({"messages": chat})) == (chat,)


def test_a_limit_stops_before_later_lines_are_read(lines: Lines) -> None:
    assert read_prompts(lines({"text": "t"}, "broken"), limit=1) == ("t",)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is no JSON"),
        (b"\xff", "line 2 is no JSON"),
        ({"other": 1}, "line 2 is no prompt; expected an object with 'turns', 'messages'"),
        ([1], "line 2 is no prompt"),
        ({"turns": []}, r"line 2: 'turns' is \[\]"),
        ({"turns": [3]}, "line 2: 'turns' holds 3"),
        ({"text": " "}, "line 2: 'text' holds ' '"),
        ({"messages": [{"role": "user"}]}, "line 2: 'messages' is"),
        ({"messages": [{"role": "assistant", "content": "a"}]}, "line 2: no message before"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(lines: Lines, line: Any, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        read_prompts(lines({"text": "good"}, line))


def test_no_prompts_and_no_file_are_errors(lines: Lines, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no prompts"):
        read_prompts(lines())
    with pytest.raises(SourceError, match="No such file"):
        read_prompts(tmp_path / "none.jsonl")


# Specs and results


def test_specs_and_results_survive_json(tmp_path: Path) -> None:
    spec = RunSpec("fake", "t", prompts=("a", [{"role": "user", "content": "b"}]), options={"x": 1})
    result = RunResult([[1]], [[2]], 0.5, draft_steps=[([1, 2], 1)], accepted_per_position=[1, 0])
    save(tmp_path / "a", spec)
    save(tmp_path / "b", result)
    assert load(tmp_path / "a", RunSpec) == spec
    assert load(tmp_path / "b", RunResult) == result
    with pytest.raises(EvaluationError, match="expected a RunSpec as JSON"):
        load(tmp_path / "b", RunSpec)


def test_the_numbers_of_a_result() -> None:
    result = RunResult(
        [[1] * 30, [1] * 20],
        [[0], [0]],
        2.5,
        drafts=20,
        draft_tokens=60,
        accepted=30,
        accepted_per_position=[16, 10, 4],
        draft_seconds_per_step=0.02,
        target_seconds_per_forward=0.16,
    )
    assert result.acceptance_length == 2.5
    assert result.acceptance_per_position == (0.8, 0.5, 0.2)
    assert result.tokens_per_second == 20
    assert result.forward_ratio == 0.125
    plain = RunResult([[1]], [[0]], 1.0)
    assert (plain.acceptance_length, plain.forward_ratio) == (1.0, None)


# Plans


def test_a_plan_is_the_product_of_its_lists_with_vanilla_once_a_batch_size(
    command: list[str], plan: Plan
) -> None:
    specs = replace(plan, spec_tokens=(1, 3), batch_sizes=(1, 8)).specs()
    assert [s.label for s in specs[:5]] == [
        "vanilla, B = 1",
        "fr-spec, its own ids, 1 spec tokens, B = 1",
        "draft model, full head, 1 spec tokens, B = 1",
        "fr-spec, its own ids, 3 spec tokens, B = 1",
        "draft model, full head, 3 spec tokens, B = 1",
    ]
    assert len(specs) == 10
    assert [s.batch_size for s in specs if s.drafter is None] == [1, 8]
    assert len(replace(plan, drafter=None).specs()) == 1


def test_impossible_plans_are_refused_before_anything_runs(
    command: list[str], plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EvaluationError, match="sizes without a vocabulary"):
        replace(plan, vocab=None, sizes=(8,)).specs()
    with pytest.raises(SelectionError, match="already chosen"):
        replace(plan, sizes=(8,)).specs()
    with pytest.raises(EvaluationError, match="drafter 'self' with --engine fake"):
        replace(plan, drafter="self").specs()
    with pytest.raises(EvaluationError, match="engine 'none'"):
        replace(plan, engine="none").specs()
    monkeypatch.setitem(ENGINES, "fake", Engine("m", (), "", max_batch_size=1))
    with pytest.raises(EvaluationError, match="batch size 8 with --engine fake; expected at most"):
        replace(plan, batch_sizes=(1, 8)).specs()
    monkeypatch.setitem(ENGINES, "fake", Engine("m", ("no_such_package",), "pip it"))
    with pytest.raises(MissingExtraError, match="no_such_package is not installed\npip it"):
        plan.specs()


# The sweep


def test_a_sweep_gives_the_table(command: list[str], plan: Plan, tmp_path: Path) -> None:
    notes: list[str] = []
    found = evaluate(plan, tmp_path / "parts", notes.append, command, no_gap)
    vanilla, pruned, full = found.rows
    assert (vanilla.method, vanilla.tokens_per_second, vanilla.speedup_vs_vanilla) == (
        "vanilla",
        2.0,
        1.0,
    )
    assert (pruned.method, pruned.size, pruned.vocab_size, pruned.coverage) == (
        "fr-spec",
        4,
        10,
        0.8,
    )
    assert (full.method, full.size, full.speedup_vs_unpruned) == ("draft model", None, 1.0)
    for row in (pruned, full):
        assert (row.acceptance_length, row.acceptance_per_position) == (2.5, (1.0, 0.5, 0.0))
        assert (row.tokens_per_second, row.seconds, row.speedup_vs_vanilla) == (4.0, 2.0, 2.0)
        assert row.forward_ratio == pytest.approx(0.1)
        assert (row.depth, row.branching, row.compared, row.differences) == (3, 1, True, ())
    assert (
        pruned.prediction is not None and pruned.prediction.acceptance_length == 2.0
    )  # 6 is not kept
    assert found.ok and found.notes == ("fake",) and found.versions == {"fake": "1"}
    assert "[1/3] vanilla, B = 1: warm" in notes
    assert any("2.50 tokens a step, 4.0 tok/s" in note for note in notes)


def test_finished_runs_are_not_run_again(command: list[str], plan: Plan, tmp_path: Path) -> None:
    first = sweep(plan, tmp_path / "parts", command=command)
    again = sweep(plan, tmp_path / "parts", command=command)
    assert [run.resumed for run in first + again] == [False] * 3 + [True] * 3
    assert [run.result for run in again] == [run.result for run in first]
    assert len(calls(plan)) == 3
    sweep(replace(plan, spec_tokens=(3, 1)), tmp_path / "parts", command=command)
    assert len(calls(plan)) == 5  # only the new ones


def test_a_changed_vocabulary_or_damaged_result_is_run_again(
    command: list[str], plan: Plan, tmp_path: Path, small_vocab: Path
) -> None:
    sweep(plan, tmp_path / "parts", command=command)
    DraftVocab.from_ids([5, 7], rows=10).save(small_vocab)
    runs = sweep(replace(plan), tmp_path / "parts", command=command)
    assert [run.resumed for run in runs] == [True, False, True]
    for path in (tmp_path / "parts").glob("*.json"):
        if not path.name.endswith(".spec.json"):
            path.write_text("{")
    assert not any(run.resumed for run in sweep(plan, tmp_path / "parts", command=command))


def test_speeds_of_an_earlier_command_are_marked(
    command: list[str], plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = tmp_path / "parts"
    first = evaluate(plan, parts, command=command, measure=no_gap)
    eval_command.print_evaluation(first)
    assert " *" not in capsys.readouterr().out and first.notes == ("fake",)
    assert not any(row.resumed for row in first.rows)
    found = evaluate(replace(plan, spec_tokens=(3, 1)), parts, command=command, measure=no_gap)
    assert [row.resumed for row in found.rows] == [True] * 3 + [False] * 2
    assert found.notes[-1].startswith(
        f"* 3 of 5 runs were measured by an earlier command, ended {date()}"
    )
    assert str(parts) in found.notes[-1]
    eval_command.print_evaluation(found)
    assert capsys.readouterr().out.count("0 *") == 3
    assert all(row["ended_at"].startswith(date()) for row in found.as_dict()["rows"])


def date() -> str:
    return time.strftime("%Y-%m-%d", time.gmtime())


def test_another_tokenizer_is_refused_before_anything_runs(
    command: list[str], plan: Plan, tmp_path: Path, tok: Path
) -> None:
    other = tmp_path / "other.safetensors"
    DraftVocab.from_ids([5, 7], rows=265, tokenizer="0" * 64).save(other)
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text('{"vocab_size": 265}')
    (target / "tokenizer.json").write_bytes((tok / "tokenizer.json").read_bytes())
    mixed = replace(plan, target=str(target), vocab=str(other))
    with pytest.raises(MismatchError, match="--allow-other-tokenizer"):
        evaluate(mixed, tmp_path / "parts", command=command, measure=no_gap)
    assert not Path(plan.options["calls"]).exists()
    allowed = replace(mixed, allow_other_tokenizer=True)
    found = evaluate(allowed, tmp_path / "parts", command=command, measure=no_gap)
    assert any("see that the same tokens have the same ids" in note for note in found.notes)
    assert len(calls(plan)) == 3


def test_a_failed_run_is_named_and_the_rest_goes_on(
    command: list[str], plan: Plan, tmp_path: Path
) -> None:
    broken = replace(plan, options={**plan.options, "fails": "fr-spec"})
    found = evaluate(broken, tmp_path / "parts", command=command, measure=no_gap)
    assert [row.error is None for row in found.rows] == [True, False, True]
    assert "exit code 1: RuntimeError: out of memory (full log:" in str(found.rows[1].error)
    assert not found.ok
    assert evaluate(broken, tmp_path / "parts", command=command).resumed == 2
    assert len(calls(plan)) == 4  # the failed one twice


def test_outputs_that_differ_fail_unless_they_are_near_ties(
    command: list[str], plan: Plan, tmp_path: Path
) -> None:
    measured: list[Alternatives] = []

    def far(alternatives: Sequence[Alternatives]) -> list[LogitGap]:
        measured.extend(alternatives)
        return [LogitGap(3.0, 0.5) for _ in alternatives]

    differs = replace(plan, options={**plan.options, "differs": "fr-spec"})
    found = evaluate(differs, tmp_path / "parts", command=command, measure=far)
    assert measured == [Alternatives((1, 2, 5), 7, 6)] * 2
    assert [row.ok for row in found.rows] == [True, False, True] and not found.ok
    positions = [(d.prompt, d.position, d.actual, d.expected) for d in found.rows[1].differences]
    assert positions == [(0, 1, 7, 6), (1, 1, 7, 6)]
    again = evaluate(differs, tmp_path / "parts", command=command, measure=no_gap)
    assert again.ok and len(again.rows[1].differences) == 2


def test_an_output_that_ends_early_is_no_near_tie() -> None:
    long, short = RunResult([[1, 2, 3]], [[0]], 1.0), RunResult([[1, 2]], [[0]], 1.0)
    (found,) = compare_outputs(short, long, no_gap)
    assert (found.position, found.actual, found.expected, found.near_tie) == (2, None, 3, False)
    with pytest.raises(EvaluationError, match="different ids"):
        first_differences(long, replace(short, prompt_ids=[[9]]))


def test_a_gap_that_cannot_be_measured_is_no_near_tie() -> None:
    def broken(alternatives: Any) -> list[LogitGap]:
        raise VocabfreqError("transformers is not installed")

    one, other = RunResult([[1, 2]], [[0]], 1.0), RunResult([[1, 3]], [[0]], 1.0)
    (found,) = compare_outputs(one, other, broken)
    assert not found.near_tie and found.reason == "transformers is not installed"


def test_the_limit_of_near_ties() -> None:
    assert near_tie_limit(16.0, 2**-7, "bfloat16") == 3 * 16 / 128
    assert near_tie_limit(16.0, 2**-23, "float32") == 32 * 16 * 2**-23


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_sweep_that_is_stopped_leaves_no_child_and_goes_on_later(
    command: list[str], plan: Plan, tmp_path: Path, number: int
) -> None:
    plan = replace(plan, drafter=None, batch_sizes=(1, 2))
    stuck = replace(plan, options={**plan.options, "waits": 2})
    code = f"""
import sys
from pathlib import Path
from vocabfreq.measure.eval import Interrupted, Plan, engines
from vocabfreq.measure.eval.sweep import sweep
engines.ENGINES["fake"] = engines.Engine("fake_engine", (), "")
try:
    sweep({stuck!r}, Path({str(tmp_path / "parts")!r}), command={command!r})
except Interrupted as stop:
    sys.exit(f"{{stop}}")
"""
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    _wait_for(lambda: Path(plan.options["calls"]).exists() and len(calls(plan)) == 2)
    child.send_signal(number)
    _, err = child.communicate(timeout=60)
    if number == signal.SIGINT:
        assert err.strip() == "1 of 2 runs are finished and kept"
    _wait_for(lambda: not _alive(command[1]))
    runs = sweep(mended(stuck, command), tmp_path / "parts", command=command)
    assert [run.resumed for run in runs] == [True, False]


def mended(stuck: Plan, command: list[str]) -> Plan:
    """The same plan, its worker no longer waiting."""
    script = Path(command[1])
    script.write_text(script.read_text().replace('options.get("waits")', 'options.get("none")'))
    return stuck


def _wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(script: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return any(script in line and " -c " not in line for line in listed.splitlines())


# Predictions


def test_a_prediction_stops_at_the_first_id_that_is_not_kept() -> None:
    vocab = DraftVocab.from_ids([1, 2], rows=4)
    full = [([1, 2, 1], 3), ([1, 3, 1], 3), ([3, 1, 1], 2), ([1, 2, 3], 1)]  # 3, 1, 0, 1
    close = predict(full, [([1, 1, 1], n) for n in (3, 1, 1, 1)], vocab)
    assert close.acceptance_length == 1 + 5 / 4
    errors = np.array([3, 1, 0, 1]).std(ddof=1) / 2, np.array([3, 1, 1, 1]).std(ddof=1) / 2
    assert close.two_standard_errors == pytest.approx(2 * np.hypot(*errors))
    assert not close.deviates
    assert predict(full * 50, [([1, 1, 1], 3)] * 200, vocab).deviates


# The command line


def test_the_command_prints_tables_and_json(
    command: list[str],
    plan: Plan,
    tmp_path: Path,
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(ENGINES, "vllm", Engine("fake_engine", (), ""))
    found = evaluate(plan, tmp_path / "parts", command=command, measure=no_gap)
    monkeypatch.setattr("vocabfreq.measure.eval.evaluate", lambda *_: found)
    arguments = ["vocabfreq", "eval", "--target", "t", "--drafter", "d", "--prompts"]
    arguments += [str(lines({"text": "t"})), "--sizes", "ids,full", "--vocab", str(plan.vocab)]
    assert _main(monkeypatch, [*arguments, "--plot", str(tmp_path / "p.png")]) == 0
    out = capsys.readouterr().out
    assert "mean acceptance length" in " ".join(out.split()) or "acceptance" in out
    for word in ("fr-spec", "vanilla", "80.00 %", "2.50", "1.00 0.50 0.00", "same", "fake 1"):
        assert word in out
    assert (tmp_path / "p.png").stat().st_size > 1000
    assert _main(monkeypatch, [*arguments, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["rows"][1]["acceptance_length"] == 2.5 and output["ok"] and output["prompts"] == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--sizes", "8,x"], "expected whole numbers, full or ids"),
        (["--num-spec-tokens", "0"], "expected whole numbers from 1"),
        (["--option", "a"], "NAME=VALUE"),
    ],
)
def test_wrong_usage_is_exit_code_2(
    given: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    arguments = ["vocabfreq", "eval", "--target", "t", "--drafter", "d", "--prompts", "p", *given]
    assert _main(monkeypatch, arguments) == 2
    assert message in capsys.readouterr().err


def _main(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> int:
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_differences_and_failures_are_printed(
    command: list[str], plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = evaluate(plan, tmp_path / "parts", command=command, measure=no_gap)
    (difference,) = compare_outputs(
        RunResult([[1]], [[0]], 1.0),
        RunResult([[2]], [[0]], 1.0),
        lambda alternatives: [LogitGap(3.0, 0.5) for _ in alternatives],
    )
    rows = (
        replace(found.rows[1], differences=(difference,)),
        replace(found.rows[2], error="out of memory"),
    )
    eval_command.print_evaluation(replace(found, rows=rows))
    out = capsys.readouterr().out
    assert "DIFFERS (1)" in out and "FAILED: out of memory" in out
    assert "prompt 0, token 0: 1 instead of 2; DIFFERS, logit gap 3 (near-ties: up to 0.5)" in out
    assert not replace(found, rows=rows).ok
