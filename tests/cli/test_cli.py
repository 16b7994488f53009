"""The command line: output, help, exit codes, and the files that remain."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run
from tiny import Lines, save_tokenizer, tiny_tokenizer, truth
from typer.testing import CliRunner

from vocabfreq import FrequencyTable
from vocabfreq.cli import PANELS, app

TEXTS = [f"abc the hello {n}" for n in range(300)]


@pytest.fixture
def corpus(lines: Lines) -> Path:
    return lines(*({"text": text} for text in TEXTS), name="corpus.jsonl")


def test_build_then_show(tok: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    done = run("build", "-t", tok, "-s", f"chat={corpus}", "-o", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert "300" in done.stdout
    assert f"Wrote {out}" in done.stdout
    assert f"Next: vocabfreq show {out}" in done.stdout
    assert not Path(f"{out}.parts").exists()
    shown = run("show", out, "-t", tok)
    assert "' the'" in shown.stdout
    assert "corpus.jsonl" in shown.stdout
    assert str(tmp_path) not in shown.stdout


def test_json_output(tok: Path, corpus: Path, tmp_path: Path) -> None:
    done = run("build", "-t", tok, "-s", corpus, "-o", "out", "--json", cwd=tmp_path)
    result = json.loads(done.stdout)
    assert result["documents"] == 300
    assert result["tokens"] == truth(tok, TEXTS).sum()
    shown = json.loads(run("show", "out", "-t", tok, "--json", "--top", 3, cwd=tmp_path).stdout)
    assert len(shown["top"]) == 3
    assert shown["sources"][0]["name"] == "corpus"


def test_dry_run_counts_nothing(tok: Path, corpus: Path, tmp_path: Path) -> None:
    done = run("build", "-t", tok, "-s", corpus, "--dry-run", "--json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["plan"][0]["column"] == "text"
    assert found["bytes"] == corpus.stat().st_size
    assert list(tmp_path.iterdir()) == [corpus]


def test_too_many_bad_rows_exit_3_with_the_file_written(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    path = lines({"text": "abc"}, "{", "{", "{")
    arguments = ("build", "-t", tok, "-s", path, "-o", tmp_path / "out")
    assert run(*arguments).returncode == 0
    done = run(*arguments, "--max-bad-rows", 2)
    assert done.returncode == 3
    assert "3 rows were skipped, more than --max-bad-rows 2" in done.stderr
    assert "line 2; rows.jsonl, line 3" in done.stdout
    assert FrequencyTable.load(tmp_path / "out").sources[0].skipped == {"not JSON": 3}


def test_build_replaces_no_other_file(tok: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("precious")
    arguments = ("build", "-t", tok, "-s", corpus, "-o", tmp_path / "out")
    done = run(*arguments)
    assert done.returncode == 4
    assert "out exists and is no frequency file; expected a new file" in done.stderr
    assert (tmp_path / "out").read_text() == "precious"
    assert run(*arguments, "--force").returncode == 0
    assert run(*arguments).returncode == 0  # one of ours is replaced


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-s", "nope.jsonl"], "no file matches 'nope.jsonl'"),
        (["-s", "corpus.jsonl", "--column", "body"], "no column 'body'"),
        (["-s", "empty"], "is a directory without a file to read"),
        (["-s", "corpus.jsonl", "-t", "nowhere"], "no folder 'nowhere'"),
        (["-s", "corpus.xyz"], "no file matches 'corpus.xyz'"),
    ],
)
def test_F15_errors_are_two_lines_and_exit_1(
    tok: Path, corpus: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    done = run("build", "-t", tok, *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert message in done.stderr
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.strip().splitlines()) <= 3
    assert not (tmp_path / "vocab_freq.safetensors").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--weight", "corpus"],
        ["--weight", "corpus=-1"],
        ["--weight", "corpus=1", "--weight", "corpus=2"],
        ["--separator", ""],
        ["--holdout", "-1"],
    ],
)
def test_wrong_usage_exits_2(tok: Path, corpus: Path, arguments: list[str]) -> None:
    assert run("build", "-t", tok, "-s", corpus, *arguments).returncode == 2


def test_standard_input(tok: Path, corpus: Path, tmp_path: Path) -> None:
    for name, data in (("plain", corpus.read_bytes()), ("gz", _gz(corpus.read_bytes()))):
        out = tmp_path / name
        done = run("build", "-t", tok, "-s", "x=-", "-o", out, stdin=data)
        assert done.returncode == 0, done.stderr
        table = FrequencyTable.load(out)
        assert ((table.counts + table.heldout)[0] == truth(tok, TEXTS)).all()
    done = run("build", "-t", tok, "-s", "-", "-o", tmp_path / "t", stdin="abc é".encode())
    table = FrequencyTable.load(tmp_path / "t")
    assert ((table.counts + table.heldout)[0] == truth(tok, ["abc é"])).all()


def _gz(data: bytes) -> bytes:
    import gzip

    return gzip.compress(data)


def test_the_same_bytes_from_two_processes(tok: Path, corpus: Path, tmp_path: Path) -> None:
    for n in range(2):
        out = tmp_path / f"{n}.safetensors"
        run("build", "-t", tok, "-s", f"x={corpus}", "-o", out, PYTHONHASHSEED=str(n))
    first, second = (tmp_path / f"{n}.safetensors" for n in range(2))
    assert first.read_bytes() == second.read_bytes()
    assert str(tmp_path).encode() not in first.read_bytes()


def test_merge_and_compare(tok: Path, corpus: Path, lines: Lines, tmp_path: Path) -> None:
    other = lines({"text": "xyz " * 50}, name="other.jsonl")
    for name, path in (("a", corpus), ("b", other)):
        run("build", "-t", tok, "-s", path, "-o", f"{name}.safetensors", cwd=tmp_path)
    files = ("a.safetensors", "b.safetensors")
    done = run("merge", *files, "-o", "m.safetensors", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    merged = FrequencyTable.load(tmp_path / "m.safetensors")
    assert [s.name for s in merged.sources] == ["corpus", "other"]
    twice = run("merge", "a.safetensors", "a.safetensors", "-o", "n.safetensors", cwd=tmp_path)
    assert (twice.returncode, (tmp_path / "n.safetensors").exists()) == (4, False)
    compared = run("compare", *files, "-t", tok, "--size", 10, "--json", cwd=tmp_path)
    result = json.loads(compared.stdout)
    assert result["overlap"][0]["size"] == 10
    assert {d["text"] for d in result["differences"][:4]} & {"'x'", "'y'", "'z'"}


def test_M12_compare_of_two_tokenizers_exits_4(tok: Path, corpus: Path, tmp_path: Path) -> None:
    swapped = json.loads((tok / "tokenizer.json").read_text())
    vocab = swapped["model"]["vocab"]
    names = {i: token for token, i in vocab.items()}
    vocab[names[3]], vocab[names[4]] = 4, 3
    save_tokenizer(tiny_tokenizer(), tmp_path / "swapped")
    (tmp_path / "swapped" / "tokenizer.json").write_text(json.dumps(swapped))
    run("build", "-t", tok, "-s", corpus, "-o", "a", cwd=tmp_path)
    run("build", "-t", tmp_path / "swapped", "-s", corpus, "-o", "b", cwd=tmp_path)
    done = run("compare", "a", "b", cwd=tmp_path)
    assert done.returncode == 4
    for name in ("a", "b"):
        assert FrequencyTable.load(tmp_path / name).tokenizer.sha256 in done.stderr


def test_F11_ctrl_c_leaves_no_child_and_prints_the_command_that_resumes(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    path = lines(*({"text": f"{n} " * 400} for n in range(30_000)), name="big.jsonl")
    arguments = ["build", "-t", str(tok), "-s", str(path), "-o", str(tmp_path / "out")]
    command = [sys.executable, "-c", "from vocabfreq.cli import main; main()", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 30
    while not _workers(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = _workers(process.pid)
    assert workers
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"To resume: vocabfreq build" in errors
    assert b"Traceback" not in errors
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    done = run(*arguments)
    assert done.returncode == 0
    assert FrequencyTable.load(tmp_path / "out").sources[0].documents == 30_000


def test_F11_workers_do_not_outlive_a_killed_parent(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    path = lines(*({"text": f"{n} " * 400} for n in range(30_000)), name="big.jsonl")
    arguments = ["build", "-t", str(tok), "-s", str(path), "-o", str(tmp_path / "out")]
    command = [sys.executable, "-c", "from vocabfreq.cli import main; main()", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while not _workers(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    workers = _workers(process.pid)
    assert workers
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(_alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [pid for pid in workers if _alive(pid)]


def _workers(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_weights_rank(tok: Path, lines: Lines, tmp_path: Path) -> None:
    a = lines({"text": "x" * 900}, name="a.jsonl")
    b = lines({"text": "y" * 9}, name="b.jsonl")
    out = tmp_path / "out"
    run("build", "-t", tok, "-s", a, "-s", b, "-o", out, "--holdout", 0, "--weight", "b=2")
    table = FrequencyTable.load(out)
    assert table.ranked_ids[0] == np.argmax(table.counts[1])
    assert [s.weight for s in table.sources] == [1.0, 2.0]


def test_plot(tok: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the plots extra is not installed")
    run("build", "-t", tok, "-s", corpus, "-o", "a", cwd=tmp_path)
    done = run("show", "a", "--plot", "a.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


LIGHT = """
import sys, {module}
heavy = {{"torch", "datasets", "transformers", "numpy", "pyarrow", "tokenizers"}} & set(sys.modules)
print(sorted(heavy))
"""


@pytest.mark.parametrize("module", ["vocabfreq", "vocabfreq.cli"])
def test_importing_is_light(module: str) -> None:
    code = LIGHT.format(module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom vocabfreq.cli import app\ntry: app(['--help'])\nexcept SystemExit: pass\n"
    )
    code += "assert not {'torch', 'datasets', 'transformers', 'numpy'} & set(sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert b"build" in done.stdout


def test_help_takes_less_than_0_4_s_more_than_an_empty_program() -> None:
    help_program = "import sys; sys.argv = ['vocabfreq', '--help']\n"
    help_program += "from vocabfreq.cli import main; main()"
    attempts = (_seconds(help_program) - _seconds("pass") for _ in range(10))
    assert any(difference < 0.4 for difference in attempts)  # other processes slow some down


def _seconds(program: str) -> float:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return time.monotonic() - started


VERBS = [name for verbs in PANELS.values() for name in verbs]


def help_lines(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """Lines of `--help` on a terminal of 80 columns."""
    for name, value in (("COLUMNS", "80"), ("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(app, [*arguments, "--help"])
    assert shown.exit_code == 0
    return shown.output.splitlines()


def test_help_lists_each_verb_in_one_line_of_its_panel(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_lines(monkeypatch)
    panels = [line.split()[1] for line in lines if line.startswith("╭─")]
    assert panels == ["Options", "Count", "Serve", "Publish", "Measure"]
    for panel, verbs in PANELS.items():
        start = next(n for n, line in enumerate(lines) if line.startswith(f"╭─ {panel} "))
        for line, (name, verb) in zip(lines[start + 1 :], verbs.items(), strict=False):
            summary = (verb.__doc__ or "").splitlines()[0]
            assert line.strip("│ ") == f"{name:<7}  {summary}"
    assert [command.name for command in app.registered_commands] == VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_fits_80_columns(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = help_lines(monkeypatch, verb)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text.replace(",…", ""), "a line is cut"  # K,… is a list
    assert "<bool>" not in "".join(line for line in lines if "--help" not in line)


@pytest.mark.parametrize(
    ("verb", "panels"),
    [
        ("build", ["Options", "Input", "What counts", "Output", "How it runs"]),
        ("plan", ["Options", "Input", "What counts", "Output", "How it runs"]),
        ("eval", ["Options", "Input", "What is measured", "Output", "How it runs"]),
    ],
)
def test_options_are_in_panels(
    verb: str, panels: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = help_lines(monkeypatch, verb)
    found = [line.strip("╭╮─ ") for line in lines if line.startswith("╭─")]
    assert found == panels


def test_help_shows_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "owner/name[@revision]" in " ".join(help_lines(monkeypatch, "build"))
    assert "OWNER/NAME[@REVISION]" in " ".join(help_lines(monkeypatch, "verify"))


def test_version() -> None:
    assert run("--version").stdout.startswith("0.")


def test_the_public_surface_is_sorted_and_complete() -> None:
    import vocabfreq

    assert vocabfreq.__all__ == sorted(vocabfreq.__all__)
    assert all(getattr(vocabfreq, name) for name in vocabfreq.__all__)
    missing: Any = getattr(vocabfreq, "nothing", None)
    assert missing is None


def test_a_json_array_on_standard_input(tok: Path, tmp_path: Path) -> None:
    rows = [{"text": f"abc {n} " * 40} for n in range(20_000)]
    data = json.dumps(rows).encode()
    assert len(data) > 4 << 20
    done = run("build", "-t", tok, "-s", "-", "-o", tmp_path / "out", stdin=data)
    assert done.returncode == 0, done.stderr
    assert FrequencyTable.load(tmp_path / "out").sources[0].documents == len(rows)


def test_standard_input_is_never_half_counted(tok: Path, corpus: Path, tmp_path: Path) -> None:
    code = (
        "from vocabfreq.tokenizer.encoders import GigatokenEncoder, EncoderFailedError\n"
        "def fail(self, texts): raise EncoderFailedError('planted')\n"
        "GigatokenEncoder.encode = fail\n"
        "from vocabfreq.corpus import files; files.BLOCK = 100\n"
        "from vocabfreq.corpus import sources; sources.BLOCK = 100\n"
        "from vocabfreq.cli import main; main()"
    )
    arguments = ["build", "-t", str(tok), "-s", "-", "-o", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        input=corpus.read_bytes(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert b"standard input would have to be read again" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_extra_is_a_hint(tok: Path, corpus: Path, tmp_path: Path) -> None:
    run("build", "-t", tok, "-s", corpus, "-o", "a", cwd=tmp_path)
    code = "import sys; sys.modules['matplotlib'] = None; from vocabfreq.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", "a", "--plot", "a.png"],
        capture_output=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert b"matplotlib is not installed\npip install 'vocabfreq[plots]'" in done.stderr


def test_a_path_with_an_equals_sign_is_a_path(tok: Path, lines: Lines, tmp_path: Path) -> None:
    lines({"text": "abc"}, name="a=b.jsonl")
    done = run("build", "-t", tok, "-s", "a=b.jsonl", "-o", "out", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["documents"] == 1


def test_F6_a_bom_on_standard_input(tok: Path, tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"text":"abc"}\n'
    done = run("build", "-t", tok, "-s", "x=-", "-o", tmp_path / "out", stdin=data)
    assert done.returncode == 0, done.stderr
    table = FrequencyTable.load(tmp_path / "out")
    assert ((table.counts + table.heldout)[0] == truth(tok, ["abc"])).all()


def test_an_empty_pipe_leaves_a_good_file_alone(tok: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("build", "-t", tok, "-s", corpus, "-o", out)
    before = out.read_bytes()
    for arguments, data in (((), b""), (("--column", "text"), b'{"text": 5}\n')):
        done = run("build", "-t", tok, "-s", "-", "-o", out, *arguments, stdin=data)
        assert done.returncode == 1, done.stdout
        assert out.read_bytes() == before


def test_standard_input_twice_is_refused(tok: Path, tmp_path: Path) -> None:
    done = run("build", "-t", tok, "-s", "x=-", "-s", "y=-", stdin=b'{"text":"a"}\n', cwd=tmp_path)
    assert done.returncode == 1
    assert "two sources are standard input" in done.stderr


def test_only_our_own_files_are_removed(tok: Path, corpus: Path, tmp_path: Path) -> None:
    parts = tmp_path / "out.parts"
    parts.mkdir()
    (parts / "thesis.txt").write_text("precious")
    assert run("build", "-t", tok, "-s", corpus, "-o", tmp_path / "out").returncode == 0
    assert [path.name for path in parts.iterdir()] == ["thesis.txt"]


def test_F14_a_trivial_mask_is_no_bad_row(tok: Path, lines: Lines, tmp_path: Path) -> None:
    path = lines({"input_ids": [1, 2], "loss_mask": [1, 1]})
    done = run("build", "-t", tok, "-s", path, "-o", tmp_path / "out", "--max-bad-rows", 0)
    assert done.returncode == 0, done.stderr
    assert "remark in rows: 1 × loss mask all ones" in done.stdout


@pytest.mark.parametrize("out", ["/proc/nowhere/out", "/dev/null"])
def test_an_output_that_cannot_be_written_is_an_error_without_a_traceback(
    tok: Path, corpus: Path, out: str
) -> None:
    done = run("build", "-t", tok, "-s", corpus, "-o", out, "--force")
    assert done.returncode in (1, 4)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_file_of_an_unknown_kind(tok: Path, tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text("<text>abc</text>")
    done = run("build", "-t", tok, "-s", "x.xml", cwd=tmp_path)
    assert done.returncode == 1
    assert "cannot tell how to read 'x.xml'" in done.stderr


def test_F20_a_build_without_a_token_writes_no_file_and_says_why(tok: Path, tmp_path: Path) -> None:
    rows = ['{"messages": [{"role": "assistant", "content": {"foo": 1}}]}'] * 3
    (tmp_path / "a.jsonl").write_text("\n".join([*rows, "{broken"]))
    done = run("build", "-t", tok, "-s", "a.jsonl", "-o", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "not one token was counted, and out is not written" in done.stderr
    assert "3 × turns do not fit (a.jsonl, line 1: an object with the keys 'foo')" in done.stderr
    assert "1 × not JSON (a.jsonl, line 4)" in done.stderr
    assert not (tmp_path / "out").exists()


def test_T8_chats_without_a_template_count_as_row_text_with_a_remark(
    tok: Path, tmp_path: Path
) -> None:
    row = {"messages": [{"role": "assistant", "content": "abc"}], "title": "the the"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    done = run("build", "-t", tok, "-s", "a.jsonl", "-o", "out", "--holdout", 0, cwd=tmp_path)
    assert done.returncode == 0
    assert "has no chat template: of a the text of the rows is counted" in done.stderr
    assert "a: the assistant's turns of 'messages'; not 'title' (37% of the text)" in done.stdout
    assert (FrequencyTable.load(tmp_path / "out").counts.sum(0) == truth(tok, ["abc"])).all()
    template = "{% for m in messages %}{{ m.role + m.content + '<|im_end|>' }}{% endfor %}"
    template += "{% if add_generation_prompt %}assistant{% endif %}"
    (tmp_path / "t.jinja").write_text(template)
    options = ("--chat-template", "t.jinja", "--holdout", 0)
    done = run("build", "-t", tok, "-s", "a.jsonl", "-o", "out", *options, cwd=tmp_path)
    assert "as the chat template writes it" in done.stdout
    counts = FrequencyTable.load(tmp_path / "out").counts.sum(0)
    assert (counts == truth(tok, ["abc<|im_end|>"])).all()
