"""The endpoints of `hubserver` by which a client writes.

Large files come by git LFS, or by Xet. For Xet the client is given a `local://` folder as storage:
hf_xet cuts the files into chunks, packs these, and leaves an index (a "shard") in which the sha256
of every file stands beside its Xet hash. When a commit names a sha256, the server looks there and
lets hf_xet put the file together again (`xet_read`), so that it serves what truly was uploaded.
"""

import base64
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hubserver import (
    API,
    NAME,
    REVISION,
    Files,
    HubServer,
    MissingError,
    RefusedError,
    Reply,
    Repo,
    Request,
    Route,
    git_oid,
    is_large,
    json_reply,
    sha256,
)

# The Hub makes this first commit of a new repo.
ATTRIBUTES = b"*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
_END = b"\xff" * 32  # ends the files of a shard
_READ = """
import sys
from hf_xet import XetFileInfo, XetSession
folder, *files = sys.argv[1:]
group = XetSession().new_download_stream_group(endpoint=f"local://{folder}")
for name, size in zip(files[::2], files[1::2]):
    for part in group.download_stream(XetFileInfo(name, int(size))):
        sys.stdout.buffer.write(part)
"""


def whoami(hub: HubServer, request: Request) -> Reply:
    """`whoami`: the user, whose every token may write."""
    hub.check(request)
    token = {"displayName": "test", "role": "write"}
    reply = {"type": "user", "id": "0" * 24, "name": hub.user, "fullname": hub.user, "orgs": []}
    return json_reply(reply | {"auth": {"type": "access_token", "accessToken": token}})


def create_repo(hub: HubServer, request: Request) -> Reply:
    """`create_repo`: makes an empty repo but for .gitattributes; 409 if it exists."""
    hub.check(request)
    asked = json.loads(request.body)
    kind = asked.get("type") or "model"
    if kind not in ("model", "dataset"):
        raise RefusedError(400, f"no repos of type {kind!r} here")
    name = f"{asked.get('organization') or hub.user}/{asked['name']}"
    reply = {"url": hub.web(kind, name), "name": name}
    with hub.lock:
        if (kind, name) in hub.repos:
            error = f"You already created this {kind} repo"
            return json_reply(reply | {"error": error}, 409, {"X-Error-Message": error})
        private = bool(asked.get("private")) or asked.get("visibility") == "private"
        repo = hub.repos[kind, name] = Repo(f"{kind} {name}", private)
        repo.commit({".gitattributes": ATTRIBUTES}, "main", "initial commit")
    return json_reply(reply)


def create_branch(hub: HubServer, request: Request) -> Reply:
    """`create_branch`; 409 if it exists."""
    hub.check(request)
    repo, branch = hub.repo(request), request.part["revision"]
    asked = json.loads(request.body or b"{}")
    with hub.lock:
        if branch in repo.refs:
            raise RefusedError(409, f"Reference already exists: refs/heads/{branch}")
        repo.refs[branch] = repo.sha(asked.get("startingPoint") or "main")
    return json_reply({"success": True})


def validate_yaml(hub: HubServer, request: Request) -> Reply:
    """Finds no fault with any card."""
    return json_reply({"errors": [], "warnings": []})


def preupload(hub: HubServer, request: Request) -> Reply:
    """For each file whether it is large, and the name of what is there, to tell a change by."""
    hub.check(request)
    repo = hub.repo(request)
    present = repo.commits[repo.sha(request.part["revision"])]
    return json_reply(
        {"files": [_mode(file, present) for file in json.loads(request.body)["files"]]}
    )


