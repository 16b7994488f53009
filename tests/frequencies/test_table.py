"""FrequencyTable and its file."""

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from tables import table
from tiny import Lines, report

from vocabfreq import FrequencyTable
from vocabfreq.errors import FileFormatError, MismatchError, RefusedError, SelectionError
from vocabfreq.frequencies.comparing import differences, overlap


def test_ties_go_to_the_lower_id() -> None:
    assert table([[1, 3, 3, 0, 1, 0]]).ranked_ids.tolist() == [1, 2, 0, 4, 3, 5]


def test_coverage_counts_heldout_tokens_when_there_are_any() -> None:
    assert table([[6, 3, 1]]).coverage(2) == pytest.approx(0.9)
    assert table([[6, 3, 1]], [[0, 1, 3]]).coverage(2) == pytest.approx(0.25)
    assert table([[6, 3, 1]]).coverage(0) == 0
    assert table([[0, 0]]).coverage(2) == 0


@pytest.mark.parametrize("size", [-1, 4, 1.0, True])
def test_coverage_of_a_senseless_size(size: Any) -> None:
    with pytest.raises(SelectionError, match="from 0 to 3"):
        table([[6, 3, 1]]).coverage(size)


def test_coverage_of_one_source() -> None:
    both = table([[9, 0, 1], [0, 5, 5]])
    assert both.ranked_ids.tolist() == [0, 2, 1]
    assert both.coverage(1, "s0") == pytest.approx(0.9)
    assert both.coverage(1, "s1") == 0
    with pytest.raises(SelectionError, match="no source 'x'; expected one of s0, s1"):
        both.coverage(1, "x")


def test_weights_rank_by_shares() -> None:
    both = table([[900, 100, 0], [0, 4, 6]])
    assert both.ranked_ids.tolist() == [0, 1, 2]
    assert both.reweighted({"s0": 1, "s1": 2}).ranked_ids.tolist() == [2, 0, 1]
    assert both.reweighted({"s1": 0}).ranked_ids.tolist() == [0, 1, 2]
    assert both.reweighted({"s0": 0}).reweighted(None) == both
    assert both.reweighted({"s0": 0}).coverage(1) == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("weights", "message"),
    [({"x": 1}, "no source 'x'"), ({"s0": -1}, "-1"), ({"s0": 0}, "every source weighs 0")],
)
def test_senseless_weights(weights: dict[str, float], message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        table([[1, 2]]).reweighted(weights)


def test_adding_keeps_sources_apart() -> None:
    other = table([[1, 1, 1]])
    record = msgspec.structs.replace(other.sources[0], sha256="f" * 64)
    other = FrequencyTable(
        other.counts, other.heldout, msgspec.structs.replace(other.meta, sources=(record,))
    )
    both = table([[6, 3, 1]]) + other
    assert [s.name for s in both.sources] == ["s0", "s0-2"]
    assert both.counts.tolist() == [[6, 3, 1], [1, 1, 1]]


def test_the_same_source_twice_is_refused() -> None:
    with pytest.raises(RefusedError, match="source 's0' is in both tables"):
        table([[1, 2]]) + table([[1, 2]])


def test_M12_another_tokenizer_is_refused_with_both_fingerprints() -> None:
    with pytest.raises(MismatchError, match=f"(?s){'ab' * 32}.*{'cd' * 32}"):
        table([[1, 2]]) + table([[1, 2]], sha256="cd" * 32)
    with pytest.raises(MismatchError, match="differ in rows"):
        table([[1, 2]]) + table([[1, 2, 3]])


rows_of_counts = st.integers(1, 30).flatmap(
    lambda v: st.lists(
        st.lists(st.integers(0, 2**40), min_size=v, max_size=v), min_size=1, max_size=3
    )
)


@given(rows_of_counts, st.data())
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[int]], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.safetensors"
    weight = st.none() | st.floats(0.1, 10)
    weights = data.draw(st.lists(weight, min_size=len(rows), max_size=len(rows)))
    before = table(rows, [row[::-1] for row in rows], weights)
    before.save(path)
    first = path.read_bytes()
    loaded = FrequencyTable.load(path)
    assert loaded == before
    loaded.save(path)
    assert path.read_bytes() == first


@given(rows_of_counts)
def test_ranking_agrees_with_sorting(rows: list[list[int]]) -> None:
    counted = table(rows)
    sums = np.array(rows, object).sum(axis=0)
    assert counted.ranked_ids.tolist() == sorted(range(len(sums)), key=lambda i: (-sums[i], i))


