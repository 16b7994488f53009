"""FrequencyTable.select: exact sizes, pins, floors; CASES.md M1 to M7."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table as make_table
from tables import unpinned_table as table
from tiny import Lines, report, save_tokenizer, tiny_tokenizer
from tokenizers import Tokenizer

from vocabfreq import FrequencyTable
from vocabfreq.errors import SelectionError


def by_counts(counts: Mapping[int, int], rows: int) -> FrequencyTable:
    row = [0] * rows
    for i, n in counts.items():
        row[i] = n
    return table([row])


def test_M1_equal_counts_give_one_vocabulary_in_any_order() -> None:
    for counts in ({9: 2, 5: 1, 3: 1}, {3: 1, 5: 1, 9: 2}):
        assert by_counts(counts, 12).select(2).target_ids.tolist() == [3, 9]


def test_M2_ids_never_seen_fill_up_and_are_counted() -> None:
    vocab = by_counts({6: 3, 2: 1}, 8).select(4)
    assert vocab.target_ids.tolist() == [0, 1, 2, 6]
    assert vocab.filled == 2
    assert "2 never seen" in repr(vocab)


@pytest.mark.parametrize("size", [0, -1, 4.0, True, "x", "٣", "0%", "101%", "x%", None])
def test_M3_a_senseless_size(size: Any) -> None:
    with pytest.raises(SelectionError, match=r"size|exactly one"):
        by_counts({1: 1}, 8).select(size)


def test_M3_more_than_can_be_emitted_names_both_numbers() -> None:
    padded = table([[1, 2, 3, 4, 0, 0, 0, 0]], absent=((6, 8),))
    assert len(padded.select(6)) == 6
    with pytest.raises(SelectionError, match=r"size 7 is more than the 6 ids .* of 8 rows"):
        padded.select(7)
    with pytest.raises(SelectionError, match="size 9 is more than the 6 ids"):
        padded.select(9)


def test_M3_fewer_than_the_pins_names_both_numbers() -> None:
    pinned = table([[1, 2, 3, 4, 0, 0]], stop_ids=(0, 1, 5))
    with pytest.raises(SelectionError, match="size 2 is fewer than the 3 pinned ids"):
        pinned.select(2)
    assert pinned.select(3).target_ids.tolist() == [0, 1, 5]


def test_M4_eos_is_there_once_whether_seen_or_not() -> None:
    frequent = table([[9, 8, 7, 1, 0]], stop_ids=(0,)).select(2)
    assert frequent.target_ids.tolist() == [0, 1]
    never = table([[9, 8, 7, 1, 0]], stop_ids=(4,)).select(2)
    assert never.target_ids.tolist() == [0, 4]
    assert never.filled == 0


def test_M5_every_stop_id_of_a_list_is_kept(tmp_path: Path, lines: Lines) -> None:
    config = {"eos_token_id": [40, 41, 42]}
    folder = save_tokenizer(tiny_tokenizer(), tmp_path / "t", generation_config=config)
    counted = report(folder, str(lines({"text": "abc the hello"}))).table
    kept = counted.select(5, pins="special").target_ids.tolist()
    assert kept == [40, 41, 42, 263, 264]


def test_M6_all_bytes_are_kept_so_that_spanish_stays_reachable(tok: Path, lines: Lines) -> None:
    counted = report(tok, str(lines({"text": "plain ascii only, abc the hello"}))).table
    vocab = counted.select(260)
    assert set(range(256)) <= set(vocab.target_ids.tolist())
    text = "¿Dónde está el niño?"
    ids = (
        Tokenizer.from_file(str(tok / "tokenizer.json")).encode(text, add_special_tokens=False).ids
    )
    unreachable = [i for i, draft in zip(ids, vocab.to_draft(ids), strict=True) if draft < 0]
    assert all(i >= 256 for i in unreachable)


def test_M7_padding_rows_are_never_selected() -> None:
    padded = table([[0, 0, 5, 0, 0, 1, 0, 0]], absent=((6, 8),))
    assert padded.select(6).target_ids.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(SelectionError, match="id 7 is to be kept, but the tokenizer never emits"):
        padded.select(6, extra_ids=[7])


def test_a_share_of_the_rows() -> None:
    assert len(by_counts({1: 1}, 200).select("25%")) == 50
    assert len(by_counts({1: 1}, 200).select("12")) == 12
    for percent in range(1, 101):
        assert len(by_counts({1: 1}, 100).select(f"{percent}%")) == percent
    assert len(by_counts({1: 1}, 1000).select("0.3%")) == 3
    three: Any = np.int64(3)
    assert len(by_counts({1: 1}, 8).select(three)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"multiple_of": 0},
        {"multiple_of": -64},
        {"multiple_of": 1.5},
        {"floors": [1]},
        {"floors": {"s0": 2}},
        {"weights": {"s0": "a"}},
        {"extra_ids": ["5"]},
        {"extra_ids": [3.0]},
        {"extra_ids": [True]},
    ],
)
def test_senseless_options(wrong: Any) -> None:
    with pytest.raises(SelectionError, match="expected"):
        by_counts({1: 1}, 8).select(3, **wrong)


def test_coverage_of_whole_counts_is_exact() -> None:
    counted = table([[10**12 - 1, 1]])
    assert len(counted.select(coverage=0.999999999999)) == 1
    assert len(counted.select(coverage=0.9999999999995)) == 2


def test_coverage_is_the_least_k_that_reaches_it() -> None:
    counted = table([[50, 30, 15, 4, 1]])
    for share, size in ((0.5, 1), (0.51, 2), (0.8, 2), (0.95, 3), (0.951, 4), (1.0, 5)):
        vocab = counted.select(coverage=share)
        assert (len(vocab), vocab.coverage["all sources"] >= share) == (size, True)


def test_coverage_is_measured_on_heldout_tokens_and_counts_pins() -> None:
    counted = table([[50, 30, 15, 4, 1]], [[0, 0, 0, 9, 1]], stop_ids=(3,))
    assert counted.select(coverage=0.9).target_ids.tolist() == [3]


@pytest.mark.parametrize("share", [0, -0.1, 1.1, True, "x"])
def test_a_senseless_coverage(share: Any) -> None:
    with pytest.raises(SelectionError, match="coverage"):
        table([[1, 2]]).select(coverage=share)


def test_min_count() -> None:
    counted = table([[50, 30, 15, 4, 1]], stop_ids=(4,))
    assert counted.select(min_count=15).target_ids.tolist() == [0, 1, 2, 4]
    assert counted.select(min_count=99).target_ids.tolist() == [4]
    with pytest.raises(SelectionError, match="min_count 0"):
        counted.select(min_count=0)


def test_min_count_under_weights_still_counts() -> None:
    counted = table([[50, 30, 0, 0], [0, 0, 1, 1]]).reweighted({"s1": 100})
    assert counted.select(min_count=30).target_ids.tolist() == [0, 1]


def test_exactly_one_of_size_coverage_and_min_count() -> None:
    with pytest.raises(SelectionError, match="2 of size, coverage and min_count"):
        table([[1, 2]]).select(1, coverage=0.5)
    with pytest.raises(SelectionError, match="0 of size"):
        table([[1, 2]]).select()


def test_a_floor_lets_k_grow_until_its_source_is_covered() -> None:
    counted = table([[90, 5, 5, 0, 0], [0, 0, 1, 5, 4]])
    assert len(counted.select(1)) == 1
    vocab = counted.select(1, floors={"s1": 0.9})
    assert vocab.coverage["s1"] >= 0.9
    assert len(counted.select(len(vocab) - 1)) < len(vocab)
    assert counted.select(len(vocab) - 1).coverage["s1"] < 0.9
    with pytest.raises(SelectionError, match="no source 'x'"):
        counted.select(1, floors={"x": 0.5})


def test_multiple_of_rounds_up() -> None:
    counted = by_counts({i: 9 - i for i in range(8)}, 20)
    assert len(counted.select(5, multiple_of=8)) == 8
    with pytest.raises(SelectionError, match=r"size 24 \(rounded up from 17\) is more than the 20"):
        counted.select(17, multiple_of=8)


def test_weights_rank() -> None:
    counted = table([[900, 100, 0], [0, 4, 6]])
    assert counted.select(1).target_ids.tolist() == [0]
    assert counted.select(1, weights={"s1": 2}).target_ids.tolist() == [2]


def test_pins() -> None:
    counted = table(
        [[9, 8, 7, 6, 0, 0, 0]], stop_ids=(4,), template_ids=(5,), special_ids=(4, 5, 6)
    )
    assert counted.select(3, pins="none").target_ids.tolist() == [0, 1, 2]
    assert counted.select(3).target_ids.tolist() == [0, 4, 5]
    assert counted.select(3, pins="special").target_ids.tolist() == [4, 5, 6]
    assert counted.select(3, pins="none", extra_ids=[6, 3]).target_ids.tolist() == [0, 3, 6]
    with pytest.raises(SelectionError, match="pins 'x'; expected one of default, special, none"):
        counted.select(3, pins="x")  # type: ignore[arg-type]


def test_pins_stand_at_their_rank() -> None:
    vocab = table([[9, 8, 7, 6, 5]], stop_ids=(3,)).select(3)
    assert vocab.ranked.tolist() == [0, 1, 3]


rows_and_pins = st.integers(2, 40).flatmap(
    lambda v: st.tuples(
        st.lists(st.integers(0, 50), min_size=v, max_size=v),
        st.sets(st.integers(0, v - 1), max_size=v // 2),
    )
)


@settings(max_examples=60)
@given(rows_and_pins)
def test_every_size_is_exact_unique_and_nested(made: tuple[list[int], set[int]]) -> None:
    row, pins = made
    counted = table([row], stop_ids=tuple(sorted(pins)))
    before: set[int] = set()
    for size in range(max(len(pins), 1), len(row) + 1):
        vocab = counted.select(size)
        kept = set(vocab.target_ids.tolist())
        assert len(kept) == len(vocab) == size
        assert pins | before <= kept
        best = sorted(set(range(len(row))) - pins, key=lambda i: (-row[i], i))
        assert kept == pins | set(best[: size - len(pins)])
        assert sorted(vocab.ranked.tolist()) == vocab.target_ids.tolist()
        before = kept


def test_a_large_vocabulary_is_selected_at_once() -> None:
    import time

    rng = np.random.default_rng(0)
    big = make_table([rng.zipf(1.3, 262_144).clip(max=10**9).tolist()])
    _ = big.ranked_ids
    started = time.perf_counter()
    vocab = big.select(65_536, pins="none")
    assert len(vocab.d2t) == 65_536
    assert vocab.t2d.sum() == 65_536
    assert time.perf_counter() - started < 1  # the budget, 0.1 s, is measured in benchmarks/
