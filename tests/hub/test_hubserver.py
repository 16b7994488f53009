"""The loopback Hub of the tests against the real client, which runs in other processes."""

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import pytest
from hubserver import Commit, Fault, HubServer, Repo

CLIENT = """
import json, sys
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

def push(folder, *paths, repo="org/pushed", title="Push", delete=(), **options):
    added = [CommitOperationAdd(path, f"{folder}/{path}") for path in paths]
    gone = [CommitOperationDelete(path) for path in delete]
    done = api.create_commit(repo, added + gone, commit_message=title, **options)
    return {"oid": done.oid, "pr": done.pr_url, "number": done.pr_num}

for line in sys.stdin:
    code, token, arguments = json.loads(line)
    api = HfApi(token=token)
    try:
        answer = {"value": eval(code, globals() | arguments)}
    except Exception as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        answer = {"error": type(error).__name__, "status": status, "message": str(error)}
    print(json.dumps(answer, default=str), flush=True)
"""
FILES = {
    "README.md": b"---\nlicense: apache-2.0\n---\n# A card\n",
    "config.json": b'{"size": 32768}',
    "table.safetensors": random.Random(0).randbytes(700_000) + b"\0abc" * 75_000,
    "freq.pt": b"PK\3\4 small, yet binary",
    "long.txt": b"A line.\n" * 10_000,
}
LARGE = ["table.safetensors", "freq.pt", "long.txt"]


