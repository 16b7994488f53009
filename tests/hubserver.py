"""A small Hugging Face Hub on loopback, for tests with the real clients.

It holds repos in memory and speaks the endpoints by which `huggingface_hub` and `datasets` read.
What it does not know it answers with 501 and notes in `HubServer.unknown`.

    >>> with HubServer() as hub:
    ...     sha = hub.add("dataset", "org/name", {"train.jsonl": b"{}"})
    ...     subprocess.run(command, env=os.environ | {"HF_ENDPOINT": hub.url})
"""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["model", "dataset"]
Files = dict[str, bytes]

_NAME = r"(?P<name>[^/]+/[^/]+)"
_API = rf"/api/(?P<kind>model|dataset)s/{_NAME}"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass
class Repo:
    """A repo: every commit is the whole of its files.

    Attributes:
        commits: sha → path → content.
        refs: branch → sha.
    """

    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    """A request as the endpoints see it; `part` holds the named groups of the route."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes
    part: dict[str, str] = field(default_factory=dict)


@dataclass
class Reply:
    """What is sent back."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Fault:
    """Something that goes wrong with the requests for which `when(method, path)` is true.

    Attributes:
        when: which requests.
        status: answered instead of the real reply.
        delay: seconds to wait before the reply.
        truncate: so many bytes of the body are sent, then the connection breaks.
        times: how often, None for always.
    """

    when: Callable[[str, str], bool]
    status: int | None = None
    delay: float = 0.0
    truncate: int | None = None
    times: int | None = None


class MissingError(Exception):
    """Answered 404, with the code by which the client tells what is missing."""

    def __init__(self, code: str, commit: str | None = None) -> None:
        super().__init__(code)
        self.code, self.commit = code, commit


class HubServer:
    """The server; runs between `__enter__` and `__exit__`.

    Attributes:
        repos: (kind, `org/name`) → repo.
        faults: what goes wrong; the first that applies counts.
        requests: "METHOD path" of everything asked for.
        unknown: the same, of what no route answers.
    """

    def __init__(self) -> None:
        self.repos: dict[tuple[str, str], Repo] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hub = self
        run = self._server.serve_forever
        self._thread = threading.Thread(target=run, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "HubServer":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, kind: Kind, name: str, files: Files, branch: str = "main") -> str:
        """Makes a commit that holds exactly these files; returns its sha."""
        repo = self.repos.setdefault((kind, name), Repo())
        digest = hashlib.sha1(f"{kind} {name} {len(repo.commits)}".encode())
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + files[path])
        sha = digest.hexdigest()
        repo.commits[sha] = dict(files)
        repo.refs[branch] = sha
        return sha

    def answer(self, request: Request) -> tuple[Reply, Fault | None]:
        """The reply to a request, and what is to go wrong with it."""
        asked = f"{request.method} {request.path}"
        with self._lock:
            self.requests.append(asked)
            fault = self._fault(request)
        if fault and fault.status:
            return Reply(fault.status, b'{"error": "injected"}'), fault
        for method, pattern, endpoint in ROUTES:
            match = pattern.fullmatch(request.path)
            if match and request.method in method:
                request.part = {k: unquote(v or "") for k, v in match.groupdict().items()}
                return self._call(endpoint, request), fault
        self.unknown.append(asked)
        return Reply(501, b'{"error": "not implemented"}'), fault

    def _fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.times != 0 and fault.when(request.method, request.path):
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def _call(self, endpoint: "Endpoint", request: Request) -> Reply:
        try:
            repo = self.repos.get((request.part["kind"] or "model", request.part["name"]))
            if repo is None:
                raise MissingError("RepoNotFound")
            return endpoint(repo, request)
        except MissingError as missing:
            headers = {"X-Error-Code": missing.code}
            if missing.commit:
                headers["X-Repo-Commit"] = missing.commit
            return _json({"error": missing.code}, status=404, headers=headers)


Endpoint = Callable[[Repo, Request], Reply]


def _commit(repo: Repo, revision: str) -> str:
    """A branch or a sha → the sha."""
    sha = repo.refs.get(revision, revision)
    if sha not in repo.commits:
        raise MissingError("RevisionNotFound")
    return sha


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    typed = {"Content-Type": "application/json"}
    return Reply(status, json.dumps(value).encode(), typed | (headers or {}))


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def info(repo: Repo, request: Request) -> Reply:
    """`repo_info`: the commit of a revision and its file names."""
    sha = _commit(repo, request.part.get("revision") or "main")
    siblings = [{"rfilename": path} for path in repo.commits[sha]]
    return _json({"id": request.part["name"], "sha": sha, "private": False, "siblings": siblings})


