"""CASES.md F1 to F10, F13 to F18 and F21: inputs that broke others."""

import gzip
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny import Lines, report, save_tokenizer, tiny_tokenizer, total, truth
from tokenizers import processors

from vocabfreq import Source
from vocabfreq.corpus import readers
from vocabfreq.counting.plan import make_plan
from vocabfreq.errors import IdRangeError, SourceError
from vocabfreq.tokenizer.info import load_tokenizer

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@pytest.fixture(params=[1 << 22, 7], ids=["one-block", "blocks-of-7"])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Whatever the blocks are, the counts are the same."""
    monkeypatch.setattr(readers, "BLOCK", request.param)
    return int(request.param)


def skipped(found: Any) -> dict[str, int]:
    return dict(found.table.sources[0].skipped)


def test_F1_a_broken_line_costs_one_row(tok: Path, lines: Lines, block: int) -> None:
    path = lines({"text": "a b"}, b"{broken", {"text": "c d"})
    found = report(tok, f"x={path}")
    assert (total(found.table) == truth(tok, ["a b", "c d"])).all()
    assert found.table.sources[0].documents == 2
    assert skipped(found) == {"not JSON": 1}
    assert str(found.examples["x"][0]) == "rows.jsonl, line 2"


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_F2_half_a_compressed_file(tok: Path, tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(97, 122, 80))) for _ in range(3000)]
    data = "".join(json.dumps({"text": t}) + "\n" for t in texts).encode()
    packed = gzip.compress(data) if kind == "gz" else zstd.compress(data)
    path = tmp_path / f"half.jsonl.{kind}"
    path.write_bytes(packed[: len(packed) // 2])
    found = report(tok, str(path))
    documents = found.table.sources[0].documents
    assert 1000 < documents < 2000
    assert (total(found.table) == truth(tok, texts[:documents])).all()
    assert skipped(found) == {"truncated file": 1}
    assert f"byte {path.stat().st_size}" in str(found.examples["half"][0])


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_F3_all_members_and_frames_are_read(tok: Path, tmp_path: Path, kind: str) -> None:
    pack = gzip.compress if kind == "gz" else zstd.compress
    path = tmp_path / f"two.jsonl.{kind}"
    path.write_bytes(pack(b'{"text":"abc"}\n{"te') + pack(b'xt":"the"}\n'))
    assert (total(report(tok, str(path)).table) == truth(tok, ["abc", "the"])).all()


def test_F4_each_wrong_row_has_its_own_reason(tok: Path, lines: Lines, block: int) -> None:
    path = lines({"text": None}, {"other": 1}, {"text": ["x"]}, {"text": 5}, {"text": ""})
    found = report(tok, Source("x", str(path), column="text"))
    assert skipped(found) == {
        "column is a list": 1,
        "column is a number": 1,
        "column is null": 1,
        "column missing": 1,
    }
    assert found.table.sources[0].documents == 1
    assert found.table.sources[0].tokens == 0


def test_F4_rows_that_are_no_objects(tok: Path, lines: Lines, block: int) -> None:
    path = lines({"text": "abc"}, "null", "[1]", '"text"', "17", {"text": {"a": 1}}, {"text": True})
    found = report(tok, str(path))
    assert skipped(found) == {
        "column is a boolean": 1,
        "column is an object": 1,
        "not an object": 4,
    }
    assert (total(found.table) == truth(tok, ["abc"])).all()


def test_F5_other_columns_never_matter(tok: Path, lines: Lines, tmp_path: Path) -> None:
    lines({"text": "abc", "meta": None}, name="a.jsonl")
    lines({"text": "the", "meta": {"x": 1}}, name="b.jsonl")
    assert (total(report(tok, str(tmp_path / "*.jsonl")).table) == truth(tok, ["abc", "the"])).all()


def test_F5_a_null_typed_column_beside_a_string_one(tok: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": pa.nulls(2)}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["abc"], "meta": [1]}), tmp_path / "b.parquet")
    found = report(tok, f"x={tmp_path / '*.parquet'}")
    assert (total(found.table) == truth(tok, ["abc"])).all()
    assert skipped(found) == {"column is null": 2}


def test_F6_a_latin1_byte_is_one_bad_row(tok: Path, lines: Lines, block: int) -> None:
    found = report(tok, str(lines({"text": "a"}, b'{"text":"caf\xe9"}', {"text": "b"})))
    assert skipped(found) == {"not UTF-8": 1}
    assert (total(found.table) == truth(tok, ["a", "b"])).all()


def test_F6_a_latin1_byte_in_another_column_is_not_looked_at(
    tok: Path, lines: Lines, block: int
) -> None:
    found = report(tok, str(lines({"text": "a"}, b'{"text":"b","meta":"caf\xe9"}', b"{")))
    assert skipped(found) == {"not JSON": 1}
    assert (total(found.table) == truth(tok, ["a", "b"])).all()


def test_F6_a_lone_surrogate_is_replaced_and_counted(tok: Path, lines: Lines, block: int) -> None:
    rows = [b'{"text":"a\\ud800b"}', b'{"text":"\\ud83d\\ude00"}', b'{"text":"\\udc00\\ud800"}']
    found = report(tok, str(lines(*rows)))
    assert skipped(found) == {"lone surrogate replaced": 3}
    assert (total(found.table) == truth(tok, ["a\ufffdb", "😀", "\ufffd\ufffd"])).all()


def test_F6_bom_crlf_no_final_newline_and_u2028(tok: Path, tmp_path: Path, block: int) -> None:
    path = tmp_path / "x.jsonl"
    rows = ['\ufeff{"text":"abc"}\r\n', '{"text":"a\u2028b"}\r\n\r\n', '{"text":"the"}']
    path.write_bytes("".join(rows).encode())
    found = report(tok, str(path))
    assert skipped(found) == {}
    assert (total(found.table) == truth(tok, ["abc", "a\u2028b", "the"])).all()


def test_F6_lines_end_at_newlines_only(tok: Path, lines: Lines, block: int) -> None:
    path = lines('{"text":"a"} {"text":"b"}', '{"text":', '"c"}', {"text": "abc"})
    found = report(tok, str(path))
    assert skipped(found) == {"not JSON": 3}
    assert (total(found.table) == truth(tok, ["abc"])).all()


def test_F7_a_document_longer_than_many_blocks(
    tok: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BLOCK", 1 << 10)
    texts = ["abc the " * 60_000, "a" * 50_000, "x"]
    found = report(tok, str(lines(*({"text": t} for t in texts))))
    assert (total(found.table) == truth(tok, texts)).all()


def test_F8_stored_truncation_and_padding_are_off(tmp_path: Path, lines: Lines, tok: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.enable_truncation(128)
    tokenizer.enable_padding(length=512, pad_id=3)
    cut = save_tokenizer(tokenizer, tmp_path / "cut")
    path = lines({"text": "abc " * 1000}, {"text": "a"})
    want = truth(tok, ["abc " * 1000, "a"])
    for encoder in ("auto", "tokenizers"):
        assert (total(report(cut, str(path), encoder=encoder).table) == want).all()


def test_F9_bos_and_eos_are_not_counted(tmp_path: Path, lines: Lines, tok: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <|im_end|>",
        special_tokens=[("<|endoftext|>", 263), ("<|im_end|>", 264)],
    )
    adds = save_tokenizer(tokenizer, tmp_path / "adds")
    path = lines({"text": "abc"}, {"text": ""})
    for encoder in ("auto", "tokenizers"):
        found = total(report(adds, str(path), encoder=encoder).table)
        assert (found == truth(tok, ["abc"])).all()
        assert found[263] == found[264] == 0


def test_F10_literal_special_tokens_count_as_the_reference_says(tok: Path, lines: Lines) -> None:
    texts = ["a<|endoftext|>b", "<|im_end|>", "<|im_end", "< |endoftext|>"]
    path = lines(*({"text": t} for t in texts))
    for encoder in ("auto", "tokenizers"):
        found = total(report(tok, str(path), encoder=encoder).table)
        assert (found == truth(tok, texts)).all()
        assert found[263] == found[264] == 1


def test_F13_only_what_the_assistant_wrote(tok: Path, lines: Lines, block: int) -> None:
    messages = [{"role": "user", "content": "xyz"}, {"role": "assistant", "content": "abc"}]
    path = lines(
        {"messages": messages},
        {"messages": [{"role": "user", "content": "xyz"}]},
        {"messages": [{"role": "assistant", "content": [{"type": "text", "text": "the"}]}]},
    )
    found = report(tok, str(path))
    assert (total(found.table) == truth(tok, ["abc", "the"])).all()
    assert found.table.sources[0].documents == 3
    everything = report(tok, Source("x", str(path), roles="all"))
    assert (total(everything.table) == truth(tok, ["xyz", "abc", "xyz", "the"])).all()


def test_F13_sharegpt(tok: Path, lines: Lines, block: int) -> None:
    turns = [{"from": "human", "value": "xyz"}, {"from": "gpt", "value": "abc the"}]
    found = report(tok, str(lines({"conversations": turns}, {"conversations": turns[:1]})))
    assert (total(found.table) == truth(tok, ["abc the"])).all()
    assert found.table.sources[0].documents == 2


def test_F13_reasoning_and_tool_calls_are_generated_too(tok: Path, lines: Lines) -> None:
    call = {"function": {"name": "f", "arguments": '{"a": 1}'}}
    call_of_object = {"function": {"name": "f", "arguments": {"b": "é"}}}
    turn = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hello",
        "tool_calls": [call, call_of_object],
    }
    older = {"role": "Assistant", "function_call": {"name": "f", "arguments": "[2]"}}
    found = report(tok, str(lines({"messages": [turn, older]})))
    want = truth(tok, ["hello", '{"a": 1}', '{"b": "é"}', "[2]"])
    assert (total(found.table) == want).all()


def test_F13_chat_in_parquet(tok: Path, tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "abc"}]
    pq.write_table(pa.table({"messages": [turns, turns[:1]], "id": [1, 2]}), tmp_path / "c.parquet")
    found = report(tok, str(tmp_path / "c.parquet"))
    assert (total(found.table) == truth(tok, ["abc"])).all()
    assert found.table.sources[0].documents == 2


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
@pytest.mark.parametrize("wrong", [-100, 265, 2**40])
def test_F14_an_id_out_of_range_names_the_row(
    tok: Path, tmp_path: Path, wrong: int, kind: str
) -> None:
    path = write_rows(tmp_path, kind, {"input_ids": [[1, 2], [3, wrong], [4]]})
    with pytest.raises(IdRangeError, match=rf"row 2: id {wrong} in 'input_ids'"):
        report(tok, str(path))


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "arrow"])
def test_F14_ids_and_loss_mask(tok: Path, tmp_path: Path, kind: str) -> None:
    ids, mask = [[1, 2, 2], [], [3, 4]], [[0, 1, 1], [], [1, 0]]
    path = write_rows(tmp_path, kind, {"input_ids": ids, "loss_mask": mask})
    found = report(tok, str(path))
    assert {i: int(n) for i, n in enumerate(total(found.table)) if n} == {2: 2, 3: 1}
    assert found.table.sources[0].documents == 3
    assert skipped(found) == {}


@pytest.mark.parametrize(("value", "word"), [(1, "ones"), (0, "zeros")])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_F14_a_trivial_mask_is_remarked_on(
    tok: Path, tmp_path: Path, kind: str, value: int, word: str
) -> None:
    rows = {"input_ids": [[1, 2], [3]], "loss_mask": [[value] * 2, [value]]}
    found = report(tok, str(write_rows(tmp_path, kind, rows)))
    assert skipped(found) == {f"loss mask all {word}": 1}


def write_rows(folder: Path, kind: str, columns: dict[str, list[Any]]) -> Path:
    path = folder / f"rows.{kind}"
    table = pa.table({k: pa.array(v, pa.list_(pa.int64())) for k, v in columns.items()})
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif kind == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def test_F15_a_glob_that_matches_nothing_says_what_is_there(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    lines({"text": "a"}, name="real.jsonl")
    with pytest.raises(SourceError, match=r"(?s)no file matches .*nope.*real\.jsonl"):
        report(tok, str(tmp_path / "nope*.jsonl"))


def test_F15_a_missing_column_lists_the_columns(tok: Path, lines: Lines) -> None:
    path = lines({"body": "a", "title": "b"})
    with pytest.raises(SourceError, match="no column 'text'; expected one of 'body', 'title'"):
        report(tok, Source("x", str(path), column="text"))
    with pytest.raises(SourceError, match="(?s)not clear which column.*'body', 'title'.*--column"):
        report(tok, str(path))


def test_F15_a_directory(tok: Path, lines: Lines, tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"x")
    with pytest.raises(SourceError, match=r"(?s)is a directory without.*image\.png"):
        report(tok, str(tmp_path))


def test_F7_the_first_line_may_be_longer_than_a_block(
    tok: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vocabfreq.corpus.sources.BLOCK", 100)
    texts = ["abc the " * 100, "x"]
    found = report(tok, str(lines(*({"text": t} for t in texts))))
    assert (total(found.table) == truth(tok, texts)).all()


@pytest.mark.parametrize("kind", ["gz", "zst"])
def test_F16_bytes_after_the_last_member_are_ignored(tok: Path, tmp_path: Path, kind: str) -> None:
    pack = gzip.compress if kind == "gz" else zstd.compress
    path = tmp_path / f"x.jsonl.{kind}"
    path.write_bytes(pack(b'{"text":"abc"}\n{"text":"the"}') + b"garbage after the end")
    found = report(tok, str(path))
    assert (total(found.table) == truth(tok, ["abc", "the"])).all()
    assert skipped(found) == {"trailing bytes ignored": 1}


def test_F16_zeros_after_the_last_member_are_padding(tok: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text":"abc"}\n{"text":"the"}') + bytes(512))
    found = report(tok, str(path))
    assert (total(found.table) == truth(tok, ["abc", "the"])).all()
    assert not skipped(found)


def test_F17_a_file_that_is_reached_twice_counts_twice_with_a_remark(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    path = lines({"text": "abc"}, name="a.jsonl")
    (tmp_path / "link.jsonl").symlink_to(path)
    plan = make_plan([f"x={path}", f"y={tmp_path / '*.jsonl'}"], str(tok))
    assert [remark for remark in plan.remarks if "a.jsonl is counted 3 times" in remark]
    assert "of x" in plan.remarks[0]
    assert "link.jsonl' of y" in plan.remarks[0]
    found = report(tok, f"x={path}", f"y={tmp_path / '*.jsonl'}")
    assert (total(found.table) == truth(tok, ["abc"] * 3)).all()


def test_F18_a_named_pipe_is_read_once(tok: Path, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    texts = [f"abc {n}" for n in range(5)]
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    thread = threading.Thread(target=path.write_bytes, args=(data,))
    thread.start()
    found = report(tok, f"x={path}")
    thread.join()
    assert (total(found.table) == truth(tok, texts)).all()


def test_F18_a_folder_stands_for_the_files_under_it(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (folder / "b.jsonl").write_text('{"text": "abc"}\n')
    (folder / "sub" / "a.csv").write_text('text,n\n"the\nab",1\nll,2\n')
    (folder / "c.tsv").write_text("text\tn\nlo, x\t1\n")
    (folder / "image.png").write_bytes(b"x")
    (folder / ".hidden.jsonl").write_text("no")
    plan = make_plan([str(folder)], str(tok))
    assert plan.files(0) == ("b.jsonl", "c.tsv", "a.csv")
    assert plan.remarks == (f"corpus: 1 files of {str(folder)!r} cannot be read",)
    found = report(tok, str(folder))
    assert (total(found.table) == truth(tok, ["abc", "lo, x", "the\nab", "ll"])).all()
    assert not skipped(found)


def test_F21_a_stop_id_beyond_the_rows_is_a_remark(tmp_path: Path) -> None:
    folder = save_tokenizer(
        tiny_tokenizer(),
        tmp_path / "t",
        config={"vocab_size": 265, "eos_token_id": 264},
        generation_config={"eos_token_id": [264, 900]},
    )
    info = load_tokenizer(str(folder))
    assert info.stop_ids == (264,)
    assert info.remarks == (
        "generation_config.json names the stop id 900, but the model has 265 rows: it is left out",
    )


def test_F2_a_truncated_json_array_is_no_mere_bad_row(
    tok: Path, lines: Lines, tmp_path: Path
) -> None:
    lines({"text": "abc"}, name="a.jsonl")
    (tmp_path / "b.json").write_text('[{"text": "abc"}, {"text": "th')
    found = report(tok, f"x={tmp_path / '?.json*'}")
    assert skipped(found) == {"broken file": 1}
    assert "b.json, byte" in str(found.examples["x"][0])


def test_F13_turns_of_unknown_roles_are_counted(tok: Path, lines: Lines) -> None:
    turns = [{"from": "GPT-4", "value": "abc"}, {"from": "human", "value": "x"}]
    found = report(tok, str(lines({"conversations": turns}, {"conversations": turns})))
    assert skipped(found) == {"tokens of the unknown role 'gpt-4'": 2}
    assert found.table.sources[0].tokens == 0


def test_F13_turns_that_do_not_fit_say_where(tok: Path, lines: Lines) -> None:
    good = {"messages": [{"role": "assistant", "content": "abc"}]}
    bad = {"messages": [{"role": "assistant", "content": 5}]}
    found = report(tok, str(lines(good, bad)))
    assert skipped(found) == {"turns do not fit": 1}
    assert "int instead of text" in str(found.examples["rows"][0])


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_F14_a_loss_mask_that_only_some_rows_have(tok: Path, tmp_path: Path, kind: str) -> None:
    with_mask = {"input_ids": [[1, 2]], "loss_mask": [[0, 1]]}
    write_rows(tmp_path, kind, {"input_ids": [[3, 4]] * 150}).rename(tmp_path / f"a.{kind}")
    write_rows(tmp_path, kind, with_mask).rename(tmp_path / f"b.{kind}")
    found = report(tok, f"x={tmp_path / f'?.{kind}'}")
    assert {i: int(n) for i, n in enumerate(total(found.table)) if n} == {2: 1, 3: 150, 4: 150}
