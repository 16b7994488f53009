"""Counting: independence of order and cut, held-out documents, resuming, workers that die."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tiny import Lines, report, save_tokenizer, tiny_tokenizer, total, truth

from vocabfreq import CountOptions, Source, count, load_tokenizer
from vocabfreq.corpus import readers, sources
from vocabfreq.corpus.files import InputFile
from vocabfreq.corpus.readers import record_blocks
from vocabfreq.counting import workers
from vocabfreq.counting.build import run_plan
from vocabfreq.counting.plan import make_plan
from vocabfreq.counting.shard import held_out
from vocabfreq.errors import CountError, RefusedError, SourceError, WorkDirError
from vocabfreq.tokenizer.encoders import Encoded, GigatokenEncoder

TEXTS = [f"abc {'the ' * (n % 5)}{n} hello é 😀 {n * 7919}" for n in range(500)]


@pytest.fixture
def corpus(lines: Lines) -> Path:
    return lines(*({"text": text} for text in TEXTS), name="corpus.jsonl")


def test_a_corpus_is_counted_exactly(tok: Path, corpus: Path) -> None:
    found = report(tok, str(corpus))
    assert (total(found.table) == truth(tok, TEXTS)).all()
    assert found.table.meta.encoder.name == "gigatoken"
    assert found.table.meta.encoder.cross_checked_documents == len(TEXTS)


def test_workers_cuts_order_and_containers_do_not_matter(
    tok: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = report(tok, str(corpus), options=CountOptions(workers=0, holdout=5)).table
    assert want.sources[0].heldout_documents > 50
    half = tmp_path / "two"
    half.mkdir()
    rows = corpus.read_bytes().splitlines(keepends=True)
    (half / "a.jsonl.gz").write_bytes(gzip.compress(b"".join(rows[250:])))
    (half / "b.jsonl").write_bytes(b"".join(rows[:250]))
    pq.write_table(pa.table({"text": TEXTS[::-1]}), tmp_path / "r.parquet", row_group_size=70)
    monkeypatch.setattr(readers, "BLOCK", 100)
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 1000)
    for spec in (str(half / "*"), str(tmp_path / "r.parquet"), str(corpus)):
        found = report(tok, spec, options=CountOptions(workers=0, holdout=5))
        assert (found.table.counts == want.counts).all()
        assert (found.table.heldout == want.heldout).all()
        assert found.table.sources[0].sha256 == want.sources[0].sha256
        assert found.shards > 1


def test_worker_processes_give_the_same_bytes(
    tok: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 4000)
    report(tok, str(corpus), options=CountOptions(workers=0)).table.save(tmp_path / "here")
    found = report(tok, str(corpus), options=CountOptions(workers=2))
    found.table.save(tmp_path / "there")
    assert found.shards > 4
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


@pytest.mark.parametrize("separator", [b"\n", b"|", b"<s>"])
@pytest.mark.parametrize("size", [3, 4, 7, 50, 10_000])
def test_ranges_share_nothing_and_lose_nothing(
    separator: bytes, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "BLOCK", 5)
    records = [b"x" * (n % 13) for n in range(40)] + [b"tail without an end"]
    data = separator.join(records)
    found: list[bytes] = []
    for start in range(0, len(data), size):
        raw = io.BytesIO(data)
        raw.seek(max(start - len(separator), 0))
        stop = start + size if start + size < len(data) else None
        found += record_blocks(raw.read, start=start, stop=stop, separator=separator)
    assert b"".join(found) == data


def test_max_documents_takes_the_first_in_plan_order(
    tok: Path, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 300)
    for n in range(3):
        lines(*({"text": t} for t in TEXTS[n * 10 : n * 10 + 10]), name=f"{n}.jsonl")
    source = Source("x", str(tmp_path / "?.jsonl"), max_documents=17)
    found = report(tok, source)
    assert (total(found.table) == truth(tok, TEXTS[:17])).all()
    assert found.table.sources[0].documents == 17


def test_ids_hold_out_the_same_documents_as_their_text(
    tok: Path, corpus: Path, tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(str(tok / "tokenizer.json")).encode
    ids = [encode(text, add_special_tokens=False).ids for text in TEXTS]
    pq.write_table(pa.table({"input_ids": ids}), tmp_path / "ids.parquet")
    options = CountOptions(workers=0, holdout=5)
    a = report(tok, str(corpus), options=options).table
    b = report(tok, str(tmp_path / "ids.parquet"), options=options).table
    assert (a.counts == b.counts).all()
    assert (a.heldout == b.heldout).all()


def test_about_one_document_in_n_is_held_out() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 30, 20_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(0, 1000, offsets[-1])
    assert 0.08 < len(held_out(ids, offsets, 10)) / len(lengths) < 0.12
    assert len(held_out(ids, offsets, 0)) == 0
    assert len(held_out(ids, offsets, 1)) == (lengths > 0).sum()


def test_a_planted_difference_is_caught_and_named(
    tok: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = GigatokenEncoder.encode

    def wrong(self: GigatokenEncoder, texts: list[bytes]) -> Encoded:
        encoded = right(self, texts)
        ids = encoded.ids.copy()
        planted = next((n for n, text in enumerate(texts) if text == TEXTS[77].encode()), None)
        if planted is not None:
            ids[encoded.offsets[planted + 1] - 9 :][:1] += 1
        return Encoded(ids, encoded.offsets)

    monkeypatch.setattr(GigatokenEncoder, "encode", wrong)
    found = report(tok, str(corpus)).table
    assert (total(found) == truth(tok, TEXTS)).all()
    assert found.meta.encoder.mismatched_documents == 1
    assert found.meta.encoder.name == "tokenizers"
    assert found.meta.encoder.code_points


def test_a_panic_of_the_fast_engine_is_survived(
    tok: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicError(BaseException):
        pass

    def panic(self: Any, *args: Any, **kwargs: Any) -> None:
        raise PanicError("index out of bounds")

    import gigatoken

    monkeypatch.setattr(gigatoken.Tokenizer, "encode_batch", panic)
    found = report(tok, str(corpus)).table
    assert (total(found) == truth(tok, TEXTS)).all()
    assert found.meta.encoder.name == "tokenizers"


def test_F11_a_second_run_counts_nothing_again(tok: Path, corpus: Path, tmp_path: Path) -> None:
    options = CountOptions(workers=0, work_dir=tmp_path / "work")
    first = report(tok, str(corpus), options=options)
    second = report(tok, str(corpus), options=options)
    assert (first.resumed, second.resumed) == (0, 1)
    assert first.table == second.table
    assert second.changes == []


def test_F11_only_what_is_missing_is_counted(
    tok: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 4000)
    options = CountOptions(workers=0, work_dir=tmp_path / "work")
    first = report(tok, str(corpus), options=options)
    parts = sorted((tmp_path / "work").glob("*.part.safetensors"))
    parts[0].unlink()
    data = bytearray(parts[1].read_bytes())
    data[-3] ^= 1  # a flipped bit is as good as gone
    parts[1].write_bytes(data)
    parts[2].write_bytes(parts[2].read_bytes()[:-5])
    again = report(tok, str(corpus), options=options)
    assert again.resumed == first.shards - 3
    assert again.table == first.table


def test_F11_a_killed_worker_is_noticed_and_its_shard_counted_again(
    tok: Path, tmp_path: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 200_000)
    path = lines(*({"text": t} for t in TEXTS * 200))
    killed: list[int] = []
    receive = workers._receive

    def kill_one(process: Any) -> Any:
        """Kills a worker with a task in hand: it was sent, and no answer has been read."""
        if not killed:
            killed.append(process.pid)
            time.sleep(0.4)
            process.kill()
        return receive(process)

    monkeypatch.setattr(workers, "_receive", kill_one)
    made = make_plan([str(path)], load_tokenizer(str(tok)), CountOptions(workers=2))
    found = run_plan(made)
    assert killed
    assert (total(found.table) == 200 * truth(tok, TEXTS)).all()
    assert not children(os.getpid())


def children(pid: int) -> list[int]:
    """Living children of a process that are workers of ours."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return [c for c in found if b"vocabfreq.counting.workers" in _command(c)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_F11_a_shard_that_kills_its_worker_twice_is_named(
    tok: Path, tmp_path: Path, corpus: Path
) -> None:
    script = tmp_path / "killer.py"
    script.write_text(KILLER)
    done = subprocess.run(
        [sys.executable, str(script), str(tok), str(corpus), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "corpus.jsonl: the worker that counted it was killed, twice" in done.stdout, done.stderr


KILLER = """
import sys
from vocabfreq.counting import workers
from vocabfreq.counting.build import run_plan
from vocabfreq.errors import CountError
from vocabfreq.counting.plan import CountOptions, make_plan
from vocabfreq.tokenizer.info import load_tokenizer
from pathlib import Path

send_task = workers._send_task
def kill_first(process, task):
    process.kill()
    return send_task(process, task)
workers._send_task = kill_first
options = CountOptions(workers=2, work_dir=Path(sys.argv[3]))
try:
    run_plan(make_plan([sys.argv[2]], load_tokenizer(sys.argv[1]), options))
except CountError as error:
    print(error)
"""


def test_F12_partial_files_of_another_tokenizer_are_not_used(
    tok: Path, tmp_path: Path, corpus: Path
) -> None:
    work = tmp_path / "work"
    report(tok, str(corpus), options=CountOptions(workers=0, work_dir=work))
    other = tiny_tokenizer()
    other.add_tokens(["hello"])
    folder = save_tokenizer(other, tmp_path / "other")
    found = report(folder, str(corpus), options=CountOptions(workers=0, work_dir=work))
    assert found.resumed == 0
    assert any(change.startswith("tokenizer was") for change in found.changes)
    assert (total(found.table) == truth(folder, TEXTS, 266)).all()


def test_F12_another_content_under_the_same_name(tok: Path, tmp_path: Path, corpus: Path) -> None:
    options = CountOptions(workers=0, work_dir=tmp_path / "work")
    report(tok, str(corpus), options=options)
    corpus.write_bytes(corpus.read_bytes().replace(b"hello", b"world"))
    found = report(tok, str(corpus), options=options)
    assert found.resumed == 0
    assert found.changes == ["corpus.jsonl has another content"]
    assert (total(found.table) == truth(tok, [t.replace("hello", "world") for t in TEXTS])).all()


@pytest.mark.parametrize(
    ("changed", "word"),
    [({"holdout": 7}, "holdout was 50"), ({"encoder": "tokenizers"}, "encoder")],
)
def test_F12_another_option(
    tok: Path, tmp_path: Path, corpus: Path, changed: Any, word: str
) -> None:
    work = tmp_path / "work"
    report(tok, str(corpus), options=CountOptions(workers=0, work_dir=work))
    found = report(tok, str(corpus), options=CountOptions(workers=0, work_dir=work, **changed))
    assert found.resumed == 0
    assert any(word in change for change in found.changes)


def test_F11_no_other_thread_reads_parquet(
    tok: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread of Arrow that gives a buffer back while Python ends aborts the process."""
    threads = set()

    class Watched(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            threads.add(threading.get_ident())
            return super().read(-1 if size is None else size)

    pq.write_table(pa.table({"text": TEXTS}), tmp_path / "x.parquet", row_group_size=70)
    monkeypatch.setattr(InputFile, "open", lambda file: Watched(file.path))
    found = report(tok, str(tmp_path / "x.parquet"), options=CountOptions(workers=0))
    assert (total(found.table) == truth(tok, TEXTS)).all()
    assert threads == {threading.get_ident()}


def test_a_shard_that_cannot_be_read_is_named_and_the_others_kept(
    tok: Path, tmp_path: Path, corpus: Path
) -> None:
    pq.write_table(pa.table({"text": TEXTS * 50}), tmp_path / "x.parquet", compression="none")
    info = load_tokenizer(str(tok))
    specs = [f"good={corpus}", f"bad={tmp_path / 'x.parquet'}"]
    made = make_plan(specs, info, CountOptions(workers=0, work_dir=tmp_path / "work"))
    data = bytearray((tmp_path / "x.parquet").read_bytes())
    data[4:400] = b"\xff" * 396
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(CountError, match=r"(?s)x\.parquet"):
        run_plan(made)
    assert len(list((tmp_path / "work").glob("*.part.safetensors"))) == 1


def test_F11_two_builds_do_not_share_a_work_dir(tok: Path, corpus: Path, tmp_path: Path) -> None:
    from filelock import FileLock

    (tmp_path / "work").mkdir()
    with (
        FileLock(tmp_path / "work" / ".lock"),
        pytest.raises(RefusedError, match="another build is writing into"),
    ):
        report(tok, str(corpus), options=CountOptions(workers=0, work_dir=tmp_path / "work"))


def test_a_file_that_changes_while_it_is_counted_is_noticed(tok: Path, corpus: Path) -> None:
    made = make_plan([str(corpus)], load_tokenizer(str(tok)), CountOptions(workers=0))
    corpus.write_bytes(corpus.read_bytes()[:1000])
    with pytest.raises(SourceError, match="corpus.jsonl is no longer what was planned"):
        run_plan(made)


def test_F11_a_full_disk_ends_the_build_and_names_the_folder(
    tok: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vocabfreq.counting.workers.save_partial", full)
    with pytest.raises(WorkDirError, match=r"(?s)cannot write into .*work: No space left.*kept"):
        report(tok, str(corpus), options=CountOptions(workers=0, work_dir=tmp_path / "work"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": -1},
        {"workers": True},
        {"holdout": 1},
        {"holdout": -1},
        {"holdout": 2.5},
        {"encoder": "foo"},
        {"weights": {"a": -1}},
        {"weights": {"a": float("nan")}},
        {"weights": {"a": 0}},
    ],
)
def test_senseless_options_are_refused(wrong: Any) -> None:
    with pytest.raises(SourceError, match=next(iter(wrong)).rstrip("s")):
        CountOptions(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"roles": "user"}, {"separator": ""}, {"max_documents": 0}, {"spec": ""}]
)
def test_senseless_sources_are_refused(wrong: Any) -> None:
    with pytest.raises(SourceError, match="expected"):
        Source(**{"name": "x", "spec": "x.jsonl", **wrong})


def test_one_source_needs_no_list(tok: Path, corpus: Path) -> None:
    options = CountOptions(workers=0, holdout=0)
    assert (total(count(str(corpus), str(tok), options)) == truth(tok, TEXTS)).all()


def test_two_sources_need_two_names(tok: Path, corpus: Path) -> None:
    with pytest.raises(SourceError, match="two sources are called 'corpus'"):
        count([str(corpus), str(corpus)], str(tok))
    with pytest.raises(SourceError, match="a weight for 'x'; expected one of corpus"):
        count([str(corpus)], str(tok), CountOptions(weights={"x": 1}))
    with pytest.raises(SourceError, match="no source"):
        count([], str(tok))


@pytest.mark.parametrize("separator", [None, "\n", "\n\n", "|"])
def test_plain_text(
    tok: Path, tmp_path: Path, separator: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MIN_SHARD_BYTES", 50)
    text = "abc the|hello\n\nabc\nx\n\n\nabc\n" * 20
    (tmp_path / "x.txt").write_text(text)
    documents = [text] if separator is None else [t for t in text.split(separator) if t]
    found = report(tok, Source("x", str(tmp_path / "x.txt"), separator=separator))
    assert (total(found.table) == truth(tok, documents)).all()
    assert found.table.sources[0].documents == len(documents)


@pytest.mark.parametrize("shape", ["array", "one-row", "json-lines"])
def test_json_files(tok: Path, tmp_path: Path, shape: str) -> None:
    rows: list[Any] = [{"text": "abc"}, {"text": 3}, {"text": "the"}]
    content = {
        "array": json.dumps(rows, indent=1),
        "one-row": json.dumps(rows[0], indent=1),
        "json-lines": "\n".join(map(json.dumps, rows)),
    }[shape]
    (tmp_path / "x.json").write_text(content)
    found = report(tok, str(tmp_path / "x.json"))
    texts = ["abc"] if shape == "one-row" else ["abc", "the"]
    assert (total(found.table) == truth(tok, texts)).all()
    assert found.table.sources[0].documents == len(texts)


def test_arrow_files_and_streams(tok: Path, tmp_path: Path) -> None:
    table = pa.table({"text": TEXTS, "n": list(range(len(TEXTS)))})
    for name, opener in (("f", pa.ipc.new_file), ("s", pa.ipc.new_stream)):
        with opener(str(tmp_path / f"{name}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=60)
        found = report(tok, str(tmp_path / f"{name}.arrow"))
        assert (total(found.table) == truth(tok, TEXTS)).all()
