"""Tokenizers and data sets from a Hub: the real clients against `hubserver`.

`HF_ENDPOINT` is read when the client is imported, so the counting happens in other processes: one
that stays (`Counter`), and the command line where exit codes matter.
"""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command import run_with
from hubdata import DATASETS_NEEDS, TEST, TRAIN, csv_file, environment, jsonl, train_tokenizer
from hubserver import Fault, HubServer, Kind

from vocabfreq import CountOptions, FrequencyTable, count
from vocabfreq.corpus.hub_datasets import _Reader, is_data_set, parse_data_set
from vocabfreq.errors import SourceError
from vocabfreq.storage.resolve import looks_like_repo

EXACT = ["007", "None", "NA", "1e5", 'a "quoted" cell', "two\nlines, one cell"]
FIRST = ["only in the first commit"]


def parquet(texts: list[str]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": range(len(texts)), "text": texts}), buffer, row_group_size=16)
    return buffer.getvalue()


CONFIGS = b"""---
configs:
- config_name: english
  data_files: en/*.jsonl
- config_name: german
  data_files:
  - {split: train, path: de/a.jsonl}
  - {split: test, path: de/b.jsonl}
---
# Two configs
"""

DATA_SETS: dict[str, dict[str, bytes]] = {
    "org/lines": {"train.jsonl": jsonl(TRAIN), "test.jsonl": jsonl(TEST)},
    "org/columns": {"data/train-0.parquet": parquet(TRAIN), "data/train-1.parquet": parquet(TEST)},
    # The same columns in another order: what is read must go by name.
    "org/cells": {"a.csv": csv_file(EXACT), "b.csv": csv_file(TEST, ("text", "id"))},
    "org/configs": {
        "README.md": CONFIGS,
        "en/a.jsonl": jsonl(TRAIN),
        "de/a.jsonl": jsonl(EXACT),
        "de/b.jsonl": jsonl(TEST),
    },
    "org/broken": {"train.jsonl": jsonl(TRAIN) + b'{"text": "cut\n' + jsonl(TEST)},
    "org/broken-cells": {"good.csv": csv_file(TEST), "bad.csv": csv_file(TEST) + b"1,2,3,4\n"},
    "org/nothing": {"README.md": b"no data"},
}


@pytest.fixture(scope="module")
def tokenizer() -> bytes:
    return train_tokenizer()


@pytest.fixture(scope="module")
def server(tokenizer: bytes) -> Iterator[HubServer]:
    with HubServer() as hub:
        hub.add("dataset", "org/lines", {"train.jsonl": jsonl(FIRST)}, branch="v1")
        for name, files in DATA_SETS.items():
            hub.add("dataset", name, files)
        model = {
            "tokenizer.json": tokenizer,
            "config.json": b'{"vocab_size": 320, "eos_token_id": 1}',
            "generation_config.json": b'{"eos_token_id": [1, 7]}',
            "tokenizer_config.json": b'{"eos_token": "</s>"}',
        }
        hub.add("model", "org/tok", model)
        hub.add("model", "org/bare", {"tokenizer.json": tokenizer})
        hub.add("model", "org/weights", {"model.safetensors": b"0"})
        yield hub


@pytest.fixture
def hub(server: HubServer) -> Iterator[HubServer]:
    """The server; asking for what it does not know, or leaving a fault behind, fails the test."""
    server.faults.clear()
    yield server
    server.faults.clear()
    assert server.unknown == []


SERVE = """
import json, sys
from vocabfreq import CountOptions, VocabfreqError, count
for line in sys.stdin:
    source, tokenizer = json.loads(line)
    try:
        table = count([source], tokenizer, CountOptions(holdout=0, workers=0))
        meta = table.meta.sources[0]
        answer = {
            "counts": table.counts[0].tolist(),
            "files": meta.files, "documents": meta.documents, "skipped": meta.skipped,
            "revision": table.tokenizer.revision, "rows": table.rows,
            "stop": table.meta.stop_ids,
        }
    except VocabfreqError as error:
        answer = {"error": str(error), "kind": type(error).__name__}
    print(json.dumps(answer), flush=True)
"""


class Counter:
    """A process that counts with the loopback server as its Hub."""

    def __init__(self, server: HubServer, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(server, home),
            cwd=home,
        )

    def __call__(self, source: str, tokenizer: str = "org/tok") -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps([source, tokenizer]) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def error(self, source: str, tokenizer: str = "org/tok") -> str:
        """The message of a source that must fail; at most two lines."""
        answer = self(source, tokenizer)
        assert "error" in answer, answer
        message: str = answer["error"]
        assert message.count("\n") <= 1
        return message

    def close(self) -> None:
        """Lets it end."""
        self.process.communicate()


@pytest.fixture(scope="module")
def counter(server: HubServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    counter = Counter(server, tmp_path_factory.mktemp("home"))
    yield counter
    counter.close()


@pytest.fixture
def local_counts(tmp_path: Path, server: HubServer) -> Any:
    """Counts of texts that lie in a local jsonl, by the same tokenizer."""
    folder = tmp_path / "tok"
    folder.mkdir()
    files = server.repos["model", "org/tok"].commits[commit(server, "org/tok")]
    for name, content in files.items():
        (folder / name).write_bytes(content)

    def counts(texts: list[str]) -> list[int]:
        path = tmp_path / "local.jsonl"
        path.write_bytes(jsonl(texts))
        options = CountOptions(holdout=0, workers=0, encoder="tokenizers")
        found: list[int] = count([str(path)], str(folder), options).counts[0].tolist()
        return found

    return counts


def commit(server: HubServer, repo: str, branch: str = "main") -> str:
    kind: Kind = "dataset" if ("dataset", repo) in server.repos else "model"
    return server.repos[kind, repo].refs[branch]


def build(
    server: HubServer, home: Path, *options: str, **variables: str
) -> "subprocess.CompletedProcess[str]":
    words = ("build", *options)
    return run_with(environment(server, home) | variables, words, home, loaded=DATASETS_NEEDS)


@pytest.mark.parametrize(
    ("spec", "files", "texts"),
    [
        ("org/lines", ["train.jsonl"], TRAIN),
        ("org/lines:test", ["test.jsonl"], TEST),
        ("org/lines::test", ["test.jsonl"], TEST),
        ("org/lines:default:test@main", ["test.jsonl"], TEST),
        ("org/columns", ["data/train-0.parquet", "data/train-1.parquet"], TRAIN + TEST),
        ("org/cells", ["a.csv", "b.csv"], EXACT + TEST),
        ("org/configs:english", ["en/a.jsonl"], TRAIN),
        ("org/configs:german", ["de/a.jsonl"], EXACT),
        ("org/configs:german:test", ["de/b.jsonl"], TEST),
    ],
)
def test_counts_as_local_files_do(
    hub: HubServer,
    counter: Counter,
    local_counts: Any,
    spec: str,
    files: list[str],
    texts: list[str],
) -> None:
    answer = counter(spec)
    repo = parse_data_set(spec).repo
    prefix = f"hf://datasets/{repo}@{commit(hub, repo)}/"
    assert answer.get("files") == [prefix + path for path in files], answer
    assert answer["documents"] == len(texts)
    assert answer["skipped"] == {}
    assert answer["counts"] == local_counts(texts)


@pytest.mark.parametrize("by", ["branch", "commit"])
def test_a_revision_is_resolved_and_recorded(
    hub: HubServer, counter: Counter, local_counts: Any, by: str
) -> None:
    sha = commit(hub, "org/lines", "v1")
    answer = counter(f"org/lines@{sha if by == 'commit' else 'v1'}")
    assert answer["files"] == [f"hf://datasets/org/lines@{sha}/train.jsonl"]
    assert answer["counts"] == local_counts(FIRST)


def test_the_tokenizer_repo_is_read_whole(hub: HubServer, counter: Counter) -> None:
    answer = counter("org/lines:test", f"org/tok@{commit(hub, 'org/tok')}")
    assert answer["revision"] == commit(hub, "org/tok")
    assert (answer["rows"], answer["stop"]) == (320, [1, 7])


def test_optional_files_may_be_missing(hub: HubServer, counter: Counter) -> None:
    answer = counter("org/lines:test", "org/bare")
    assert answer["rows"] == 300


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json"])
def test_a_forbidden_file_is_not_a_missing_one(
    hub: HubServer, counter: Counter, tokenizer: bytes, name: str
) -> None:
    hub.add("model", f"org/{name[:6]}", {"tokenizer.json": tokenizer, "config.json": b"{}"})
    hub.faults.append(Fault(lambda _, path: path.endswith(f"/{name}"), status=403))
    answer = counter("org/lines:test", f"org/{name[:6]}")
    assert answer.get("kind") == "TokenizerError", answer
    assert f"cannot get 'org/{name[:6]}/{name}' from the Hub" in answer["error"]
    assert "403" in answer["error"]


def test_a_moment_of_503_at_an_optional_file_is_waited_out(
    hub: HubServer, counter: Counter, tokenizer: bytes
) -> None:
    files = {"tokenizer.json": tokenizer, "config.json": b'{"vocab_size": 333}'}
    hub.add("model", "org/busy", files)
    hub.faults.append(Fault(lambda _, path: path.endswith("/config.json"), status=503, times=2))
    assert counter("org/lines:test", "org/busy").get("rows") == 333


@pytest.mark.parametrize(
    ("tokenizer_repo", "words"),
    [
        ("org/none", "no model repo 'org/none' on the Hub, and no such folder"),
        ("org/tok@nope", "'org/tok' has no revision 'nope'; expected a commit, or one of 'main'"),
        ("org/weights", "'org/weights' has no tokenizer.json"),
        ("tok/tokenizer.json", "no file 'tok/tokenizer.json'"),
    ],
)
def test_wrong_tokenizers(
    hub: HubServer, counter: Counter, tokenizer_repo: str, words: str
) -> None:
    assert words in counter.error("org/lines", tokenizer_repo)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("org/none", "no data set 'org/none' on the Hub, and no such file"),
        ("org/lines@nope", "no revision 'nope'; expected a commit, or one of 'v1', 'main'"),
        ("org/lines:x", "'org/lines' has neither a config nor a split 'x'"),
        ("org/lines:x:train", "'org/lines' has no config 'x'; expected one of 'default'"),
        ("org/lines:default:x", "expected of its config 'default' one of 'train', 'test'"),
        ("org/configs", "2 configs, and none was named; expected one of 'english', 'german'"),
        ("org/configs:french", "no config 'french'; expected one of 'english', 'german'"),
        ("org/configs:german:x", "expected of its config 'german' one of 'train', 'test'"),
        ("org/nothing", "cannot open the data set 'org/nothing'"),
    ],
)
def test_wrong_data_sets(hub: HubServer, counter: Counter, spec: str, words: str) -> None:
    assert words in counter.error(spec)


