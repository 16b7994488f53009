"""A small Hugging Face Hub on loopback, for tests with the real clients.

It holds repos in memory and speaks the endpoints by which `huggingface_hub` and `datasets` read;
those by which a client writes are in `hubwrite`. What it does not know it answers with 501 and
notes in `HubServer.unknown`.

    >>> with HubServer() as hub:
    ...     sha = hub.add("dataset", "org/name", {"train.jsonl": b"{}"})
    ...     subprocess.run(command, env=os.environ | {"HF_ENDPOINT": hub.url})
"""

import hashlib
import json
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["model", "dataset"]
Files = dict[str, bytes]

NAME = r"(?P<name>[^/]+/[^/]+)"
API = rf"/api/(?P<kind>model|dataset)s/{NAME}"
REVISION = r"(?P<revision>[^/]+)"
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_PULL = "refs/pr/"
# What goes to large file storage: these, and every file over so many bytes (the Hub: 10 MB).
BINARY = (".safetensors", ".pt", ".bin", ".npy", ".npz", ".parquet", ".png", ".zst", ".gz", ".zip")
REGULAR_BYTES = 64 * 1024


@dataclass(frozen=True)
class Commit:
    """A commit as `Repo.log` tells of it.

    Attributes:
        ref: the branch, or refs/pr/N.
        parent: the sha before it, "" for a first commit.
    """

    sha: str
    ref: str
    title: str
    description: str
    parent: str


@dataclass
class Repo:
    """A repo: every commit is the whole of its files.

    Attributes:
        name: kind and name, part of what the shas are made of.
        private: as asked for when it was made.
        commits: sha → path → content.
        refs: branch, or refs/pr/N → sha.
        log: all commits, on any branch, in the order in which they were made.
        blobs: sha256 → content, of the large files that were uploaded.
        xet: folders in which hf_xet may have left large files.
    """

    name: str = ""
    private: bool = False
    commits: dict[str, Files] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    log: list[Commit] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    xet: list[Path] = field(default_factory=list)

    def sha(self, revision: str) -> str:
        """The commit that a branch, a pull request or a sha names."""
        sha = self.refs.get(revision, revision)
        if sha not in self.commits:
            raise MissingError("RevisionNotFound")
        return sha

    def commit(
        self, files: Files, ref: str, title: str = "", description: str = "", parent: str = ""
    ) -> str:
        """Moves a ref to a new commit of exactly these files; returns its sha."""
        digest = hashlib.sha1(f"{self.name} {len(self.commits)}".encode())
        for path in sorted(files):
            digest.update(path.encode() + b"\0" + files[path])
            if is_large(path, len(files[path])):
                self.blobs[sha256(files[path])] = files[path]
        sha = digest.hexdigest()
        self.commits[sha] = dict(files)
        self.refs[ref] = sha
        self.log.append(Commit(sha, ref, title, description, parent))
        return sha

    def pulls(self) -> dict[str, str]:
        """The pull requests: refs/pr/N → sha."""
        return {ref: sha for ref, sha in self.refs.items() if ref.startswith(_PULL)}


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
        status: answered instead of the real reply; the request is not carried out.
        delay: seconds to wait before the reply.
        truncate: so many bytes of the body are sent, then the connection breaks.
        times: how often, None for always.
        after: the request is carried out first; then `status` is answered, or without a status the
            connection is cut before any reply.
        content: the body that is sent. Content-Length and X-Linked-Size give its real length,
            while ETag and X-Linked-ETag stay those of the real content.
        headers: sent besides, or instead of those of the same name (`{"Retry-After": "1"}`).
    """

    when: Callable[[str, str], bool]
    status: int | None = None
    delay: float = 0.0
    truncate: int | None = None
    times: int | None = None
    after: bool = False
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def cuts(self) -> bool:
        """Whether no reply is sent at all."""
        return self.after and self.status is None

    def change(self, reply: Reply) -> Reply:
        """What is sent instead of a reply."""
        if self.status is not None:
            reply = Reply(self.status, b'{"error": "injected"}')
        if self.content is not None:
            reply.body = self.content
            if "X-Linked-Size" in reply.headers:
                reply.headers["X-Linked-Size"] = str(len(self.content))
        reply.headers |= self.headers
        return reply


class RefusedError(Exception):
    """Answered with a status, a message, and the code by which the client tells what it is."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        self.reply = json_reply({"error": message}, status, {"X-Error-Message": message} | extra)


class MissingError(RefusedError):
    """Answered 404."""

    def __init__(self, code: str, commit: str | None = None, message: str = "") -> None:
        found = {"X_Repo_Commit": commit} if commit else {}
        super().__init__(404, message or code, X_Error_Code=code, **found)


