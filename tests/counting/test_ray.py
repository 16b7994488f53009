"""A real Ray on this machine: the bytes of the local engine, whatever dies."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tiny import report, save_tokenizer, tiny_tokenizer

from vocabfreq import CountOptions, VocabfreqError, load_tokenizer
from vocabfreq.counting import ray_cluster
from vocabfreq.counting.build import run_plan
from vocabfreq.counting.merging import Report, merge_partials
from vocabfreq.counting.plan import Plan, make_plan
from vocabfreq.counting.ray_cluster import _tokenizer_on_node, merge_on_ray, ray_session
from vocabfreq.errors import CountError, SourceError

if find_spec("ray") is None and not os.environ.get("VOCABFREQ_REQUIRE_REAL"):
    pytest.skip("ray is not installed", allow_module_level=True)

# Ray leaves sockets and files to the end of the process.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray"),
]
TEXTS = [f"abc {'the ' * (n % 5)}{n} hello é {n * 7919}" for n in range(400)]
SHARDS = 12


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with ray_session(CountOptions(workers=2)) as session:
        yield session


@pytest.fixture
def corpus(tmp_path: Path) -> list[str]:
    """A source a shard; every ninth row is broken."""
    specs = []
    for n in range(SHARDS):
        rows = [
            "{" if i % 9 == 8 else json.dumps({"text": f"{t} {n}"}) for i, t in enumerate(TEXTS)
        ]
        (tmp_path / f"s{n}.jsonl").write_text("\n".join(rows) + "\n")
        specs.append(str(tmp_path / f"s{n}.jsonl"))
    return specs


def planned(tok: Path, specs: list[str], work_dir: Path, **options: Any) -> Plan:
    info = load_tokenizer(str(tok))
    return make_plan(specs, info, CountOptions(holdout=5, work_dir=work_dir, **options))


def parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.part.safetensors")}


@pytest.fixture
def local(tok: Path, corpus: list[str], tmp_path: Path) -> Report:
    return run_plan(planned(tok, corpus, tmp_path / "local", workers=0))


def same(found: Report, want: Report) -> bool:
    return (found.table, found.examples) == (want.table, want.examples)


def test_ray_leaves_the_partial_files_and_counts_of_the_local_engine(
    ray: Any, tok: Path, corpus: list[str], tmp_path: Path, local: Report
) -> None:
    plan = planned(tok, corpus, tmp_path / "ray", engine="ray")
    heard: list[Any] = []
    found = run_plan(plan, progress=heard.append)
    assert same(found, local)
    assert parts(tmp_path / "ray") == parts(tmp_path / "local")
    assert len(parts(tmp_path / "ray")) == SHARDS
    assert sum(getattr(h, "documents", 0) for h in heard) == sum(
        s.documents for s in local.table.sources
    )
    again = run_plan(plan)
    assert again.resumed == SHARDS
    assert same(again, local)


@pytest.mark.parametrize(("leaf", "branch"), [(1, 2), (5, 3), (64, 8)])
def test_a_tree_of_any_shape_gives_the_same_sums(
    ray: Any,
    tok: Path,
    corpus: list[str],
    tmp_path: Path,
    local: Report,
    monkeypatch: pytest.MonkeyPatch,
    leaf: int,
    branch: int,
) -> None:
    monkeypatch.setattr(ray_cluster, "LEAF", leaf)
    monkeypatch.setattr(ray_cluster, "BRANCH", branch)
    plan = planned(tok, corpus, tmp_path / "local")
    assert same(merge_on_ray(ray, plan, tmp_path / "local"), local)
    (tmp_path / "local" / sorted(parts(tmp_path / "local"))[3]).unlink()
    with pytest.raises(CountError) as local_error:
        merge_partials(plan, tmp_path / "local")
    with pytest.raises(CountError, match="1 of 12 shards are not counted") as ray_error:
        merge_on_ray(ray, plan, tmp_path / "local")
    assert str(ray_error.value) == str(local_error.value)


class Killing:
    """Counts as ever, but some shards kill the process that counts them."""

    def __init__(self, name: str, folder: Path, times: int) -> None:
        self.name, self.folder, self.times = name, folder, times

    def __call__(self, task: Any, config: Any, tokenizer: bytes) -> Any:
        from vocabfreq.counting.ray_cluster import count_on_node

        if task.shard.name == self.name:
            deaths = len(list(self.folder.iterdir()))
            if deaths < self.times:
                (self.folder / str(deaths)).touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return count_on_node(task, config, tokenizer)


def killing(name: str, tmp_path: Path, times: int) -> Any:
    folder = tmp_path / "deaths"
    folder.mkdir()
    kill = Killing(name, folder, times)
    return lambda task, config, tokenizer: kill(task, config, tokenizer)


def test_F11_a_killed_worker_is_replaced(
    ray: Any,
    tok: Path,
    corpus: list[str],
    tmp_path: Path,
    local: Report,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(ray_cluster, "count_on_node", killing("s4.jsonl", tmp_path, 2))
    found = run_plan(planned(tok, corpus, tmp_path / "ray", engine="ray"))
    assert len(list((tmp_path / "deaths").iterdir())) == 2
    assert same(found, local)


def test_F11_a_shard_that_kills_every_worker_is_named_and_the_others_kept(
    ray: Any, tok: Path, corpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(ray_cluster, "count_on_node", killing("s4.jsonl", tmp_path, 99))
    with pytest.raises(CountError, match=r"s4\.jsonl: Ray gave up after 4 attempts"):
        run_plan(planned(tok, corpus, tmp_path / "ray", engine="ray"))
    assert len(parts(tmp_path / "ray")) == SHARDS - 1
    monkeypatch.undo()
    found = run_plan(planned(tok, corpus, tmp_path / "ray", workers=0))
    assert found.resumed == SHARDS - 1


def test_a_shard_that_cannot_be_read_is_named(
    ray: Any, tok: Path, corpus: list[str], tmp_path: Path
) -> None:
    plan = planned(tok, corpus, tmp_path / "ray", engine="ray")
    Path(corpus[7]).unlink()
    with pytest.raises(VocabfreqError, match=r"s7\.jsonl"):
        run_plan(plan)
    assert len(parts(tmp_path / "ray")) == SHARDS - 1


def test_a_work_dir_that_is_not_shared_is_refused(
    ray: Any, tok: Path, corpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vocabfreq.counting.workers import ShardDone

    monkeypatch.setattr(ray_cluster, "count_on_node", lambda *_: [ShardDone(1, 1, 1, 1)])
    with pytest.raises(CountError, match="every node shares"):
        run_plan(planned(tok, corpus[:1], tmp_path / "ray", engine="ray"))


def test_a_tokenizer_that_a_node_lacks_is_brought_there(
    tok: Path, corpus: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    config = planned(tok, corpus[:1], tmp_path / "x").worker_config
    content = config.tokenizer.read_bytes()
    assert _tokenizer_on_node(config, content) == config.tokenizer
    other = save_tokenizer(tiny_tokenizer(), tmp_path / "other")
    (other / "tokenizer.json").write_text("{}")
    for path in (tmp_path / "nowhere" / "tokenizer.json", other / "tokenizer.json"):
        placed = _tokenizer_on_node(replace(config, tokenizer=path), content)
        assert placed != path
        assert placed.read_bytes() == content


def test_an_address_needs_ray(tok: Path, corpus: list[str]) -> None:
    with pytest.raises(SourceError, match="address"):
        CountOptions(address="auto")
    with pytest.raises(SourceError, match="engine"):
        CountOptions(engine="slurm")  # type: ignore[arg-type]


def test_standard_input_stays_with_the_driver(ray: Any, tok: Path, corpus: list[str]) -> None:
    found = report(tok, corpus[0], options=CountOptions(engine="ray"))
    assert found.shards == 1


LOST_NODE = """
import sys, threading, time
from pathlib import Path
import ray
from ray.cluster_utils import Cluster
from vocabfreq import CountOptions, load_tokenizer
from vocabfreq.counting.build import run_plan
from vocabfreq.counting.plan import make_plan

tok, work, output, *specs = sys.argv[1:]
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
lost = cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
assert ray.cluster_resources()["CPU"] == 2
removed = []

def lose(heard):
    if not removed:
        removed.append(cluster.remove_node(lost, allow_graceful=False))

options = CountOptions(holdout=5, work_dir=Path(work), engine="ray")
report = run_plan(make_plan(specs, load_tokenizer(tok), options), progress=lose)
assert removed
report.table.save(output)
ray.shutdown()
cluster.shutdown()
"""


def test_F11_a_lost_node_changes_nothing(
    tok: Path, corpus: list[str], tmp_path: Path, local: Report
) -> None:
    words = [str(tok), str(tmp_path / "ray"), str(tmp_path / "out"), *corpus]
    done = subprocess.run(
        [sys.executable, "-c", LOST_NODE, *words], capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr[-3000:]
    local.table.save(tmp_path / "want")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "want").read_bytes()