def _mode(file: dict[str, Any], present: Files) -> dict[str, Any]:
    path = file["path"]
    large = is_large(path, file["size"])
    reply = {"path": path, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
    there = present.get(path)
    if there is not None and is_large(path, len(there)) == large:
        reply["oid"] = sha256(there) if large else git_oid(there)
    return reply


def commit(hub: HubServer, request: Request) -> Reply:
    """`create_commit`: all of it or nothing; 412 if the branch is no longer at `parentCommit`."""
    hub.check(request)
    repo, ref = hub.repo(request), request.part["revision"]
    lines = [json.loads(line) for line in request.body.split(b"\n") if line.strip()]
    if not lines or lines[0].get("key") != "header" or not lines[0]["value"].get("summary"):
        raise RefusedError(400, "A commit starts with a header that has a summary")
    header = lines[0]["value"]
    parent = header.get("parentCommit") or ""
    pull = "1" in request.query.get("create_pr", [])
    with hub.lock:
        head = repo.sha(parent if pull and parent else ref)
        if not pull and ref not in repo.refs:
            raise MissingError("RevisionNotFound", message="Commits go to a branch")
        if not head.startswith(parent):
            raise RefusedError(412, "A commit has happened since. Please refresh and try again.")
        files = dict(repo.commits[head])
        for line in lines[1:]:
            _apply(repo, files, line["key"], line["value"])
        number = len(repo.pulls()) + 1
        ref = f"refs/pr/{number}" if pull else ref
        sha = repo.commit(files, ref, header["summary"], header.get("description") or "", head)
    page = hub.web(request.part["kind"], request.part["name"])
    reply = {
        "success": True,
        "commitOid": sha,
        "commitUrl": f"{page}/commit/{sha}",
        "hookOutput": "",
    }
    if pull:
        reply["pullRequestUrl"] = f"{page}/discussions/{number}"
    return json_reply(reply)


def _apply(repo: Repo, files: Files, action: str, value: dict[str, Any]) -> None:
    path: str = value["path"]
    if action == "file":
        files[path] = base64.b64decode(value["content"], validate=True)
    elif action == "lfsFile":
        content = _blob(repo, value["oid"])
        if content is None or len(content) != value.get("size", len(content)):
            raise RefusedError(400, f"The large file {path} was not uploaded")
        files[path] = content
    elif action == "deletedFile" and path in files:
        del files[path]
    elif action == "deletedFolder" and (inside := [p for p in files if p.startswith(f"{path}/")]):
        for name in inside:
            del files[name]
    elif action in ("deletedFile", "deletedFolder"):
        raise MissingError("EntryNotFound", message="A file with this name doesn't exist")
    else:
        raise RefusedError(400, f"Unknown operation {action}")


def _blob(repo: Repo, oid: str) -> bytes | None:
    """A large file that was uploaded by LFS, or else by Xet."""
    for folder in repo.xet:
        if oid not in repo.blobs:
            repo.blobs |= xet_read(folder, set(repo.blobs))
    return repo.blobs.get(oid)


def lfs_batch(hub: HubServer, request: Request) -> Reply:
    """Where to upload large files, but for those that are here. A client of 1.x may ask for Xet."""
    hub.check(request)
    repo = hub.repo(request)
    asked = json.loads(request.body)
    place = f"{hub.url}{request.path.removesuffix('/batch')}"
    objects = []
    for large in asked["objects"]:
        reply = {"oid": large["oid"], "size": large["size"]}
        if large["oid"] not in repo.blobs:
            upload, verify = {"href": f"{place}/{large['oid']}"}, {"href": f"{place}/verify"}
            reply["actions"] = {"upload": upload, "verify": verify}
        objects.append(reply)
    transfer = "xet" if "xet" in asked.get("transfers", []) else "basic"
    reply = {"transfer": transfer, "objects": objects, "hash_algo": "sha256"}
    return json_reply(reply, headers={"Content-Type": "application/vnd.git-lfs+json"})


def lfs_upload(hub: HubServer, request: Request) -> Reply:
    """Takes a large file. The client sends no token along: on the Hub the address is signed."""
    if sha256(request.body) != request.part["oid"]:
        raise RefusedError(400, "The content does not match its sha256")
    hub.repo(request).blobs[request.part["oid"]] = request.body
    return Reply()


def lfs_verify(hub: HubServer, request: Request) -> Reply:
    """Tells whether a large file has arrived."""
    hub.check(request)
    asked = json.loads(request.body)
    content = hub.repo(request).blobs.get(asked["oid"])
    if content is None or len(content) != asked["size"]:
        raise RefusedError(404, "Object not found")
    return json_reply({})


def xet_token(hub: HubServer, request: Request) -> Reply:
    """Where hf_xet is to store: a folder of its own for every upload, as it locks its database."""
    hub.check(request)
    repo = hub.repo(request)
    if "create_pr" not in request.query:
        repo.sha(request.part["revision"])
    folder = hub.folder()
    repo.xet.append(folder)
    reply: dict[str, Any] = {"accessToken": "xet", "exp": int(time.time()) + 3600}
    reply["casUrl"] = f"local://{folder}"
    # The client up to 1.x reads headers, later hf_xet reads the body.
    headers = {"X-Xet-Cas-Url": reply["casUrl"], "X-Xet-Access-Token": "xet"}
    return json_reply(reply, headers=headers | {"X-Xet-Token-Expiration": str(reply["exp"])})


def xet_files(shard: bytes) -> Iterator[tuple[str, str, int]]:
    """The sha256, Xet hash and size of the files in a shard.

    It starts with a header of 48 bytes. Everything that follows is also 48 bytes long: for each
    file its Xet hash (32), flags and number of segments; the segments, whose length stands at 36;
    as many hashes to verify them if flag 31 is set; and with flag 30 the sha256.
    """
    at = 48
    while shard[at : at + 32] != _END:
        flags, segments = struct.unpack_from("<II", shard, at + 32)
        lengths = [
            struct.unpack_from("<I", shard, at + 48 * n + 36)[0] for n in range(1, segments + 1)
        ]
        last = at + 48 * (segments * (2 if flags >> 31 else 1) + 1)
        if flags >> 30 & 1:
            yield _hex(shard[last : last + 32]), _hex(shard[at : at + 32]), sum(lengths)
            last += 48
        at = last


def _hex(name: bytes) -> str:
    """Xet writes hashes as four little-endian numbers."""
    return "".join(name[n : n + 8][::-1].hex() for n in range(0, 32, 8))


def xet_read(folder: Path, known: set[str]) -> dict[str, bytes]:
    """The files that hf_xet stored in a folder, but for those known: sha256 → content.

    hf_xet reads them, from a copy: the client may hold the lock of the folder's database still. In
    a process of its own, as it keeps threads, and logs below HF_HOME. What it does not find comes
    out empty, so everything is checked.
    """
    shards = [shard.read_bytes() for shard in folder.rglob("shards/*.mdb")]
    files = [file for shard in shards for file in xet_files(shard) if file[0] not in known]
    if not files:
        return {}
    wanted = [word for _, name, size in files for word in (name, str(size))]
    with tempfile.TemporaryDirectory() as home:
        copy = shutil.copytree(folder, Path(home, "copy"))
        command = [sys.executable, "-c", _READ, str(copy), *wanted]
        content = io.BytesIO(subprocess.check_output(command, env=os.environ | {"HF_HOME": home}))
    found = {oid: content.read(size) for oid, _, size in files}
    return {oid: part for oid, part in found.items() if sha256(part) == oid}


_LFS = rf"/((?P<kind>dataset)s/)?{NAME}\.git/info/lfs/objects"
WRITES: list[Route] = [
    (("GET",), re.compile("/api/whoami-v2"), whoami),
    (("POST",), re.compile("/api/repos/create"), create_repo),
    (("POST",), re.compile("/api/validate-yaml"), validate_yaml),
    (("POST",), re.compile(rf"{API}/branch/{REVISION}"), create_branch),
    (("POST",), re.compile(rf"{API}/preupload/{REVISION}"), preupload),
    (("POST",), re.compile(rf"{API}/commit/{REVISION}"), commit),
    (("GET",), re.compile(rf"{API}/xet-write-token/{REVISION}"), xet_token),
    (("POST",), re.compile(rf"{_LFS}/batch"), lfs_batch),
    (("POST",), re.compile(rf"{_LFS}/verify"), lfs_verify),
    (("PUT",), re.compile(rf"{_LFS}/(?P<oid>[0-9a-f]{{64}})"), lfs_upload),
]