def refs(repo: Repo, request: Request) -> Reply:
    """`list_repo_refs`: the branches."""
    branches = [
        {"name": name, "ref": f"refs/heads/{name}", "targetCommit": sha}
        for name, sha in repo.refs.items()
    ]
    return _json({"branches": branches, "tags": [], "converts": []})


def _entries(files: Files, folder: str, recursive: bool) -> Iterator[dict[str, Any]]:
    """Files and folders below a folder ("" for the root)."""
    seen = set()
    for path, content in sorted(files.items()):
        if folder and not path.startswith(f"{folder}/"):
            continue
        parts = path[len(folder) :].strip("/").split("/")
        for depth in range(1, len(parts)):
            above = "/".join([*([folder] if folder else []), *parts[:depth]])
            if above not in seen and (recursive or depth == 1):
                seen.add(above)
                yield {"type": "directory", "path": above, "oid": _oid(above.encode()), "size": 0}
        if recursive or len(parts) == 1:
            yield {"type": "file", "path": path, "oid": _oid(content), "size": len(content)}


def tree(repo: Repo, request: Request) -> Reply:
    """`list_repo_tree`, in one page."""
    sha = _commit(repo, request.part["revision"])
    folder = request.part["path"]
    recursive = request.query.get("recursive", ["false"])[0].lower() == "true"
    entries = list(_entries(repo.commits[sha], folder, recursive))
    if folder and not entries:
        raise MissingError("EntryNotFound", sha)
    return _json(entries)


def paths_info(repo: Repo, request: Request) -> Reply:
    """`get_paths_info`: those of the paths that exist."""
    files = repo.commits[_commit(repo, request.part["revision"])]
    wanted = parse_qs(request.body.decode()).get("paths", [])
    return _json([entry for entry in _entries(files, "", True) if entry["path"] in wanted])


def resolve(repo: Repo, request: Request) -> Reply:
    """The content of a file, or a range of it."""
    sha = _commit(repo, request.part["revision"])
    content = repo.commits[sha].get(request.part["path"])
    if content is None:
        raise MissingError("EntryNotFound", sha)
    headers = {"X-Repo-Commit": sha, "ETag": f'"{_oid(content)}"', "Accept-Ranges": "bytes"}
    asked = _RANGE.fullmatch(request.headers.get("range", ""))
    if asked is None:
        return Reply(200, content, headers | {"X-Linked-Size": str(len(content))})
    return _ranged(content, asked[1], asked[2], headers)


def _ranged(content: bytes, first: str, last: str, headers: dict[str, str]) -> Reply:
    size = len(content)
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= stop:
        return Reply(416, b"", headers | {"Content-Range": f"bytes */{size}"})
    place = {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    return Reply(206, content[start:stop], headers | place)


# Methods, path, endpoint. Paths are matched as they were sent: `%2F` within a revision is no slash.
ROUTES: list[tuple[tuple[str, ...], re.Pattern[str], Endpoint]] = [
    (("GET",), re.compile(_API), info),
    (("GET",), re.compile(rf"{_API}/revision/(?P<revision>[^/]+)"), info),
    (("GET",), re.compile(rf"{_API}/refs"), refs),
    (("GET",), re.compile(rf"{_API}/tree/(?P<revision>[^/]+)(/(?P<path>.+))?"), tree),
    (("POST",), re.compile(rf"{_API}/paths-info/(?P<revision>[^/]+)"), paths_info),
    (
        ("GET", "HEAD"),
        re.compile(rf"/((?P<kind>dataset)s/)?{_NAME}/resolve/(?P<revision>[^/]+)/(?P<path>.+)"),
        resolve,
    ),
]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    hub: HubServer


class _Handler(BaseHTTPRequestHandler):
    """Bytes ↔ Request and Reply."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, url.path, parse_qs(url.query), headers, body)
        reply, fault = self.server.hub.answer(request)
        if fault:
            time.sleep(fault.delay)
        self._send(reply, fault.truncate if fault else None)

    # The names that http.server looks for.
    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _send(self, reply: Reply, truncate: int | None) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body[:truncate])
        if truncate is not None:
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Says nothing."""
