"""DraftVocab: the two id spaces and their encodings; CASES.md M9, M10, M12, M13."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabfreq.errors import FileFormatError, SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab


def test_the_example() -> None:
    vocab = DraftVocab.from_ids([7, 2, 5], rows=8)
    assert vocab.target_ids.tolist() == [2, 5, 7]
    assert vocab.ranked.tolist() == [7, 2, 5]
    assert vocab.d2t.tolist() == [2, 4, 5]
    assert vocab.t2d.tolist() == [False, False, True, False, False, True, False, True]
    assert vocab.to_draft([[2, 7], [0, 5]]).tolist() == [[0, 2], [-1, 1]]


kept_ids = st.integers(1, 60).flatmap(
    lambda v: st.tuples(st.just(v), st.sets(st.integers(0, v - 1), min_size=1))
)


@given(kept_ids)
def test_every_encoding_leads_back(made: tuple[int, set[int]]) -> None:
    rows, kept = made
    vocab = DraftVocab.from_ids(kept, rows=rows)
    assert DraftVocab.from_t2d(vocab.t2d) == vocab
    assert DraftVocab.from_d2t(vocab.d2t, rows=rows, force=True) == vocab
    drafts = vocab.to_draft(np.arange(rows))
    assert (drafts >= 0).tolist() == vocab.t2d.tolist()
    assert drafts[vocab.target_ids].tolist() == list(range(len(vocab)))


def test_M9_offsets_of_zero_look_like_a_map_never_loaded() -> None:
    with pytest.raises(FileFormatError, match=r"(?s)all 3 offsets are 0 .* 8 rows.*--force"):
        DraftVocab.from_d2t([0, 0, 0], rows=8)
    forced = DraftVocab.from_d2t([0, 0, 0], rows=8, force=True)
    assert forced.target_ids.tolist() == [0, 1, 2]
    assert DraftVocab.from_d2t([0, 0, 0], rows=3).is_identity


def test_M9_out_of_range_and_duplicates_are_refused_with_the_position() -> None:
    with pytest.raises(FileFormatError, match="id 8 at position 1 .*ids from 0 to 7"):
        DraftVocab.from_d2t([0, 7], rows=8)
    with pytest.raises(FileFormatError, match="id 1 at position 1 is repeated"):
        DraftVocab.from_d2t([1, 0], rows=8)
    with pytest.raises(FileFormatError, match="id -1 at position 0"):
        DraftVocab.from_ids([-1, 3], rows=8)


def test_M10_large_ids_are_exact() -> None:
    ids = [2**24 + 1, 2**24 + 3, 2**40 + 1]
    vocab = DraftVocab.from_ids(ids, rows=2**41)
    assert vocab.target_ids.tolist() == ids
    with pytest.raises(FileFormatError, match="of float32"):
        DraftVocab.from_ids(np.array(ids, np.float32), rows=2**41)


def test_M10_absolute_ids_read_as_offsets_are_refused_where_they_show() -> None:
    ids = np.array([2, 5, 7])
    with pytest.raises(FileFormatError, match="id 9 at position 2"):
        DraftVocab.from_d2t(ids, rows=8)


def test_M13_all_ids_are_the_identity() -> None:
    vocab = DraftVocab.from_ids(range(8), rows=8)
    assert vocab.is_identity
    assert not vocab.d2t.any()
    assert vocab.t2d.all()
    assert not DraftVocab.from_ids(range(7), rows=8).is_identity


@pytest.mark.parametrize("ids", [[1.0], ["1"], [True], [None], [2**70], [[1, 2]], []])
def test_what_is_no_list_of_ids_is_refused(ids: Any) -> None:
    with pytest.raises(FileFormatError, match=r"id|empty"):
        DraftVocab.from_ids(ids, rows=8)


def test_M11_a_counter_is_no_list() -> None:
    with pytest.raises(FileFormatError, match="a Counter of 2 keys"):
        DraftVocab.from_ids(Counter({9: 2, 3: 5}), rows=10)


@pytest.mark.parametrize("rows", [0, -1, 8.5, "8", True, None])
def test_rows_must_be_a_number(rows: Any) -> None:
    with pytest.raises(FileFormatError, match="rows"):
        DraftVocab.from_ids([0], rows=rows)


def test_M10_unsigned_offsets_do_not_wrap_around() -> None:
    with pytest.raises(FileFormatError, match=r"expected whole numbers below 2\*\*63"):
        DraftVocab.from_d2t(np.array([1, 2**64 - 1], np.uint64), rows=8)


def test_a_mask_must_be_one() -> None:
    with pytest.raises(FileFormatError, match="a mask of int64"):
        DraftVocab.from_t2d(np.array([0, 1]))
    with pytest.raises(FileFormatError, match="an empty list"):
        DraftVocab.from_t2d(np.array([False, False]))


def test_to_draft_refuses_ids_outside_the_rows() -> None:
    vocab = DraftVocab.from_ids([1], rows=4)
    for wrong in (-1, 4):
        with pytest.raises(SelectionError, match="expected 0 to 3"):
            vocab.to_draft([wrong])
    assert vocab.to_draft([]).tolist() == []
    for no_ids in (["a"], [2.5], [True]):
        with pytest.raises(SelectionError, match="expected integers"):
            vocab.to_draft(no_ids)


def test_M12_equality_needs_no_other_tokenizer() -> None:
    a = DraftVocab.from_ids([1, 2], rows=4, tokenizer="a" * 64)
    assert a == DraftVocab.from_ids([2, 1], rows=4)
    assert a != DraftVocab.from_ids([1, 2], rows=4, tokenizer="b" * 64)
    assert a != DraftVocab.from_ids([1, 2], rows=5)
    assert a != DraftVocab.from_ids([1, 3], rows=4)
    assert len({a, DraftVocab.from_ids([2, 1], rows=4)}) == 1


def test_saved_and_loaded(tmp_path: Path) -> None:
    vocab = DraftVocab.from_ids(
        [7, 2, 5], rows=8, tokenizer="a" * 64, coverage={"all sources": 0.5}, filled=1
    )
    vocab.save(tmp_path / "v.safetensors")
    first = (tmp_path / "v.safetensors").read_bytes()
    loaded = DraftVocab.load(tmp_path / "v.safetensors")
    assert loaded == vocab
    assert loaded.ranked.tolist() == [7, 2, 5]
    assert (loaded.coverage, loaded.filled) == ({"all sources": 0.5}, 1)
    loaded.save(tmp_path / "v.safetensors")
    assert (tmp_path / "v.safetensors").read_bytes() == first