@pytest.mark.parametrize("path", ["data/missing.jsonl", "data/missing.csv", "data/x.json.gz"])
def test_what_looks_like_a_file_is_not_looked_for(
    hub: HubServer, counter: Counter, path: str
) -> None:
    counter("org/lines")  # so that the tokenizer is known
    hub.requests.clear()
    assert f"no file matches {path!r}" in counter.error(path)
    assert not [request for request in hub.requests if "data/" in request]


def test_specs_that_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for spec in ("./a/b", "/a/b", "~/a", "a/b/c", "a", "a/b.parquet", "a/b.csv:x", "*/b"):
        assert not is_data_set(spec), spec
        assert not looks_like_repo(spec), spec
    assert is_data_set("a/b")
    assert is_data_set("a/b.v1:c.d:e@f/g")
    assert looks_like_repo("a/b-1.5@x")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").mkdir()
    assert not is_data_set("a/b")
    assert not looks_like_repo("a/b")


def test_a_broken_line_is_one_bad_row(hub: HubServer, counter: Counter, local_counts: Any) -> None:
    answer = counter("org/broken")
    assert answer["skipped"] == {"not JSON": 1}
    assert answer["counts"] == local_counts(TRAIN + TEST)


def test_a_broken_csv_is_named(hub: HubServer, counter: Counter) -> None:
    message = counter.error("org/broken-cells")
    assert message.startswith("bad.csv cannot be streamed: ParserError: Error tokenizing data")


