"""Data sets of many shards on a Hub that limits, stumbles and forgets who is logged in."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command import run_with
from hubdata import DATASETS_NEEDS, TEST, TRAIN, csv_file, environment, jsonl, train_tokenizer
from hubserver import Fault, HubServer

FILES = 8
NAMES = [f"part-{n:02}.csv" for n in range(FILES)]
LINES = [f"rows-{n}.jsonl" for n in range(3)]
SPECS = {"streamed": "org/many", "by ranges": "org/large"}


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    """One data set that `datasets` streams, and one that is read by ranges, a shard a file."""
    with HubServer() as hub:
        parts = [[f"{text} {n}" for text in TRAIN + TEST] for n in range(FILES)]
        hub.add("dataset", "org/many", dict(zip(NAMES, map(csv_file, parts), strict=True)))
        large = {name: jsonl(TRAIN * 1500 + parts[n]) for n, name in enumerate(LINES)}
        assert all(len(data) > 4_200_000 for data in large.values())  # two make more than a shard
        hub.add("dataset", "org/large", large)
        hub.add("model", "org/tok", {"tokenizer.json": train_tokenizer()})
        yield hub


@pytest.fixture
def run(server: HubServer, tmp_path: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Runs a verb against the server; exit code and standard error."""

    def command(*words: object) -> tuple[int, str]:
        done = run_with(environment(server, tmp_path), words, tmp_path, loaded=DATASETS_NEEDS)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    server.faults.clear()
    yield command
    server.faults.clear()
    assert server.unknown == []


def build(
    run: Callable[..., tuple[int, str]], spec: str, output: str, workers: int = 0
) -> tuple[int, str]:
    return run("build", "-t", "org/tok", "-s", spec, "-o", output, "--workers", workers)


KNOWN: dict[tuple[str, str], bytes] = {}


@pytest.fixture
def undisturbed(
    run: Callable[..., tuple[int, str]], server: HubServer, tmp_path: Path
) -> Callable[[str], bytes]:
    """The bytes that a build gives when nothing goes wrong; built once."""

    def bytes_of(spec: str) -> bytes:
        if (server.url, spec) not in KNOWN:
            assert build(run, spec, "undisturbed") == (0, "")
            KNOWN[server.url, spec] = (tmp_path / "undisturbed").read_bytes()
        return KNOWN[server.url, spec]

    return bytes_of


def reads(name: str) -> Callable[[str, str], bool]:
    """Requests for the content of a file."""
    return lambda method, path: method == "GET" and path.endswith(f"/{name}")


def parts(tmp_path: Path) -> int:
    return len(list((tmp_path / "out.parts").glob("*.part.safetensors")))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_rate_limits_and_stumbles_are_waited_out(
    run: Callable[..., tuple[int, str]],
    undisturbed: Callable[[str], bytes],
    server: HubServer,
    tmp_path: Path,
    spec: str,
) -> None:
    want = undisturbed(spec)
    names = NAMES if spec == "org/many" else LINES
    for name, status in zip(names[1::2], itertools.cycle([429, 503, 500]), strict=False):
        headers = {"Retry-After": "1"} if status == 429 else {}
        server.faults.append(Fault(reads(name), status=status, times=1, headers=headers))
    code, err = build(run, spec, "out", workers=1)  # the client tells when it waits
    assert code == 0, err
    assert all(fault.times == 0 for fault in server.faults)
    assert (tmp_path / "out").read_bytes() == want


@pytest.mark.parametrize("status", [503, 403])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_lasting_fault_names_its_shard_and_keeps_the_others(
    run: Callable[..., tuple[int, str]],
    undisturbed: Callable[[str], bytes],
    server: HubServer,
    tmp_path: Path,
    spec: str,
    status: int,
) -> None:
    want = undisturbed(spec)
    names = NAMES if spec == "org/many" else LINES
    # The columns are looked up in the first file; that one is left alone.
    server.faults.append(Fault(reads(names[-1]), status=status))
    code, err = build(run, spec, "out", workers=1)
    assert code == 1
    assert names[-1] in err
    assert str(status) in err
    assert parts(tmp_path) == len(names) - 1
    assert not (tmp_path / "out").exists()
    server.faults.clear()
    code, err = build(run, spec, "out")
    assert (code, err) == (
        0,
        f"{len(names) - 1} of {len(names)} shards were counted by an earlier run\n",
    )
    assert (tmp_path / "out").read_bytes() == want


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_login_that_expires_in_the_middle_loses_nothing(
    run: Callable[..., tuple[int, str]],
    undisturbed: Callable[[str], bytes],
    server: HubServer,
    tmp_path: Path,
    spec: str,
) -> None:
    want = undisturbed(spec)
    names = NAMES if spec == "org/many" else LINES
    seen: set[str] = set()

    def expired(method: str, path: str) -> bool:
        """Once half of the files have been asked for, nothing is handed out any more."""
        seen.update(name for name in names if path.endswith(f"/{name}") and method == "GET")
        return len(seen) > (len(names) + 1) // 2

    server.faults.append(Fault(expired, status=401))
    code, err = build(run, spec, "out", workers=1)
    assert code == 1
    assert "401" in err
    kept = parts(tmp_path)
    assert 0 < kept < len(names)
    server.faults.clear()
    code, err = build(run, spec, "out")
    assert (code, err) == (0, f"{kept} of {len(names)} shards were counted by an earlier run\n")
    assert (tmp_path / "out").read_bytes() == want


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_plan_of_a_data_set_is_counted_by_other_processes(
    run: Callable[..., tuple[int, str]],
    undisturbed: Callable[[str], bytes],
    server: HubServer,
    tmp_path: Path,
    spec: str,
) -> None:
    want = undisturbed(spec)
    assert run("plan", "-t", "org/tok", "-s", spec, "-q") == (0, "")
    for part in (2, 0, 1):
        words = ("--shard-index", part, "--num-shards", 3, "--workers", 0)
        assert run("count", "--plan", "plan.json", *words) == (0, "")
    assert run("merge", "--plan", "plan.json", "-o", "out", "-q") == (0, "")
    assert (tmp_path / "out").read_bytes() == want
