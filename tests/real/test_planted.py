"""A fast engine made to disagree or to break down changes nothing in the counts."""

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from real.subjects import Subject, assert_counts, true_counts, write_lines

from vocabfreq import CountOptions, FrequencyTable, count
from vocabfreq.corpus import files, readers, sources
from vocabfreq.errors import SourceError
from vocabfreq.tokenizer.encoders import Encoded, GigatokenEncoder

pytestmark = pytest.mark.real

RARE = "\U0001f6dd"
PLANTED = f"{RARE} is a playground slide."


class Panic(BaseException):
    """What a panic in Rust looks like from Python."""


@pytest.fixture(params=["llama3_1", "gemma3"])
def real_tokenizer(request: pytest.FixtureRequest, make_subject: Callable[[str], Subject]) -> Path:
    """A byte-level one, and one in the manner of SentencePiece."""
    return make_subject(request.param).folder


@pytest.fixture
def texts(llama3: Subject) -> list[str]:
    """Documents of which exactly one has the rare character."""
    common = [text for text in llama3.texts[:1_500] if RARE not in text]
    return [*common[:700], PLANTED, *common[700:]]


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> None:
    """gigatoken gets the first id of the planted document wrong."""
    honest = GigatokenEncoder.encode

    def encode(self: GigatokenEncoder, texts: list[bytes]) -> Encoded:
        encoded = honest(self, texts)
        ids = encoded.ids.copy()
        for index in (i for i, text in enumerate(texts) if text == PLANTED.encode()):
            ids[encoded.offsets[index]] ^= 1
        return Encoded(ids, encoded.offsets)

    monkeypatch.setattr(GigatokenEncoder, "encode", encode)


def counted(source: Path | str, tokenizer: Path) -> FrequencyTable:
    return count([f"docs={source}"], str(tokenizer), CountOptions(workers=0, holdout=50))


@pytest.mark.usefixtures("lying")
def test_a_planted_difference_is_caught_named_and_mended(
    real_tokenizer: Path, texts: list[str], tmp_path: Path
) -> None:
    table = counted(write_lines(tmp_path / "docs.jsonl", texts), real_tokenizer)
    assert_counts(table, true_counts(real_tokenizer, texts))
    assert table.meta.encoder.name == "tokenizers"
    assert table.meta.encoder.mismatched_documents == 1
    assert "U+1F6DD" in table.meta.encoder.code_points
    assert table.sources[0].documents == len(texts)


@pytest.mark.usefixtures("lying")
def test_only_the_shard_with_the_difference_is_counted_again(
    llama3: Subject, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plant is in the first shard, of which much is checked; of the others it is 0.1 %."""
    parts = (texts[:800], texts[800:])
    files = [write_lines(tmp_path / f"{n}.jsonl", part) for n, part in enumerate(parts)]
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", max(file.stat().st_size for file in files))
    table = counted(tmp_path / "*.jsonl", llama3.folder)
    assert_counts(table, true_counts(llama3.folder, texts))
    assert table.meta.encoder.name == "gigatoken+tokenizers"
    assert table.meta.encoder.mismatched_documents == 1
    assert table.meta.encoder.code_points == ("U+1F6DD",)


@pytest.mark.usefixtures("lying")
@pytest.mark.parametrize("parts", [1, 10])
def test_standard_input_is_counted_again_from_its_start_or_not_at_all(
    llama3: Subject,
    texts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    parts: int,
) -> None:
    data = write_lines(tmp_path / "docs.jsonl", texts).read_bytes()
    for module in (readers, sources, files):
        monkeypatch.setattr(module, "BLOCK", len(data) // parts + 1)
    with piped(data, monkeypatch):
        if parts > 1:  # only the first part is kept, so the rest cannot be read again
            with pytest.raises(SourceError, match="standard input would have to be read again"):
                counted("-", llama3.folder)
            return
        table = counted("-", llama3.folder)
    assert table.meta.encoder.mismatched_documents == 1
    assert_counts(table, true_counts(llama3.folder, texts))
    assert table.sources[0].documents == len(texts)


@contextlib.contextmanager
def piped(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard input holds the data."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    files.stream_at.cache_clear()
    yield
    files.stream_at.cache_clear()


@pytest.mark.parametrize("calls", [0, 3], ids=["at-once", "in-the-middle"])
def test_a_panic_is_survived(
    calls: int,
    real_tokenizer: Path,
    texts: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import gigatoken

    honest = gigatoken.Tokenizer.encode_batch
    left = iter(range(calls))

    def encode_batch(self: Any, *args: Any, **options: Any) -> Any:
        if next(left, None) is None:
            raise Panic("called `Option::unwrap()` on a `None` value")
        return honest(self, *args, **options)

    monkeypatch.setattr(readers, "BLOCK", 20_000)
    monkeypatch.setattr(gigatoken.Tokenizer, "encode_batch", encode_batch)
    table = counted(write_lines(tmp_path / "docs.jsonl", texts), real_tokenizer)
    assert_counts(table, true_counts(real_tokenizer, texts))
    assert table.meta.encoder.name == "tokenizers"
    assert table.meta.encoder.mismatched_documents == 1


def test_a_panic_while_loading_is_survived(
    llama3: Subject, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import gigatoken

    def from_json(*_: Any, **__: Any) -> Any:
        raise Panic("index out of bounds")

    monkeypatch.setattr(gigatoken.Tokenizer, "from_json", from_json)
    table = counted(write_lines(tmp_path / "docs.jsonl", texts), llama3.folder)
    assert_counts(table, true_counts(llama3.folder, texts))
    assert table.meta.encoder.name == "tokenizers"


def test_the_plant_needs_the_engine(lying: None, llama3: Subject) -> None:
    """Without the alarm the planted id would have been counted."""
    encoded = GigatokenEncoder(llama3.folder / "tokenizer.json").encode(
        [b"plain", PLANTED.encode()]
    )
    truth = true_counts(llama3.folder, ["plain", PLANTED])
    wrong = np.bincount(encoded.ids, minlength=len(truth))
    assert not np.array_equal(wrong[: len(truth)], truth)