@pytest.mark.parametrize("fault", [{"status": 503}, {"truncate": 100}], ids=["503", "truncated"])
@pytest.mark.parametrize("spec", ["org/lines", "org/columns", "org/cells"])
def test_a_moment_of_trouble_changes_nothing(
    hub: HubServer, counter: Counter, local_counts: Any, spec: str, fault: dict[str, Any]
) -> None:
    texts = {"org/lines": TRAIN, "org/columns": TRAIN + TEST, "org/cells": EXACT + TEST}[spec]
    data = (".jsonl", ".parquet", ".csv")
    hub.faults.append(Fault(lambda m, path: m == "GET" and path.endswith(data), times=1, **fault))
    answer = counter(spec)
    assert hub.faults[0].times == 0
    assert answer.get("counts") == local_counts(texts), answer


def test_an_answer_that_is_too_short_is_no_end_of_file() -> None:
    class Short(io.BytesIO):
        size = 100

    reader = _Reader(Short(b"x" * 60), "train.jsonl")
    assert reader.read(50) == b"x" * 50
    with pytest.raises(SourceError, match=r"train.jsonl ends at byte 60 of 100"):
        reader.read(50)


def test_build_by_workers(hub: HubServer, tmp_path: Path, local_counts: Any) -> None:
    options = [
        "-t",
        "org/tok",
        "-s",
        "org/lines",
        "-s",
        "cells=org/cells",
        "--workers",
        "2",
        "--holdout",
        "0",
    ]
    done = build(hub, tmp_path, *options)
    assert done.returncode == 0, done.stderr
    table = FrequencyTable.load(tmp_path / "vocab_freq.safetensors")
    assert np.array_equal(table.counts, [local_counts(TRAIN), local_counts(EXACT + TEST)])
    assert all(commit(hub, "org/cells") in file for file in table.sources[1].files)
    assert b"127.0.0.1" not in (tmp_path / "vocab_freq.safetensors").read_bytes()


