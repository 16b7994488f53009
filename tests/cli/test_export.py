"""`export` and `convert` on the command line."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hubserver import HubServer
from tables import table
from tensorfiles import needs, torch
from tiny import Lines, report, save_tokenizer, tiny_tokenizer

from vocabfreq import FrequencyTable
from vocabfreq.cli import main
from vocabfreq.formats import read, torch_file
from vocabfreq.frequencies.draft_vocab import DraftVocab

Call = Callable[..., tuple[int, str, str]]
IM_END = 264  # a stop id of the tiny tokenizer


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Runs a command in this process: exit code, standard output, standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["vocabfreq", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def counted(tok: Path, lines: Lines, tmp_path: Path) -> Path:
    """A frequency file of two sources by the tiny tokenizer."""
    chat = lines(*({"text": "the hello abc"} for _ in range(50)), name="chat.jsonl")
    code = lines(*({"text": "x = ab(c)"} for _ in range(20)), name="code.jsonl")
    path = tmp_path / "f.safetensors"
    report(tok, str(chat), str(code)).table.save(path)
    return path


@pytest.mark.parametrize(
    "form", ["draft-vocab", "token-map", "npy", "mapping", "modelopt", "nemo", "json"]
)
def test_export_writes_what_select_gives(
    call: Call, counted: Path, tmp_path: Path, form: Any
) -> None:
    needs(form)
    code, out, err = call("export", counted, "--size", 262, "-f", form, "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    vocab = FrequencyTable.load(counted).select(262)
    assert read(tmp_path / "out", form, rows=265) == vocab
    assert "K = 262 of V = 265 rows (98.87 %), 257 of them pinned, " in out
    assert f"{vocab.filled} never seen and filled in" in out
    assert "all sources" in out and "chat" in out and "code" in out
    assert f"Wrote {tmp_path / 'out'} ({form})." in out


def test_export_prints_json(call: Call, counted: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    code, text, _ = call("export", counted, "--size", 262, "-f", "json", "-o", out, "--json")
    summary, vocab = json.loads(text), FrequencyTable.load(counted).select(262)
    assert code == 0
    assert (summary["rows"], summary["size"], summary["pinned"]) == (265, 262, 257)
    assert summary["coverage"] == vocab.coverage and summary["fingerprint"] == vocab.fingerprint
    assert summary["tokenizer"] == vocab.tokenizer


def test_each_selection_option_is_an_argument_of_select(
    call: Call, counted: Path, tmp_path: Path
) -> None:
    loaded, out = FrequencyTable.load(counted), tmp_path / "out.pt"
    cases: list[tuple[list[object], dict[str, Any]]] = [
        (["--size", "99%"], {"size": "99%"}),
        (["--coverage", 0.6, "--pins", "none"], {"coverage": 0.6, "pins": "none"}),
        (["--min-count", 50, "--pins", "special"], {"min_count": 50, "pins": "special"}),
        (
            ["--size", 3, "--pins", "none", "--floor", "code=0.9", "--multiple-of", 8],
            {"size": 3, "pins": "none", "floors": {"code": 0.9}, "multiple_of": 8},
        ),
        (
            ["--size", 3, "--pins", "none", "--weight", "code=9", "--weight", "chat=0"],
            {"size": 3, "pins": "none", "weights": {"code": 9, "chat": 0}},
        ),
        (
            ["--size", 4, "--pins", "none", "--keep", 200],
            {"size": 4, "pins": "none", "extra_ids": [200]},
        ),
    ]
    for options, arguments in cases:
        assert call("export", counted, *options, "-f", "token-map", "-o", out)[0] == 0
        assert torch_file.load(out) == loaded.select(**arguments).ranked.tolist()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ([], 1, "0 of size, coverage and min_count were given; expected exactly one"),
        (["--size", 3, "--coverage", 0.5], 1, "2 of size, coverage and min_count"),
        (["--size", 3], 1, "size 3 is fewer than the 257 pinned ids"),
        (["--size", 266], 1, "size 266 is more than the 265 ids"),
        (["--size", 262, "--keep", 265], 1, "id 265 is to be kept, but the tokenizer never emits"),
        (["--size", 262, "--keep", "<|im_end|>"], 1, "--tokenizer TOK"),
        (["--size", 262, "--floor", "x=0.5"], 1, "no source 'x'; expected one of chat, code"),
        (["--size", 262, "--weight", "chat"], 2, "expected NAME=NUMBER"),
        (["--size", 262, "--weight", "code=5", "--weight", "code=0"], 2, "--weight 'code' twice"),
        (["--size", 262, "--floor", "code=0", "--floor", "code=1"], 2, "--floor 'code' twice"),
        (["--size", 262, "--keep", "٣"], 1, "--keep '٣' is no id"),
        (["--size", 262, "--pins", "all"], 2, "'all' is not one of"),
        (["--size", 262, "--kind", "text"], 1, "f.safetensors is a safetensors file"),
    ],
)
def test_export_refuses_impossible_selections(
    call: Call, counted: Path, tmp_path: Path, options: list[object], code: int, message: str
) -> None:
    done = call("export", counted, *options, "-f", "token-map", "-o", tmp_path / "out")
    assert done[0] == code
    assert message in " ".join(done[2].replace("│", " ").split())
    assert not (tmp_path / "out").exists()


def test_formats_of_counts_take_no_selection(call: Call, counted: Path, tmp_path: Path) -> None:
    out = tmp_path / "token_freq.pt"
    for form in ("token-freq", "vocab-freq"):
        code, _, err = call("export", counted, "--min-count", 3, "-f", form, "-o", out)
        assert code == 2
        assert "--min-count with --format" in err and "the tool that reads it" in " ".join(
            err.replace("│", " ").split()
        )
        for options in (("--min-count", 1), ("--coverage", 1), ("--pins", "none"), ("--size", 1)):
            assert call("export", counted, *options, "-f", form, "-o", out)[0] == 2
        assert call("export", counted, "--keep", 3, "-f", form, "-o", out)[0] == 2
        assert call("export", counted, "--weight", "chat=2", "-f", form, "-o", out)[0] == 2
    assert call("export", counted, "-f", "token-freq", "-o", out)[0] == 0
    loaded = FrequencyTable.load(counted)
    counts = loaded.counts.sum(axis=0)
    assert torch_file.load(out) == {int(i): int(counts[i]) for i in np.flatnonzero(counts)}
    assert call("export", counted, "-f", "vocab-freq", "-o", out)[0] == 4
    needs("vocab-freq")
    assert call("export", counted, "-f", "vocab-freq", "-o", out, "--force")[0] == 0
    assert torch.load(out, weights_only=True).tolist() == counts.tolist()


def test_keep_takes_the_text_of_a_token(
    call: Call, counted: Path, tok: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.pt"
    options = ("--size", 3, "--pins", "none", "-t", tok, "-f", "token-map", "-o", out)
    assert call("export", counted, *options, "--keep", "<|im_end|>", "--keep", " the")[0] == 0
    assert {IM_END, 258} <= set(torch_file.load(out))
    code, _, err = call("export", counted, *options, "--keep", "hi")
    assert code == 1
    assert "--keep 'hi' is 2 tokens" in err


def test_M12_keep_refuses_a_token_of_another_tokenizer(
    call: Call, counted: Path, tmp_path: Path
) -> None:
    other = tiny_tokenizer()
    other.add_special_tokens(["<|more|>"])
    folder = save_tokenizer(other, tmp_path / "other")
    out = tmp_path / "out"
    options = ("--size", 262, "--keep", "<|more|>", "-t", folder, "-f", "token-map", "-o", out)
    code, _, err = call("export", counted, *options)
    assert code == 4
    sha = FrequencyTable.load(counted).tokenizer.sha256
    assert sha in err and err.count("tokenizer.json") == 1
    assert not out.exists()


def test_export_selects_from_counts_of_others(call: Call, tmp_path: Path) -> None:
    vector, out = tmp_path / "vocab_freq.pt", tmp_path / "out.pt"
    torch.save(torch.tensor([0.1, 0.5, 0.0, 0.4]), vector)
    code, _, err = call("export", vector, "--size", "50%", "-f", "token-map", "-o", out)
    assert code == 1 and "expected --pins none" in err
    options = ("--pins", "none", "-f", "token-map", "-o", out)
    assert call("export", vector, "--size", "50%", *options)[0] == 0
    assert torch_file.load(out) == [1, 3]
    assert call("export", vector, "--coverage", 0.85, "--keep", 2, *options)[0] == 0
    assert torch_file.load(out) == [1, 3, 2]
    torch.save({7: 2, 3: 9}, vector)
    assert call("export", vector, "--size", 1, *options)[0] == 1
    assert call("export", vector, "--size", 1, "--rows", 8, *options)[0] == 0
    assert torch_file.load(out) == [3]


def test_the_summary_of_counts(call: Call, counted: Path, tmp_path: Path) -> None:
    out = tmp_path / "token_freq.pt"
    code, text, _ = call("export", counted, "-f", "token-freq", "-o", out)
    seen = np.count_nonzero(FrequencyTable.load(counted).counts.sum(axis=0))
    assert (code, text.splitlines()[0]) == (0, f"{seen} ids with counts of V = 265 rows")
    code, text, _ = call("convert", out, tmp_path / "copy.pt", "-f", "token-freq")
    assert (code, text.splitlines()[0]) == (0, f"{seen} ids with counts")


def test_the_summary_names_a_size_that_a_floor_raised(
    call: Call, counted: Path, tmp_path: Path
) -> None:
    options = ("--size", 1, "--pins", "none", "-f", "json", "-o", tmp_path / "out.json")
    code, text, _ = call("export", counted, *options, "--floor", "code=1")
    assert code == 0 and "A floor raised K from 1." in text
    code, text, _ = call("export", counted, *options, "--floor", "code=1", "--json")
    assert json.loads(text)["size_without_floors"] == 1 < json.loads(text)["size"]
    code, text, _ = call("export", counted, *options, "--floor", "code=0.01")
    assert code == 0 and "A floor raised" not in text
    pinned = ("--size", 1, "--keep", 1, "--keep", 2, *options[2:])
    assert call("export", counted, *pinned, "--floor", "code=1")[0] == 0


def test_export_honours_force_for_a_name(call: Call, counted: Path, tmp_path: Path) -> None:
    options = ("--size", 10, "--pins", "none", "-f", "token-map", "-o", tmp_path / "freq_5.pt")
    code, _, err = call("export", counted, *options)
    assert code == 1 and "--force" in err
    assert call("export", counted, *options, "--force")[0] == 0
    assert len(torch_file.load(tmp_path / "freq_5.pt")) == 10


def test_export_refuses_selected_ids_and_names_convert(call: Call, tmp_path: Path) -> None:
    DraftVocab.from_ids([1], rows=4).save(tmp_path / "v")
    code, _, err = call("export", tmp_path / "v", "--size", 1, "-f", "npy", "-o", tmp_path / "o")
    assert code == 4
    assert f"vocabfreq convert {tmp_path / 'v'} {tmp_path / 'o'} --format npy" in err


def test_export_replaces_no_other_file(call: Call, counted: Path, tmp_path: Path) -> None:
    before = counted.read_bytes()
    options = ("--size", 262, "-f", "json", "-o", counted)
    code, _, err = call("export", counted, *options)
    assert code == 4 and "in the way, and no json file" in err
    assert counted.read_bytes() == before


def test_convert_a_list_to_a_mapping_and_back(call: Call, tmp_path: Path) -> None:
    needs("mapping")
    torch_file.save_plain([5, 1, 3], tmp_path / "freq_3.pt")
    code, out, err = call(
        "convert", tmp_path / "freq_3.pt", tmp_path / "m.pt", "-f", "mapping", "--rows", 8
    )
    assert (code, err) == (0, "")
    assert "K = 3 of V = 8 rows (37.50 %)" in out
    code, out, err = call(
        "convert", tmp_path / "m.pt", tmp_path / "t.pt", "-f", "token-map", "--json"
    )
    assert torch_file.load(tmp_path / "t.pt") == [1, 3, 5]
    assert "has no ranking" in err
    assert json.loads(out)["size"] == 3


def test_M11_convert_repairs_with_a_remark(call: Call, tmp_path: Path) -> None:
    torch_file.save_plain([2, 7, 1, 0, 3, 2], tmp_path / "freq_5.pt")
    options = ("convert", tmp_path / "freq_5.pt", tmp_path / "v", "-f", "draft-vocab", "--rows", 8)
    code, _, err = call(*options)
    assert code == 1 and "--repair" in err
    code, _, err = call(*options, "--repair")
    assert code == 0 and "id 2 is repeated at position 5 after position 0; dropped" in err
    assert call(*options, "--repair", "--quiet")[1:] == ("", "")


def test_convert_refuses_ambiguous_input_and_changes_of_content(call: Call, tmp_path: Path) -> None:
    source, out = tmp_path / "x.pt", tmp_path / "out"
    torch.save(torch.tensor([3, 1]), source)
    code, _, err = call("convert", source, out, "-f", "json", "--rows", 8)
    assert code == 1 and "--kind token-map, vocab-freq or modelopt" in err
    code, _, err = call("convert", source, out, "-f", "json", "--kind", "vocab-freq")
    assert code == 4
    command = (
        f"vocabfreq export {source} --kind vocab-freq --size K --format json --pins none -o {out}"
    )
    assert command in err
    code, _, err = call(
        "convert", source, out, "-f", "token-freq", "--kind", "modelopt", "--rows", 8
    )
    assert code == 4 and "would be invented" in err
    table([[1, 2]]).save(source)
    code, _, err = call("convert", source, out, "-f", "npy")
    assert code == 4
    assert f"vocabfreq export {source} --size K --format npy -o {out}" in err
    assert not out.exists()
    assert call("convert", source, out, "-f", "token-freq")[0] == 0
    assert call("convert", out, tmp_path / "v.pt", "-f", "vocab-freq")[0] == 1
    assert call("convert", out, tmp_path / "v.pt", "-f", "vocab-freq", "--rows", 4)[0] == 0
    assert torch.load(tmp_path / "v.pt", weights_only=True).tolist() == [1, 2, 0, 0]


def test_convert_from_a_hub(tmp_path: Path) -> None:
    torch_file.save_plain([5, 1, 3], tmp_path / "freq_3.pt")
    np.save(tmp_path / "d2t.npy", np.array([1, 2]))
    np.save(tmp_path / "t2d.npy", np.array([False, True, False, True]))
    files = {p.name: p.read_bytes() for p in tmp_path.glob("*.*")}
    files = {**files, "sub/d2t.npy": files["d2t.npy"], "sub/t2d.npy": files["t2d.npy"]}
    with HubServer() as hub:
        hub.add("model", "o/r", files, branch="v1")

        def convert(*arguments: object) -> tuple[int, str]:
            kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower()}
            home = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home")}
            program = "from vocabfreq.cli import main; main()"
            command = [sys.executable, "-c", program, "convert", *map(str, arguments)]
            done = subprocess.run(
                command, env=kept | home, cwd=tmp_path, capture_output=True, text=True, check=False
            )
            return done.returncode, done.stderr

        code, err = convert("o/r/freq_3.pt@v1", "a", "-f", "json", "--rows", 8, "-q")
        assert (code, err) == (0, "")
        code, err = convert("o/r/sub/d2t.npy@v1", "b", "-f", "json", "-q")
        assert (code, err) == (0, "")
        code, err = convert("o/r/none.pt@v1", "c", "-f", "json", "--rows", 8)
        assert code == 1 and "has no file 'none.pt'" in err
    assert read(tmp_path / "a") == DraftVocab.from_ids([5, 1, 3], rows=8)
    assert read(tmp_path / "b") == DraftVocab.from_ids([1, 3], rows=4)
