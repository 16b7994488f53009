"""The same text gives the same vector, however it is packed, cut, ordered and shared out."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real.subjects import Subject, assert_counts, write_lines

from vocabfreq import CountOptions, FrequencyTable, count
from vocabfreq.corpus import readers, sources

pytestmark = pytest.mark.real

PARTS = 5
RUN = [sys.executable, "-c", "from vocabfreq.cli import main; main()"]


@pytest.fixture(scope="module", params=["llama3_1", "gemma3"])
def real(request: pytest.FixtureRequest, make_subject: Callable[[str], Subject]) -> Subject:
    """A byte-level tokenizer, and one in the manner of SentencePiece."""
    return make_subject(request.param)


@pytest.fixture(scope="module")
def expected(real: Subject) -> FrequencyTable:
    """One file, one shard, one process."""
    table = counted(real, real.corpus)
    assert_counts(table, real.truth)
    return table


def counted(subject: Subject, source: Path, workers: int = 0) -> FrequencyTable:
    options = CountOptions(workers=workers, holdout=50)
    return count([f"docs={source}"], str(subject.folder), options)


def assert_same(found: FrequencyTable, expected: FrequencyTable) -> None:
    """Counts, split, documents, tokens, bytes and digest; file names may differ."""
    assert np.array_equal(found.counts, expected.counts)
    assert np.array_equal(found.heldout, expected.heldout)
    assert np.array_equal(found.ranked_ids, expected.ranked_ids)
    for field in ("documents", "heldout_documents", "tokens", "bytes", "sha256", "skipped"):
        assert getattr(found.sources[0], field) == getattr(expected.sources[0], field), field
    assert found.meta.encoder.name == "gigatoken"


def write_parts(subject: Subject, folder: Path, step: int) -> Path:
    """Deals the documents out to files, in one order or the other; a glob of them."""
    for number in range(PARTS):
        write_lines(folder / f"{number}.jsonl", subject.texts[number::PARTS][::step])
    if step < 0:
        for number in range(PARTS):
            (folder / f"{number}.jsonl").rename(folder / f"r{PARTS - number}.jsonl")
    return folder / "*.jsonl"


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_whatever_the_workers(
    workers: int, real: Subject, expected: FrequencyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sources, "MIN_SHARD_BYTES", 1
    )  # eight shards, so that there is work to share out
    assert len(sources.plan_source(0, sources.parse_source(str(real.corpus))).shards) >= 8
    assert_same(counted(real, real.corpus, workers), expected)


@pytest.mark.parametrize("step", [1, -1], ids=["forward", "backward"])
@pytest.mark.parametrize("smallest", [1, sources.MIN_SHARD_BYTES], ids=["many-shards", "one-shard"])
def test_whatever_the_order_of_files(
    step: int,
    smallest: int,
    real: Subject,
    expected: FrequencyTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", smallest)
    assert_same(counted(real, write_parts(real, tmp_path, step)), expected)


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("zst", "zstd")])
def test_whatever_the_compression(
    ending: str,
    codec: Literal["gzip", "zstd"],
    real: Subject,
    expected: FrequencyTable,
    tmp_path: Path,
) -> None:
    path = tmp_path / f"corpus.jsonl.{ending}"
    with pa.output_stream(path, compression=codec) as stream:
        stream.write(real.corpus.read_bytes())
    assert path.stat().st_size < real.corpus.stat().st_size
    assert_same(counted(real, path), expected)


@pytest.mark.parametrize("workers", [0, 2])
def test_whatever_the_container(
    workers: int,
    real: Subject,
    expected: FrequencyTable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 1)
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.table({"text": real.texts}), path, row_group_size=700)
    assert_same(counted(real, path, workers), expected)


@pytest.mark.parametrize("block", [997, 65_536])
def test_whatever_the_block(
    block: int, real: Subject, expected: FrequencyTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BLOCK", block)
    assert_same(counted(real, real.corpus), expected)


def test_the_same_bytes_from_two_processes(real: Subject, tmp_path: Path) -> None:
    files = [build(real, tmp_path / seed, seed, workers) for seed, workers in (("1", 0), ("2", 2))]
    assert files[0].read_bytes() == files[1].read_bytes()
    table = FrequencyTable.load(str(files[0]))
    assert_counts(table, real.truth)


def build(subject: Subject, folder: Path, seed: str, workers: int) -> Path:
    """`vocabfreq build` in a process of its own, with its own hash seed and folder."""
    folder.mkdir()
    output = folder / "vocab_freq.safetensors"
    options = ["--tokenizer", subject.folder, "--source", f"docs={subject.corpus}", "-o", output]
    command = [*RUN, "build", *map(str, options), "--workers", str(workers), "--quiet"]
    environment = os.environ | {"PYTHONHASHSEED": seed}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output