class HubServer:
    """The server; runs between `__enter__` and `__exit__`.

    Attributes:
        repos: (kind, `org/name`) → repo.
        faults: what goes wrong; the first that applies counts.
        requests: "METHOD path" of everything asked for.
        unknown: the same, of what no route answers.
        tokens: those that may write and see private repos, None when no token is needed.
        user: whose the tokens are, and the namespace of repos made without one.
        lock: held while a repo changes.
    """

    def __init__(self) -> None:
        from hubwrite import WRITES  # which needs the classes of this module

        self.repos: dict[tuple[str, str], Repo] = {}
        self.faults: list[Fault] = []
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self.tokens: set[str] | None = None
        self.user = "user"
        self.lock = threading.Lock()
        self._routes = READS + WRITES
        self._folder = tempfile.TemporaryDirectory(prefix="hub-", ignore_cleanup_errors=True)
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
        self._folder.cleanup()

    def add(self, kind: Kind, name: str, files: Files, branch: str = "main") -> str:
        """Makes a commit that holds exactly these files; returns its sha."""
        repo = self.repos.setdefault((kind, name), Repo(f"{kind} {name}"))
        return repo.commit(files, branch)

    def web(self, kind: str, name: str) -> str:
        """The page of a repo."""
        return f"{self.url}/{'datasets/' if kind == 'dataset' else ''}{name}"

    def folder(self) -> Path:
        """A new folder, which is there as long as the server runs."""
        return Path(tempfile.mkdtemp(dir=self._folder.name))

    def repo(self, request: Request) -> Repo:
        """The repo that a request is about."""
        repo = self.repos.get((request.part["kind"] or "model", request.part["name"]))
        if repo is None or (repo.private and not self._known(request)):
            raise MissingError("RepoNotFound")
        return repo

    def check(self, request: Request) -> None:
        """Refuses what only the owner of a token may do."""
        if not self._known(request):
            raise RefusedError(401, "Invalid username or password.")

    def _known(self, request: Request) -> bool:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        return self.tokens is None or (scheme == "Bearer" and token in self.tokens)

    def answer(self, request: Request) -> tuple[Reply, Fault | None]:
        """The reply to a request, and what is to go wrong with it."""
        line = f"{request.method} {request.path}"
        with self._lock:
            self.requests.append(line)
            fault = self._fault(request)
        if fault is None:
            reply = self._carry_out(request)
        elif fault.status is None or fault.after:
            reply = fault.change(self._carry_out(request))
        else:
            reply = fault.change(Reply())
        return _ranged(reply, request.headers.get("range", "")), fault

    def _carry_out(self, request: Request) -> Reply:
        for methods, pattern, endpoint in self._routes:
            match = pattern.fullmatch(request.path)
            if match and request.method in methods:
                request.part = {k: unquote(v or "") for k, v in match.groupdict().items()}
                return self._call(endpoint, request)
        self.unknown.append(f"{request.method} {request.path}")
        return Reply(501, b'{"error": "not implemented"}')

    def _fault(self, request: Request) -> Fault | None:
        for fault in self.faults:
            if fault.times != 0 and fault.when(request.method, request.path):
                fault.times = None if fault.times is None else fault.times - 1
                return fault
        return None

    def _call(self, endpoint: "Endpoint", request: Request) -> Reply:
        try:
            if "authorization" in request.headers and not self._known(request):
                raise RefusedError(401, "Invalid credentials in Authorization header")
            return endpoint(self, request)
        except RefusedError as refused:
            return refused.reply


Endpoint = Callable[[HubServer, Request], Reply]
# Methods, path, endpoint. Paths are matched as they were sent: `%2F` within a revision is no slash.
Route = tuple[tuple[str, ...], re.Pattern[str], Endpoint]


def json_reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Reply:
    """A reply that holds JSON."""
    typed = {"Content-Type": "application/json"}
    return Reply(status, json.dumps(value).encode(), typed | (headers or {}))


def sha256(content: bytes) -> str:
    """The name of a large file."""
    return hashlib.sha256(content).hexdigest()


def git_oid(content: bytes) -> str:
    """The name of a regular file."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_large(path: str, size: int) -> bool:
    """Whether a file goes to large file storage."""
    return size > 0 and (path.endswith(BINARY) or size > REGULAR_BYTES)


def _described(path: str, content: bytes) -> dict[str, Any]:
    """A file's `oid` and `size`, and `lfs` if it is large; git then holds a pointer to it."""
    size = len(content)
    if not is_large(path, size):
        return {"oid": git_oid(content), "size": size}
    oid = sha256(content)
    spec = "https://git-lfs.github.com/spec/v1"
    pointer = f"version {spec}\noid sha256:{oid}\nsize {size}\n".encode()
    lfs = {"oid": oid, "size": size, "pointerSize": len(pointer)}
    return {"oid": git_oid(pointer), "size": size, "lfs": lfs}


