"""plan, count, status, merge: parts of a build in any order give the bytes of one build."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from command import run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny import Lines, save_tokenizer, tiny_tokenizer

from vocabfreq import CountOptions, load_tokenizer
from vocabfreq.corpus import sources
from vocabfreq.corpus.sources import parse_source
from vocabfreq.counting.build import count_part, run_plan
from vocabfreq.counting.merging import Report, Totals, make_report, merge_partials
from vocabfreq.counting.partial_files import load_partial, partial_path
from vocabfreq.counting.plan import (
    Plan,
    absolute_sources,
    check_plan_path,
    load_plan,
    make_plan,
    save_plan,
)
from vocabfreq.counting.progress import plan_progress
from vocabfreq.errors import CountError, FileFormatError, MismatchError, OverwriteError, SourceError

TEXTS = [f"abc {'the ' * (n % 5)}{n} hello é {n * 7919}" for n in range(240)]


@pytest.fixture
def corpus(lines: Lines) -> Path:
    """Every tenth row is broken, so that line numbers matter."""
    rows = ["{" if n % 10 == 9 else json.dumps({"text": text}) for n, text in enumerate(TEXTS)]
    return lines(*rows, name="corpus.jsonl")


@pytest.fixture
def planned(tok: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A dozen shards of two sources."""
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 900)
    options = CountOptions(workers=0, holdout=5, work_dir=tmp_path / "parts")
    parsed = [parse_source(f"{name}={corpus}", max_documents=limit) for name, limit in LIMITS]
    return make_plan(parsed, load_tokenizer(str(tok)), options)


LIMITS = (("all", None), ("first", 50))


def whole(plan: Plan) -> Report:
    """What one build finds, elsewhere."""
    return run_plan(replace(plan, options=replace(plan.options, work_dir=None)))


def same(one: Report, other: Report) -> bool:
    return (one.table, one.examples) == (other.table, other.examples)


def test_a_plan_file_holds_the_plan(planned: Plan, tok: Path, tmp_path: Path) -> None:
    assert len(planned.shards) > 10
    save_plan(planned, tmp_path / "plan.json")
    loaded = load_plan(tmp_path / "plan.json")
    assert replace(loaded, options=planned.options) == planned
    assert loaded.options == replace(planned.options, workers=None)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_F11_parts_in_any_order_twice_and_damaged_give_the_same(planned: Plan, data: Any) -> None:
    want = whole(planned)
    with tempfile.TemporaryDirectory() as folder:
        plan = replace(planned, options=replace(planned.options, work_dir=Path(folder)))
        number = data.draw(st.integers(1, 30))
        order = data.draw(st.lists(st.integers(0, number - 1), max_size=8))
        for index in order:
            count_part(plan, index, number)
            _harm(
                data.draw(st.sampled_from(["nothing", "remove", "flip", "cut", "litter"])), folder
            )
        for index in data.draw(st.permutations(range(number))):
            count_part(plan, index, number)
        assert same(merge_partials(plan, Path(folder)), want)


HARM = ["nothing", "remove", "flip", "cut", "litter"]


def _harm(how: str, folder: str) -> None:
    """What can happen to a partial file between two runs."""
    parts = sorted(Path(folder).glob("*.part.safetensors"))
    if how == "litter":
        (Path(folder) / ".x.part.safetensors.abc.tmp").write_bytes(b"half a file")
    if how in ("nothing", "litter") or not parts:
        return
    data = bytearray(parts[0].read_bytes())
    parts[0].unlink()
    if how != "remove":
        data[len(data) // 2] ^= how == "flip"
        parts[0].write_bytes(data if how == "flip" else data[:-9])


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_sums_of_any_tree_are_those_of_one_pass(planned: Plan, tmp_path: Path, data: Any) -> None:
    work_dir = tmp_path / "parts"
    count_part(planned, 0, 1)
    want = merge_partials(planned, work_dir)
    leaves = []
    for key, shard in zip(planned.keys, planned.shards, strict=True):
        part = load_partial(partial_path(work_dir, key))
        assert part is not None
        leaves.append(Totals(len(planned.sources), planned.tokenizer.rows))
        leaves[-1].add(shard, part)
    while len(leaves) > 1:
        at = data.draw(st.integers(0, len(leaves) - 2))
        leaves[at].extend(leaves.pop(at + 1))
    assert same(make_report(planned, leaves[0]), want)


def test_line_numbers_of_bad_rows_are_those_of_the_file(planned: Plan) -> None:
    found = whole(planned).examples
    assert [example.number for example in found["all"]] == [10, 20, 30]
    assert [example.number for example in found["first"]] == [10, 20, 30]


def test_what_is_missing_is_named_and_nothing_is_merged(planned: Plan, tmp_path: Path) -> None:
    shards = len(planned.shards)
    assert count_part(planned, 0, shards) == 1
    assert count_part(planned, 0, shards) == 0
    found = plan_progress(planned)
    assert len(found.missing) == shards - 1
    assert found.sources[0].counted + found.sources[1].counted == 1
    assert found.as_dict()["done"] is False
    with pytest.raises(CountError, match=rf"{shards - 1} of {shards} shards are not counted: corp"):
        merge_partials(planned, tmp_path / "parts")
    count_part(planned, 0, 1)
    assert not plan_progress(planned).missing


def test_F12_another_tokenizer_since_the_plan_is_refused(planned: Plan, tmp_path: Path) -> None:
    folder = save_tokenizer(tiny_tokenizer(), tmp_path / "tok2")
    save_plan(replace(planned, tokenizer_spec=str(folder)), tmp_path / "plan.json")
    other = tiny_tokenizer()
    other.add_tokens(["hello"])
    save_tokenizer(other, folder)
    with pytest.raises(MismatchError, match="sha256"):
        load_plan(tmp_path / "plan.json")


def test_F12_another_content_since_the_plan_is_refused(planned: Plan, corpus: Path) -> None:
    corpus.write_bytes(corpus.read_bytes().replace(b"hello", b"world"))
    os.utime(corpus, ns=(1, 1))
    with pytest.raises(SourceError, match="changed"):
        count_part(planned, 0, 1)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": 3}, "format is 3"),
        ({"shards": []}, "no shards"),
        ({"rows": "many"}, "rows"),
        ({"files": []}, "not there"),
        ({"layouts": []}, "not there"),
        ({"holdout": 7}, "fingerprint"),
    ],
)
def test_a_damaged_plan_is_refused(
    planned: Plan, tok: Path, tmp_path: Path, change: dict[str, Any], word: str
) -> None:
    path = tmp_path / "plan.json"
    save_plan(planned, path)
    path.write_bytes(msgspec.json.encode(msgspec.json.decode(path.read_bytes()) | change))
    with pytest.raises(FileFormatError, match=word):
        load_plan(path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe"])
def test_what_is_no_plan_is_refused_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "plan.json"
    with pytest.raises(FileFormatError, match="no file"):
        load_plan(path)
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match="no plan"):
        load_plan(path)
    with pytest.raises(OverwriteError, match="in the way"):
        check_plan_path(path)


