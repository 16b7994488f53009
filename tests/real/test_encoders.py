"""Both engines, on every tokenizer, give what one-by-one encoding by the reference gives."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from real.documents import is_newer, newer_documents
from real.subjects import Subject, assert_counts, true_counts, write_lines

from vocabfreq import CountOptions, FrequencyTable, count
from vocabfreq.tokenizer.encoders import EncoderName

ENCODERS: list[EncoderName] = ["tokenizers", "auto"]


@cache
def counted(subject: Subject, encoder: EncoderName) -> FrequencyTable:
    """The fast way through worker processes, the reference in this one."""
    options = CountOptions(encoder=encoder, workers=2 if encoder == "auto" else 0, holdout=50)
    return count([f"docs={subject.corpus}"], str(subject.folder), options)


def test_there_is_enough_variety(subject: Subject) -> None:
    assert len(subject.texts) >= 2_000
    assert len(set("".join(subject.texts))) >= 3_000
    assert len(subject.truth[subject.truth > 0]) >= 1_000


@pytest.mark.parametrize("encoder", ENCODERS)
def test_counts_equal_one_by_one_encoding(subject: Subject, encoder: EncoderName) -> None:
    table = counted(subject, encoder)
    assert_counts(table, subject.truth)
    assert table.sources[0].documents == len(subject.texts)
    assert table.sources[0].tokens == subject.truth.sum()
    assert table.sources[0].skipped == {}


def test_the_fast_engine_is_the_one_that_counted(subject: Subject) -> None:
    record = counted(subject, "auto").meta.encoder
    assert record.name == ("gigatoken" if subject.covered else "tokenizers")
    assert (record.cross_checked_documents > 1_000) == subject.covered
    assert record.mismatched_documents == 0
    assert record.code_points == ()


def test_both_engines_hold_out_the_same_documents(subject: Subject) -> None:
    fast, reference = counted(subject, "auto"), counted(subject, "tokenizers")
    assert fast.sources == reference.sources
    assert fast.sources[0].heldout_documents > 0
    assert np.array_equal(fast.heldout, reference.heldout)
    assert np.array_equal(fast.counts, reference.counts)


def test_code_points_newer_than_some_tables(subject: Subject, tmp_path: Path) -> None:
    """Here the engines do differ: the alarm has to ring, and the counts be right all the same."""
    texts = [*subject.texts[:500], *newer_documents()]
    corpus = write_lines(tmp_path / "newer.jsonl", texts)
    options = CountOptions(workers=0, holdout=50)
    table = count([f"docs={corpus}"], str(subject.folder), options)
    assert_counts(table, true_counts(subject.folder, texts))
    record = table.meta.encoder
    caught = record.mismatched_documents > 0
    assert record.name == ("gigatoken" if subject.covered and not caught else "tokenizers")
    named = [int(name.removeprefix("U+"), 16) for name in record.code_points]
    assert any(map(is_newer, named)) == caught