def info(hub: HubServer, request: Request) -> Reply:
    """`repo_info`: the commit of a revision and its files, with `blobs` their sizes and hashes."""
    repo = hub.repo(request)
    sha = repo.sha(request.part.get("revision") or "main")
    siblings: list[dict[str, Any]] = [{"rfilename": path} for path in repo.commits[sha]]
    if "blobs" in request.query:
        for sibling, (path, content) in zip(siblings, repo.commits[sha].items(), strict=True):
            found = _described(path, content)
            sibling |= {"blobId": found.pop("oid")} | found
            if "lfs" in found:
                sibling["lfs"] = found["lfs"] | {"sha256": found["lfs"]["oid"]}
    found = {"id": request.part["name"], "sha": sha, "private": repo.private, "siblings": siblings}
    return json_reply(found | {"xetEnabled": True})  # by which a client before 1.0 chooses


def refs(hub: HubServer, request: Request) -> Reply:
    """`list_repo_refs`: the branches, and the pull requests if asked for."""
    repo = hub.repo(request)
    pulls = repo.pulls()
    branches = [
        {"name": name, "ref": f"refs/heads/{name}", "targetCommit": sha}
        for name, sha in repo.refs.items()
        if name not in pulls
    ]
    found: dict[str, Any] = {"branches": branches, "tags": [], "converts": []}
    if "include_prs" in request.query:
        named = [
            {"name": ref.removeprefix("refs/"), "ref": ref, "targetCommit": sha}
            for ref, sha in pulls.items()
        ]
        found["pullRequests"] = named
    return json_reply(found)


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
                yield {
                    "type": "directory",
                    "path": above,
                    "oid": git_oid(above.encode()),
                    "size": 0,
                }
        if recursive or len(parts) == 1:
            yield {"type": "file", "path": path} | _described(path, content)


def tree(hub: HubServer, request: Request) -> Reply:
    """`list_repo_tree`, in one page."""
    repo = hub.repo(request)
    sha = repo.sha(request.part["revision"])
    folder = request.part["path"]
    recursive = request.query.get("recursive", ["false"])[0].lower() == "true"
    entries = list(_entries(repo.commits[sha], folder, recursive))
    if folder and not entries:
        raise MissingError("EntryNotFound", sha)
    return json_reply(entries)


def paths_info(hub: HubServer, request: Request) -> Reply:
    """`get_paths_info`: those of the paths that exist."""
    repo = hub.repo(request)
    files = repo.commits[repo.sha(request.part["revision"])]
    wanted = parse_qs(request.body.decode()).get("paths", [])
    return json_reply([entry for entry in _entries(files, "", True) if entry["path"] in wanted])


def resolve(hub: HubServer, request: Request) -> Reply:
    """The content of a file, or a range of it. Large files are not served from elsewhere."""
    repo = hub.repo(request)
    sha = repo.sha(request.part["revision"])
    path = request.part["path"]
    content = repo.commits[sha].get(path)
    if content is None:
        raise MissingError("EntryNotFound", sha)
    headers = {"X-Repo-Commit": sha, "X-Linked-Size": str(len(content)), "Accept-Ranges": "bytes"}
    if is_large(path, len(content)):
        headers |= {"ETag": f'"{sha256(content)}"', "X-Linked-ETag": f'"{sha256(content)}"'}
    else:
        headers["ETag"] = f'"{git_oid(content)}"'
    return Reply(200, content, headers)


def _ranged(reply: Reply, wanted: str) -> Reply:
    """The part of a reply that a `Range` header asks for."""
    match = _RANGE.fullmatch(wanted)
    if match is None or reply.status != 200 or "Accept-Ranges" not in reply.headers:
        return reply
    first, last, size = match[1], match[2], len(reply.body)
    start = int(first) if first else max(size - int(last), 0)
    stop = min(int(last) + 1, size) if first and last else size
    if start >= stop:
        return Reply(416, b"", reply.headers | {"Content-Range": f"bytes */{size}"})
    place = {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}
    return Reply(206, reply.body[start:stop], reply.headers | place)


READS: list[Route] = [
    (("GET",), re.compile(API), info),
    (("GET",), re.compile(rf"{API}/revision/{REVISION}"), info),
    (("GET",), re.compile(rf"{API}/refs"), refs),
    (("GET",), re.compile(rf"{API}/tree/{REVISION}(/(?P<path>.+))?"), tree),
    (("POST",), re.compile(rf"{API}/paths-info/{REVISION}"), paths_info),
    (
        ("GET", "HEAD"),
        re.compile(rf"/((?P<kind>dataset)s/)?{NAME}/resolve/{REVISION}/(?P<path>.+)"),
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
    disable_nagle_algorithm = True  # or every reply waits 40 ms for the acknowledgement of its head
    server: _Server

    def _serve(self) -> None:
        body = self._body()
        url = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, url.path, parse_qs(url.query), headers, body)
        reply, fault = self.server.hub.answer(request)
        if fault:
            time.sleep(fault.delay)
        if fault and fault.cuts:
            self.close_connection = True
            return
        self._send(reply, fault.truncate if fault else None)

    # The names that http.server looks for.
    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

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