def test_a_pinned_tokenizer_needs_no_network_twice(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(jsonl(TEST))
    options = ["-t", f"org/bare@{commit(hub, 'org/bare')}", "-s", "rows.jsonl", "--workers", "0"]
    assert build(hub, tmp_path, *options).returncode == 0
    hub.requests.clear()
    again = build(hub, tmp_path, *options, HF_HUB_OFFLINE="1")
    assert again.returncode == 0, again.stderr
    elsewhere = build(hub, tmp_path, *options, HF_HUB_OFFLINE="1", HF_HOME=str(tmp_path / "empty"))
    assert elsewhere.returncode == 1
    assert "is not in the local cache" in elsewhere.stderr
    assert hub.requests == []


@pytest.mark.parametrize("allowed", [0, 1], ids=["when planned", "when counted"])
@pytest.mark.parametrize(
    ("spec", "name"),
    [("org/lines", "train.jsonl"), ("org/columns", "train-1.parquet"), ("org/cells", "a.csv")],
)
def test_a_lasting_failure_names_the_file(
    hub: HubServer, counter: Counter, spec: str, name: str, allowed: int
) -> None:
    counter("org/nothing")  # so that the tokenizer is known
    left = [allowed]

    def refused(method: str, path: str) -> bool:
        if method != "GET" or not path.endswith(f"/{name}"):
            return False
        left[0] -= 1
        return left[0] < 0

    hub.faults.append(Fault(refused, status=403))
    message = counter.error(spec)
    assert left[0] < 0
    assert message.startswith((f"cannot get {name!r}", f"{name} cannot be streamed"))
    assert "403" in message


def test_a_failed_build_writes_nothing(hub: HubServer, tmp_path: Path) -> None:
    later = iter([False])
    hub.faults.append(
        Fault(lambda m, p: m == "GET" and p.endswith("/train.jsonl") and next(later, True), 403)
    )
    failed = build(hub, tmp_path, "-t", "org/tok", "-s", "org/lines", "-s", "org/cells")
    assert failed.returncode == 1
    assert "cannot get 'train.jsonl' from the Hub" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not (tmp_path / "vocab_freq.safetensors").exists()
    assert list((tmp_path / "vocab_freq.safetensors.parts").glob("*"))
    hub.faults.clear()
    again = build(hub, tmp_path, "-t", "org/tok", "-s", "org/lines", "-s", "org/cells")
    assert again.returncode == 0
    assert "were counted by an earlier run" in again.stderr
