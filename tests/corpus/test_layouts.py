"""Layouts of rows: what counts in the shapes that public sets, servers and tools have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import Lines, report, total, truth

from vocabfreq import CountOptions, Source
from vocabfreq.corpus.layouts import LAYOUTS, find_layout, group_of
from vocabfreq.errors import SourceError

OFF = CountOptions(workers=0, chat_template="off")
USER, REPLY = {"role": "user", "content": "a"}, {"role": "assistant", "content": "c d"}
GPT = {"from": "gpt", "value": "c d"}
HUMAN = {"from": "human", "value": "a"}
CALL = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}


def counted(tok: Path, path: Path, *columns: str) -> tuple[Any, Any]:
    """The report of one file, and what it skipped."""
    column = columns or None
    found = report(tok, Source("x", str(path), column=column), options=OFF)
    return found, dict(found.table.sources[0].skipped)


def check(tok: Path, path: Path, texts: list[str], *columns: str) -> Any:
    """The counts are those of the texts, and no row was lost."""
    found, skipped = counted(tok, path, *columns)
    assert (total(found.table) == truth(tok, texts)).all()
    assert not skipped
    return found


@pytest.mark.parametrize(
    "row",
    [
        {"instruction": "a", "input": "b", "output": "c d"},
        {"instruction": "a", "input": "b", "response": "c d"},
        {"question": "a", "answer": "c d"},
        {"prompt": "a", "completion": "c d"},
        {"Question": "a", "Response": "c d"},
        {"problem": "a", "solution": "c d"},
        {"custom_id": "a", "generated_text": "c d"},
    ],
)
def test_S1_the_answer_of_an_instruction_set(tok: Path, lines: Lines, row: Any) -> None:
    check(tok, lines(row, row), ["c d"] * 2)


@pytest.mark.parametrize(
    "content",
    [
        {"answer": "c d"},
        [{"type": "text", "text": "c d"}],
        [{"type": "text", "value": "c d"}],
        [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "c d"}],
    ],
)
def test_S2_content_as_an_object_or_as_parts(tok: Path, lines: Lines, content: Any) -> None:
    row = {"messages": [USER, {"role": "assistant", "content": content}]}
    check(tok, lines(row, {"messages": [USER, REPLY]}), ["c d"] * 2)


def test_S2_an_object_without_a_text_key_is_a_bad_row_that_names_its_keys(
    tok: Path, lines: Lines
) -> None:
    bad = {"messages": [{"role": "assistant", "content": {"foo": "x", "bar": "y"}}]}
    found, skipped = counted(tok, lines({"messages": [REPLY]}, bad))
    assert skipped == {"turns do not fit": 1}
    assert "line 2: an object with the keys 'foo', 'bar'" in str(found.examples["x"][0])


@pytest.mark.parametrize(
    "row",
    [
        {"conversations": [HUMAN], "chosen": GPT, "rejected": {"from": "gpt", "value": "x"}},
        {"prompt": "a", "chosen": "c d", "rejected": "x"},
        {"chosen": [USER, REPLY], "rejected": [USER, {"role": "assistant", "content": "x"}]},
        {"prompt": [USER], "chosen": [USER, REPLY], "rejected": [USER]},
        {"messages": [USER, REPLY], "chosen": [USER, REPLY], "rejected": [USER]},
        {"messages": [USER], "chosen": [REPLY], "rejected": "x"},
        {"messages": [USER], "chosen": "c d", "rejected": "x"},
        {"chosen_messages": [USER, REPLY], "rejected_messages": [USER]},
    ],
)
def test_S3_of_a_preference_the_chosen_answer_once(tok: Path, lines: Lines, row: Any) -> None:
    check(tok, lines(row), ["c d"])


def test_S3_earlier_answers_of_the_conversation_count_too(tok: Path, lines: Lines) -> None:
    turns = [HUMAN, {"from": "gpt", "value": "ab"}, HUMAN]
    check(tok, lines({"conversations": turns, "chosen": GPT, "rejected": GPT}), ["ab", "c d"])


def test_S4_calls_count_and_unknown_roles_are_reported_with_their_tokens(
    tok: Path, lines: Lines
) -> None:
    names = {"system": "s", "human": "a", "observation": "x", "tool": "y", "narrator": "the ab"}
    turns = [{"from": name, "value": value} for name, value in names.items()]
    path = lines({"conversations": [*turns, {"from": "function_call", "value": "c d"}]})
    found, skipped = counted(tok, path)
    assert (total(found.table) == truth(tok, ["c d"])).all()
    assert skipped == {"tokens of the unknown role 'narrator'": int(truth(tok, ["the ab"]).sum())}


@pytest.mark.parametrize(
    ("turns", "texts"), [(["c", "d"], ["c", "d"]), ([{"content": "c d"}], ["c d"])]
)
def test_S5_answers_in_choices_and_turns(
    tok: Path, lines: Lines, turns: Any, texts: list[str]
) -> None:
    check(tok, lines({"question_id": 1, "choices": [{"index": 0, "turns": turns}]}), texts)


def test_S6_a_batch_result_counts_and_an_error_is_skipped_by_reason(
    tok: Path, lines: Lines
) -> None:
    message = {**REPLY, "reasoning_content": "ab", "tool_calls": [CALL]}
    good = {"custom_id": "the the the", "response": {"body": {"choices": [{"message": message}]}}}
    bad = {"custom_id": "k", "response": None, "error": {"message": "overloaded"}}
    found, skipped = counted(tok, lines({**good, "error": None}, bad))
    assert (total(found.table) == truth(tok, ["ab", "c d", '{"x": 1}'])).all()
    assert skipped == {"an error instead of an answer": 1}


@pytest.mark.parametrize(
    "row",
    [
        {"response": {"choices": [{"message": REPLY}]}, "request": {"messages": [USER]}},
        {"choices": [{"message": REPLY}], "usage": {}},
        {"choices": [{"text": "c d"}]},
        {
            "response": {
                "body": {
                    "output": [
                        {
                            "type": "message",
                            "role": "assistant",
                            "content": [{"type": "output_text", "text": "c d"}],
                        }
                    ]
                }
            }
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "c d"}]}}]},
        {"response": {"role": "assistant", "content": [{"type": "text", "text": "c d"}]}},
        {"model": "m", "message": REPLY, "done": True},
        {"prompt": "a", "outputs": [{"text": "c d"}]},
        {"doc": {"question": "a"}, "resps": [["c d"]], "filtered_resps": ["c d"]},
        {"instruction": "a", "generations": ["c d"]},
    ],
)
def test_S6_logs_of_servers_and_tools(tok: Path, lines: Lines, row: Any) -> None:
    check(tok, lines(row), ["c d"])


def test_S7_columns_by_path(tok: Path, lines: Lines) -> None:
    row = {"a": {"b": {"c": "ab"}}, "outs": [{"text": "c"}, {"text": "d"}], "x.y": "ll"}
    path = lines(row | {"x": {"y": "no"}, "q": "the", "z": "no"})
    check(tok, path, ["ab"], "a.b.c")
    check(tok, path, ["c", "d"], "outs[].text")
    check(tok, path, ["ll"], "x.y")
    found = check(tok, path, ["the", "ab"], "q", "a.b.c")
    assert found.table.sources[0].documents == 2


def test_S8_each_text_of_a_list_is_a_document(tok: Path, lines: Lines) -> None:
    found = check(tok, lines({"question": "a", "answers": ["c d", "e"]}), ["c d", "e"])
    assert found.table.sources[0].documents == 2


@pytest.mark.parametrize(
    "row",
    [
        {"id": "the the", "question": "a", "notes": "b"},
        {"custom_id": "the the"},
        {"question_id": 81, "turns": ["a", "b"]},
        {"question": "a", "6b": {"solution": "x"}, "175b": {"solution": "y"}},
    ],
)
def test_what_no_model_wrote_is_asked_for(tok: Path, lines: Lines, row: Any) -> None:
    with pytest.raises(SourceError, match=r"(?s)not clear which column.*--column") as error:
        counted(tok, lines(row))
    assert all(repr(name) in str(error.value) for name in row)


def test_a_set_in_two_layouts_takes_both(tok: Path, lines: Lines) -> None:
    check(
        tok, lines({"messages": [USER, REPLY]}, {"instruction": "a", "output": "ab"}), ["c d", "ab"]
    )


def test_reasoning_beside_an_answer_counts(tok: Path, lines: Lines) -> None:
    check(tok, lines({"Question": "a", "Complex_CoT": "ab", "Response": "c d"}), ["ab", "c d"])


def test_what_is_left_alone_is_known() -> None:
    found = find_layout([{"question": "abcd", "answer": "cd", "n": 1}], (), "assistant", "f")
    assert (found.left, found.sampled) == ({"question": 4}, 6)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_layout_of_the_table_is_found(layout: Any, tok: Path, lines: Lines) -> None:
    values: dict[str, Any] = {"conversation": [USER, REPLY], "log": REPLY, "ids": [1, 2]}
    for path in layout.columns:
        assert group_of(path) == layout.group
        value = values.get(layout.group, "c d")
        row: Any = value
        for name in reversed(path.split(".")):
            row = {name.removesuffix("[]"): [row] if name.endswith("[]") else row}
        found = find_layout([row], (), "assistant", "f").layout
        assert path in (found.column, *found.paths)
        table = counted(tok, lines(row, name=f"{path}.jsonl".replace("[]", "")))[0].table
        assert int(total(table).sum()) > 0


@pytest.mark.parametrize("kind", ["parquet", "json", "jsonl.gz", "arrow"])
def test_layouts_are_the_same_in_every_container(
    tok: Path, tmp_path: Path, kind: str, pack: Callable[[Path, str, list[Any]], Path]
) -> None:
    rows = [{"question": "a", "answers": ["c d", "e"]}, {"question": "b", "answers": ["ab"]}]
    check(tok, pack(tmp_path, kind, rows), ["c d", "e", "ab"])


@pytest.fixture
def pack() -> Callable[[Path, str, list[Any]], Path]:
    """Writes rows into a container."""
    import gzip

    import pyarrow as pa
    import pyarrow.parquet as pq

    def write(folder: Path, kind: str, rows: list[Any]) -> Path:
        path = folder / f"rows.{kind}"
        table = pa.Table.from_pylist(rows)
        if kind == "parquet":
            pq.write_table(table, path)
        elif kind == "arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        elif kind == "json":
            path.write_text(json.dumps(rows))
        else:
            path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
        return path

    return write


REAL = Path(__file__).parents[3] / "shared" / "data" / "layouts"


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason=f"no folder {REAL}")
@pytest.mark.parametrize(
    ("name", "documents", "left"),
    [
        ("sharegpt_toolcall.json", 40, {"tools"}),
        ("sharegpt_preference.json", 40, {"rejected"}),
        ("content_parts_sft.jsonl", 40, set()),
        ("content_parts_preference.jsonl", 10, {"rejected_messages"}),
        ("reasoning_tools.jsonl", 12, {"tools"}),
        ("agent_trajectories.json", 6, {"info"}),
        ("question_answer.jsonl", 60, {"question"}),
    ],
)
def test_real_samples_count_without_an_option(
    tok: Path, name: str, documents: int, left: set[str]
) -> None:
    from vocabfreq.counting.plan import make_plan

    found, skipped = counted(tok, REAL / name)
    assert found.table.sources[0].documents == documents
    assert int(np.sum(found.table.counts + found.table.heldout)) > 1000
    assert not skipped
    plan = make_plan([str(REAL / name)], str(tok), OFF)
    assert set(plan.layouts[0].left) == left


@pytest.mark.real
@pytest.mark.skipif(not REAL.is_dir(), reason=f"no folder {REAL}")
def test_a_real_sample_of_four_models_is_asked_for_and_read_by_path(tok: Path) -> None:
    path = REAL / "nested_solutions.jsonl"
    with pytest.raises(SourceError, match=r"(?s)not clear.*175b_verification.*solution"):
        counted(tok, path)
    found, skipped = counted(tok, path, "6b_finetuning.solution", "175b_finetuning.solution")
    assert found.table.sources[0].documents == 40
    assert not skipped