def test_the_file_is_as_documented(tmp_path: Path) -> None:
    table([[1, 2]], [[3, 4]]).save(tmp_path / "f")
    with safe_open(str(tmp_path / "f"), "numpy") as file:
        assert list(file.metadata()) == ["vocabfreq"]
        text = file.metadata()["vocabfreq"]
        assert sorted(file.keys()) == ["counts", "heldout", "ranked_ids"]
    content = json.loads(text)
    assert text == json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert set(content) == {
        *("format", "vocabfreq", "tokenizer", "special_ids", "stop_ids", "byte_ids"),
        "template_ids",
        *("sources", "options", "encoder"),
    }


def broken(path: Path, change: Any) -> None:
    """Saves a good file, then spoils it."""
    table([[1, 2, 0], [5, 0, 1]], [[0, 1, 0], [0, 0, 0]]).save(path)
    tensors = load_file(path)
    with safe_open(str(path), "numpy") as file:
        meta = json.loads(file.metadata()["vocabfreq"])
    change(tensors, meta)
    save_file(tensors, path, metadata={"vocabfreq": json.dumps(meta)})


def _set(name: str, index: Any, value: Any) -> Any:
    def change(tensors: dict[str, Any], meta: Any) -> None:
        tensors[name][index] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, m: t.pop("heldout"), "no tensor 'heldout'"),
        (lambda t, m: t.update(counts=t["counts"].astype(np.float64)), "counts is F64"),
        (lambda t, m: t.update(counts=t["counts"][:1].copy()), r"counts is I64 \[1, 3\]"),
        (_set("counts", (0, 0), -1), "negative number -1"),
        (_set("counts", (1, 0), 4), "source 's1' add up to 5; expected 6"),
        (_set("ranked_ids", 0, 2), "does not name every id once"),
        (_set("ranked_ids", slice(None), [2, 1, 0]), "id 2 at rank 0; expected id 0"),
        (lambda t, m: m.update(format=2), "has format 2; expected format 1"),
        (lambda t, m: m.pop("sources"), "missing required field `sources`"),
        (lambda t, m: m.update(stop_ids=[3]), "stop_ids has repeated ids or ids outside"),
        (lambda t, m: m["tokenizer"].update(size=2), "size 2 and 0 absent ids"),
        (lambda t, m: m["tokenizer"].update(rows=2**60), "by its own metadata"),
        (lambda t, m: m["sources"][1].update(name="s0"), "same name"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: Any, message: str) -> None:
    path = tmp_path / "f.safetensors"
    broken(path, change)
    with pytest.raises(FileFormatError, match=message):
        FrequencyTable.load(path)


@pytest.mark.parametrize("content", [b"", b"junk" * 100, b"\xff" * 8 + b"{}"])
def test_no_safetensors_at_all(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FileFormatError, match="not a safetensors file"):
        FrequencyTable.load(tmp_path / "f")
    with pytest.raises(FileFormatError, match="no file"):
        FrequencyTable.load(tmp_path / "g")


def test_a_safetensors_file_of_something_else(tmp_path: Path) -> None:
    save_file({"w": np.zeros(3)}, tmp_path / "f")
    with pytest.raises(FileFormatError, match="no metadata key 'vocabfreq'"):
        FrequencyTable.load(tmp_path / "f")


def test_comparing() -> None:
    a, b = table([[6, 3, 1, 0]]), table([[0, 0, 5, 5]])
    found = overlap(a, b, 2)
    assert (found.shared, found.a_covers_b) == (0, 0)
    assert found.b_covers_a == pytest.approx(0.1)
    assert [d.id for d in differences(a, b, 3)] == [0, 3, 2]
    with pytest.raises(MismatchError, match="differ in sha256"):
        overlap(a, table([[1, 1, 1, 1]], sha256="cd" * 32), 2)


def test_the_sums_are_the_tokens(tok: Path, lines: Lines) -> None:
    rows = [{"text": "abc the hello " * (n % 7)} for n in range(400)]
    from vocabfreq import CountOptions

    counted = report(tok, str(lines(*rows)), options=CountOptions(workers=0, holdout=4)).table
    source = counted.sources[0]
    assert counted.counts.sum() + counted.heldout.sum() == source.tokens
    assert 0 < source.heldout_documents < source.documents == 400
    assert source.bytes == sum(len(row["text"]) for row in rows)