def test_standard_input_cannot_be_planned() -> None:
    with pytest.raises(SourceError, match="standard input"):
        absolute_sources([parse_source("-")])


def test_F11_eight_processes_one_twice_one_killed_give_the_bytes_of_a_build(
    tok: Path, tmp_path: Path
) -> None:
    words: list[Any] = ["-t", tok]
    for n in range(12):
        path = tmp_path / f"s{n}.jsonl"
        path.write_text("".join(json.dumps({"text": f"{text} {n}"}) + "\n" for text in TEXTS))
        words += ["-s", path.name]
    assert run("build", *words, "-o", "one", "-q", cwd=tmp_path).returncode == 0
    made = run("plan", *words, "-o", "plan.json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert run("plan", *words, "-o", "plan.json", "-q", cwd=tmp_path).stdout == ""
    _killed("count", "--plan", tmp_path / "plan.json", "--shard-index", 3, "--num-shards", 8)
    for task in (9, 5, 12, 6, 11, 9, 7, 10):
        done = run("count", "--plan", tmp_path / "plan.json", **_slurm(task))
        assert done.returncode == 0, done.stderr
    status = run("status", "--plan", "plan.json", "--json", cwd=tmp_path)
    assert status.returncode == 1
    assert json.loads(status.stdout)["missing"] == ["s3.jsonl", "s11.jsonl"]
    refused = run("merge", "--plan", "plan.json", "-o", "two", cwd=tmp_path)
    assert (refused.returncode, (tmp_path / "two").exists()) == (1, False)
    assert "2 of 12 shards are not counted: s3.jsonl, s11.jsonl" in refused.stderr
    assert run("count", "--plan", "plan.json", "--shard-index", 3, "--num-shards", 8, cwd=tmp_path)
    assert run("status", "--plan", "plan.json", cwd=tmp_path).returncode == 0
    assert run("merge", "--plan", "plan.json", "-o", "two", "-q", cwd=tmp_path).returncode == 0
    assert (tmp_path / "two").read_bytes() == (tmp_path / "one").read_bytes()


def _slurm(task: int) -> dict[str, Any]:
    """The environment of a task of the Slurm array 5-12."""
    variables = {"ID": task, "MIN": 5, "COUNT": 8}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in variables.items()}


def _killed(*words: object) -> None:
    """Runs a command that is killed as it writes its first partial file."""
    code = (
        "import os, signal\n"
        "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from vocabfreq.cli import main; main()"
    )
    command = [sys.executable, "-c", code, *map(str, words), "--workers", "0"]
    assert subprocess.run(command, check=False).returncode == -9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shard-index", "8", "--num-shards", "8"], "part 8 of 8"),
        (["--shard-index", "1"], "--num-shards"),
        (["--num-shards", "4"], "--shard-index"),
    ],
)
def test_a_part_that_is_not_there_is_wrong_usage(arguments: list[str], message: str) -> None:
    done = run("count", "--plan", "plan.json", *arguments)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")


def test_merge_takes_files_or_a_plan(tmp_path: Path) -> None:
    for words in ([], ["a"], ["a", "b", "--plan", "c"]):
        done = run("merge", *words, "-o", "out", cwd=tmp_path)
        assert done.returncode == 2