class Client:
    """A process that evaluates what it is sent; `api` is its HfApi, `push` makes a commit."""

    def __init__(self, hub: HubServer, home: Path, *, xet: bool) -> None:
        self.xet = xet
        kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and k[:3] != "HF_"}
        kept |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
        kept |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_XET": str(int(not xet))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=kept,
        )

    def ask(self, code: str, token: str | bool = "good", **names: Any) -> dict[str, Any]:
        """The value, or error, status and message."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([code, token, names]) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def __call__(self, code: str, token: str | bool = "good", **names: Any) -> Any:
        """The value of what must not fail."""
        answer = self.ask(code, token, **names)
        assert "value" in answer, answer
        return answer["value"]


@pytest.fixture(scope="module")
def server() -> Iterator[HubServer]:
    with HubServer() as hub:
        yield hub


@pytest.fixture(scope="module", params=["xet", "lfs"])
def client(
    request: pytest.FixtureRequest, server: HubServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    xet = request.param == "xet"
    # Not imported here: it would log to the home folder.
    found = [d.version for d in distributions(name="hf_xet")] if xet else []
    if xet and not (found and tuple(map(int, found[0].split(".")[:2])) >= (1, 5)):
        pytest.skip("the server reads what Xet stores with hf_xet 1.5 or newer")
    client = Client(server, tmp_path_factory.mktemp("home"), xet=xet)
    yield client
    client.process.communicate()


@pytest.fixture
def hub(server: HubServer) -> Iterator[HubServer]:
    """The server, empty; asking for what it does not know fails the test."""
    server.repos.clear()
    server.faults.clear()
    server.requests.clear()
    server.tokens = {"good"}
    yield server
    assert server.unknown == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture
def repo(hub: HubServer, client: Client) -> Repo:
    """A new repo, as the client made it."""
    assert client("api.create_repo('org/pushed')") == f"{hub.url}/org/pushed"
    return hub.repos["model", "org/pushed"]


def push(client: Client, folder: Path, *paths: str, **options: Any) -> dict[str, Any]:
    return client.ask(
        "push(folder, *paths, **options)",
        folder=str(folder),
        paths=paths or list(FILES),
        options=options,
    )


def send(
    hub: HubServer, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Message, bytes]:
    """A request that the client would not make: status, headers, body of the reply."""
    request = Request(hub.url + path, body or None, headers, method=method)
    request.add_header("Authorization", "Bearer good")
    try:
        with build_opener(ProxyHandler({})).open(request) as reply:
            return reply.status, reply.headers, reply.read()
    except HTTPError as error:
        with error:
            return error.code, error.headers, error.read()


def test_what_is_pushed_can_be_read(
    hub: HubServer, client: Client, repo: Repo, folder: Path
) -> None:
    pushed = push(client, folder, title="One commit", commit_description="All of it")["value"]
    first, second = repo.log
    assert first.title == "initial commit"
    assert second == Commit(pushed["oid"], "main", "One commit", "All of it", first.sha)
    assert repo.refs == {"main": pushed["oid"]}

    names = client("api.list_repo_files('org/pushed')")
    assert sorted(names) == sorted([".gitattributes", *FILES])
    for name, content in FILES.items():
        path = client("api.hf_hub_download('org/pushed', name)", name=name)
        assert Path(path).read_bytes() == content
        # The cache calls a file by its ETag.
        etag = Path(path).resolve().name
        assert (etag == hashlib.sha256(content).hexdigest()) == (name in LARGE)
    snapshot = client("api.snapshot_download('org/pushed', allow_patterns='*.safetensors')")
    assert Path(snapshot).name == pushed["oid"]


def test_how_large_files_travel(client: Client, repo: Repo, folder: Path, hub: HubServer) -> None:
    push(client, folder)
    assert any("xet-write-token" in request for request in hub.requests) == client.xet
    assert any("PUT" in request for request in hub.requests) == (not client.xet)
    assert bool(repo.xet) == client.xet
    code = "[(f.path, f.lfs and f.lfs.sha256, f.size) for f in api.list_repo_tree('org/pushed')]"
    assert sorted(client(code))[1:] == sorted(
        [name, hashlib.sha256(content).hexdigest() if name in LARGE else None, len(content)]
        for name, content in FILES.items()
    )
    info = "api.model_info('org/pushed', files_metadata=True)"
    code = f"[file.lfs and file.lfs.sha256 for file in {info}.siblings]"
    assert len(set(client(code))) == 1 + len(LARGE)


def test_an_unchanged_push_is_no_commit(client: Client, repo: Repo, folder: Path) -> None:
    sha = push(client, folder)["value"]["oid"]
    assert push(client, folder)["value"]["oid"] == sha
    assert len(repo.log) == 2
    (folder / "config.json").write_bytes(b"{}")
    (folder / "freq.pt").write_bytes(b"other")
    changed = push(client, folder, delete=["long.txt"], parent_commit=sha)
    files = repo.commits[changed["value"]["oid"]]
    assert (files["config.json"], files["freq.pt"]) == (b"{}", b"other")
    assert "long.txt" not in files
    assert files["table.safetensors"] == FILES["table.safetensors"]


def test_a_branch_that_moved_is_a_412(client: Client, repo: Repo, folder: Path) -> None:
    start = repo.refs["main"]
    assert "value" in push(client, folder, "config.json", parent_commit=start)
    refused = push(client, folder, "freq.pt", parent_commit=start)
    assert (refused["status"], len(repo.log)) == (412, 2)


@pytest.mark.parametrize("token", ["bad", False])
def test_without_a_good_token_nothing_is_written(
    hub: HubServer, client: Client, repo: Repo, folder: Path, token: str | bool
) -> None:
    for code in ("api.create_repo('org/new')", "push(folder, 'config.json')"):
        assert client.ask(code, token, folder=str(folder))["status"] == 401
    assert len(repo.log) == len(hub.repos) == 1
    assert client("api.whoami()['name']") == "user"


def test_repos_and_branches_exist_once(hub: HubServer, client: Client, repo: Repo) -> None:
    assert client.ask("api.create_repo('org/pushed')")["status"] == 409
    url = client("api.create_repo('org/pushed', exist_ok=True)")
    assert url == f"{hub.url}/org/pushed"
    url = client("api.create_repo('rows', repo_type='dataset', private=True)")
    assert url == f"{hub.url}/datasets/user/rows"
    assert hub.repos["dataset", "user/rows"].private
    code = "api.repo_exists('user/rows', repo_type='dataset')"
    assert (client(code), client(code, False)) == (True, False)

    client("api.create_branch('org/pushed', branch='v/1')")
    assert repo.refs["v/1"] == repo.refs["main"]
    assert client.ask("api.create_branch('org/pushed', branch='v/1')")["status"] == 409


def test_a_data_set_is_pushed_to_a_branch(hub: HubServer, client: Client, folder: Path) -> None:
    client("api.create_repo('org/pushed', repo_type='dataset')")
    client("api.create_branch('org/pushed', branch='v/1', repo_type='dataset')")
    done = push(client, folder, repo_type="dataset", revision="v/1")["value"]
    repo = hub.repos["dataset", "org/pushed"]
    assert repo.refs == {"main": repo.log[0].sha, "v/1": done["oid"]}
    assert repo.commits[done["oid"]]["freq.pt"] == FILES["freq.pt"]


def test_a_pull_request_leaves_the_branch(client: Client, repo: Repo, folder: Path) -> None:
    start = repo.refs["main"]
    opened = push(client, folder, create_pr=True)["value"]
    assert opened["number"] == 1 and opened["pr"].endswith("/org/pushed/discussions/1")
    assert repo.refs == {"main": start, "refs/pr/1": opened["oid"]}
    later = push(client, folder, "freq.pt", title="More", revision="refs/pr/1", delete=["long.txt"])
    assert [made.ref for made in repo.log] == ["main", "refs/pr/1", "refs/pr/1"]
    assert repo.refs["refs/pr/1"] == later["value"]["oid"]
    path = client("api.hf_hub_download('org/pushed', 'freq.pt', revision='refs/pr/1')")
    assert Path(path).read_bytes() == FILES["freq.pt"]
    found = "api.list_repo_refs('org/pushed', include_pull_requests=True)"
    assert client(f"[pull.ref for pull in {found}.pull_requests]") == ["refs/pr/1"]


def test_what_was_not_uploaded_cannot_be_committed(hub: HubServer) -> None:
    before = hub.add("model", "org/raw", {"a.txt": b"a"})
    named = {"path": "a.pt", "algo": "sha256", "oid": hashlib.sha256(b"abc").hexdigest(), "size": 3}
    lines: list[Any] = [{"key": "header", "value": {"summary": "Both"}}]
    lines += [
        {"key": "deletedFile", "value": {"path": "a.txt"}},
        {"key": "lfsFile", "value": named},
    ]
    body = "\n".join(map(json.dumps, lines)).encode()
    assert send(hub, "POST", "/api/models/org/raw/commit/main", body)[0] == 400
    assert hub.repos["model", "org/raw"].refs == {"main": before}
    objects = f"/org/raw.git/info/lfs/objects/{named['oid']}"
    assert send(hub, "PUT", objects, b"abd")[0] == 400
    assert send(hub, "PUT", objects, b"abc")[0] == 200
    assert send(hub, "POST", "/api/models/org/raw/commit/main", body)[0] == 200
    assert hub.repos["model", "org/raw"].commits[hub.repos["model", "org/raw"].refs["main"]] == {
        "a.pt": b"abc"
    }


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("push(folder, 'config.json', repo='org/none')", "RepositoryNotFoundError"),
        ("push(folder, 'config.json', revision='none')", "RevisionNotFoundError"),
        ("push(folder, delete=['none.txt'])", "RemoteEntryNotFoundError"),
        ("api.hf_hub_download('org/pushed', 'none.txt')", "RemoteEntryNotFoundError"),
    ],
)
def test_what_is_missing(client: Client, repo: Repo, folder: Path, code: str, error: str) -> None:
    answer = client.ask(code, folder=str(folder))
    # EntryNotFoundError before 1.0.
    assert error.endswith(answer["error"]), answer
    assert answer["status"] == 404


@pytest.mark.parametrize("status", [None, 503])
def test_a_commit_may_be_made_and_its_answer_lost(
    hub: HubServer, client: Client, repo: Repo, folder: Path, status: int | None
) -> None:
    hub.faults.append(Fault(lambda _, path: "/commit/" in path, status, times=1, after=True))
    lost = push(client, folder, title="Once")
    assert "error" in lost and lost["status"] == status
    assert [made.title for made in repo.log] == ["initial commit", "Once"]
    assert push(client, folder)["value"]["oid"] == repo.refs["main"]
    assert len(repo.log) == 2


def test_a_commit_may_be_refused(hub: HubServer, client: Client, repo: Repo, folder: Path) -> None:
    wait = {"Retry-After": "1"}
    hub.faults.append(Fault(lambda _, path: "/commit/" in path, 429, times=1, headers=wait))
    assert push(client, folder, "config.json")["status"] == 429
    assert len(repo.log) == 1
    hub.faults.append(Fault(lambda _, path: path.endswith("/x"), 429, headers=wait))
    status, headers, _ = send(hub, "GET", "/x")
    assert (status, headers["Retry-After"]) == (429, "1")


@pytest.mark.parametrize("name", ["config.json", "table.safetensors"])
def test_other_bytes_may_be_served(hub: HubServer, client: Client, name: str) -> None:
    hub.add("model", "org/raw", FILES)
    other = FILES[name][::-1]
    code = "api.hf_hub_download('org/raw', name, force_download=True)"
    fault = Fault(lambda method, _: method == "GET", content=other)
    hub.faults.append(fault)
    assert Path(client(code, name=name)).read_bytes() == other
    status, _, body = send(hub, "GET", f"/org/raw/resolve/main/{name}", Range="bytes=2-5")
    assert (status, body) == (206, other[2:6])
    fault.content = other[:-1]
    assert "onsistency check failed" in client.ask(code, name=name)["message"]
