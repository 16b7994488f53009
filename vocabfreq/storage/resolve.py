"""A path, or `owner/name[@revision]` on the Hub → local files. The Hub client loads only if needed.

A file that a repo does not have is one thing, a Hub that cannot be asked is another: only the
first is an answer. Every error of the client becomes one of ours, in one or two lines.

Where a file is: a local path, or `owner/repo/file[@revision]` on the Hub.

A path that looks local never becomes a download: one that exists, that begins with `.`, `/` or
`~`, that lies in a folder that exists, or whose first two parts cannot be a repo. A `Path` object
is always local.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from vocabfreq.errors import FileFormatError, SourceError, VocabfreqError, first_line
from vocabfreq.storage.manifest import MANIFEST, leaves_folder, limit_of, read_manifest, sha256_of

RepoType = Literal["model", "dataset"]
LISTED = 8

# What engines and the library take ids from: compared with a manifest wherever there is one.
_COUNTED = re.compile(r"vocab_freq\.safetensors|freq_\d+\.pt")

_REPO = re.compile(r"^(?P<repo>[\w][\w.-]*/[\w][\w.-]*)(@(?P<revision>[\w./-]+))?$")
_FILE = re.compile(
    r"\.(jsonl|ndjson|json|parquet|arrow|feather|orc|avro|csv|tsv|txt|md|rst|py|xml|html?|ya?ml"
    r"|h5|hdf5|pkl|npy|npz|pt|bin|safetensors|gguf|zip|tar|tgz|7z|gz|zst|bz2|xz|lz4|log)$",
    re.IGNORECASE,
)
_WORDS: dict[RepoType, tuple[str, str]] = {
    "model": ("no model repo {!r} on the Hub, and no such folder", "owner/name[@revision]"),
    "dataset": (
        "no data set {!r} on the Hub, and no such file",
        "org/name[:config][:split][@revision]",
    ),
}


@dataclass(frozen=True)
class Folder:
    """A local folder, or a Hub repo of which single files are fetched when asked for.

    Attributes:
        name: what may be published: the folder's base name, or the repo id.
        root: the local folder, None for a repo.
        repo: the repo id, None for a folder.
        revision: the commit, None for a folder.
        error: what is raised when the Hub cannot be asked.
    """

    name: str
    root: Path | None = None
    repo: str | None = None
    revision: str | None = None
    error: type[VocabfreqError] = SourceError

    def file(self, name: str) -> Path | None:
        """A local path of one file in it, None when it has no such file.

        Raises:
            VocabfreqError: of the class `error`, when it cannot be told or fetched.
        """
        if self.root is not None:
            path = self.root / name
            return path if path.is_file() else None
        if leaves_folder(name):
            raise self.error(f"file {name!r} of {self.repo}", expected="a name inside the repo")
        fetched = self._fetched(name)
        if fetched is not None and _COUNTED.fullmatch(name):
            self.compare(fetched, name)
        return fetched

    def _fetched(self, name: str) -> Path | None:
        return _download(str(self.repo), str(self.revision), name, self.error)

    def compare(self, path: Path, name: str) -> None:
        """The client checks the length of what it fetched; the manifest says what is in it.

        Raises:
            VocabfreqError: of the class `error`: there is a manifest, and it says something else.
        """
        manifest = self._fetched(MANIFEST)
        if manifest is None:  # not a repo of ours
            return
        wanted, found = read_manifest(manifest).get(name), sha256_of(path)
        if wanted is None:
            raise self.error(f"the {MANIFEST} of {self.repo} does not name {name}")
        if found != wanted:
            blob = path.resolve()
            path.unlink(missing_ok=True)
            blob.unlink(missing_ok=True)  # else the client would take it again
            raise self.error(
                f"{self.repo}/{name} has sha256 {found}",
                expected=f"{wanted}, by the {MANIFEST} of commit {self.revision}",
                hint="it was changed or damaged on the way; it is out of the cache, try again",
            )


def is_repo_name(name: str) -> bool:
    """Whether a name can be that of a repo, `owner/name`."""
    match = _REPO.fullmatch(name)
    odd = ".." in name or name.endswith((".git", ".", "-")) or len(name) > 96
    return match is not None and match["revision"] is None and not odd


def looks_like_file(name: str) -> bool:
    """Whether a name ends as files do; then it is never looked for on the Hub."""
    return bool(_FILE.search(name))


def looks_like_repo(spec: str) -> bool:
    """Whether a spec can be a Hub repo. What exists locally, or looks local, never is."""
    if spec.startswith((".", "/", "~")) or os.path.exists(spec):
        return False
    match = _REPO.match(spec)
    return match is not None and not looks_like_file(match["repo"])


def open_folder(spec: str, error: type[VocabfreqError] = SourceError) -> Folder:
    """Opens a local folder or a Hub repo, whose revision is resolved to a commit once.

    Raises:
        VocabfreqError: of the given class, when it is neither.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        return Folder(path.resolve().name, root=path)
    match = _REPO.match(spec)
    if match is None or not looks_like_repo(spec):
        raise error(
            f"no {'file' if looks_like_file(spec) else 'folder'} {spec!r}",
            expected="a folder, or owner/name[@revision] on the Hugging Face Hub",
        )
    repo = match["repo"]
    commit = commit_of(repo, match["revision"], "model", error)
    return Folder(repo, repo=repo, revision=commit, error=error)


def commit_of(
    repo: str, revision: str | None, kind: RepoType, error: type[VocabfreqError] = SourceError
) -> str:
    """The commit that a branch, a tag or a commit of a repo stands for (None: its main branch).

    Raises:
        VocabfreqError: of the given class, when there is none or the Hub cannot be asked.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    wrong, expected = _WORDS[kind]
    try:
        return str(HfApi().repo_info(repo, revision=revision, repo_type=kind).sha)
    except OfflineModeIsEnabled:
        return _cached_commit(repo, revision, kind, error)
    except GatedRepoError:
        raise error(
            f"{repo!r} is gated on the Hub",
            hint=f"ask for access on its page, then log in (hf auth login): {repo}",
        ) from None
    except RepositoryNotFoundError:
        hint = "check the name; a private one needs a login (hf auth login)"
        raise error(wrong.format(repo), expected=f"a path, or {expected}", hint=hint) from None
    except RevisionNotFoundError:
        there = listed(_refs(repo, kind)) or "a branch, a tag or a commit"
        raise error(
            f"{repo!r} has no revision {revision!r}", expected=f"a commit, or one of {there}"
        ) from None
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable(repo, failure, error) from None


def unreachable(repo: str, failure: BaseException, error: type[VocabfreqError]) -> VocabfreqError:
    """The error for a Hub that does not answer, or not as it should."""
    return error(
        f"cannot get {repo!r} from the Hub: {first_line(failure)}",
        hint="check the network and the login (hf auth login), or give local files",
    )


def listed(names: list[str]) -> str:
    """The first few of some names, for a message."""
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(map(repr, names[:LISTED])) + more


def _refs(repo: str, kind: RepoType) -> list[str]:
    from huggingface_hub import HfApi

    try:
        refs = HfApi().list_repo_refs(repo, repo_type=kind)
    except Exception:  # only helps the message of another error
        return []
    return [ref.name for ref in [*refs.branches, *refs.tags]]


def _cached_commit(
    repo: str, revision: str | None, kind: RepoType, error: type[VocabfreqError]
) -> str:
    """Without a network, the commit that the local cache has for a revision."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # Patterns that match nothing: wanted is only the folder, which is named by the commit.
        folder: Any = snapshot_download(
            repo, repo_type=kind, revision=revision, local_files_only=True, allow_patterns=[]
        )
    except LocalEntryNotFoundError:
        raise error(
            f"{repo!r} at {revision or 'main'!r} is not in the local cache",
            hint="HF_HUB_OFFLINE is set: name a commit that is there (@…), or give local files",
        ) from None
    return Path(folder).name


def _download(repo: str, revision: str, name: str, error: type[VocabfreqError]) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        _check_size(repo, revision, name, error)
        return Path(hf_hub_download(repo, name, revision=revision))
    except VocabfreqError:
        raise
    except LocalEntryNotFoundError as failure:  # the Hub did not answer, and the cache has no copy
        if _known_missing(repo, revision, name):
            return None
        raise unreachable(f"{repo}/{name}", failure.__cause__ or failure, error) from None
    except EntryNotFoundError:
        return None
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable(f"{repo}/{name}", failure, error) from None


def _check_size(repo: str, revision: str, name: str, error: type[VocabfreqError]) -> None:
    """Asks for the size before fetching; what is in the cache has been looked at."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    known = try_to_load_from_cache(repo, name, revision=revision)
    if known is not None or constants.HF_HUB_OFFLINE:
        return
    size = None
    with suppress(Exception):  # whatever is wrong, the download waits it out or says it better
        size = get_hf_file_metadata(hf_hub_url(repo, name, revision=revision)).size
    if size is not None and size > limit_of(name):
        raise error(
            f"{repo}/{name} has {size:,} bytes",
            expected=f"at most {limit_of(name):,} of such a file; nothing was fetched",
        )


def _known_missing(repo: str, revision: str, name: str) -> bool:
    """Whether the cache remembers that this commit has no such file."""
    from huggingface_hub import _CACHED_NO_EXIST, try_to_load_from_cache

    return try_to_load_from_cache(repo, name, revision=revision) is _CACHED_NO_EXIST


_ADDRESS = re.compile(
    r"^(?P<repo>\w[\w.-]*/\w[\w.-]*)(/(?P<file>[^@]+))?(@(?P<revision>[\w./-]+))?$"
)


@dataclass(frozen=True)
class Place:
    """A file, or a folder of files that belong together.

    Attributes:
        folder: the folder or repo.
        name: of the file in it, None for the folder as a whole.
    """

    folder: Folder
    name: str | None = None

    @property
    def called(self) -> str:
        """The base name, for messages."""
        return self.folder.name if self.name is None else PurePosixPath(self.name).name

    @property
    def path(self) -> Path:
        """Local path of the file.

        Raises:
            FileFormatError: it is a folder, or there is no such file.
        """
        if self.name is None:
            raise FileFormatError(f"{self.called} is a folder", expected="a file")
        path = self.folder.file(self.name)
        if path is None:
            raise FileFormatError(
                f"{self.folder.name} at {self.folder.revision} has no file {self.name!r}"
            )
        return path

    def beside(self, name: str) -> Path | None:
        """Local path of another file in the same folder, None when there is none."""
        inside = PurePosixPath(self.name or name).parent
        return self.folder.file(str(inside / name))

    def names(self, pattern: str) -> list[str]:
        """Names of local files that match a pattern, sorted; a repo is not listed."""
        root = self.folder.root
        return [] if root is None else sorted(p.name for p in root.glob(pattern))


def find(source: str | Path) -> Place:
    """Finds a file or a folder; only what cannot be local is looked for on the Hub.

    Raises:
        FileFormatError: there is none.
    """
    path = Path(source).expanduser()
    if str(source) and path.is_dir():
        return Place(Folder(path.resolve().name, root=path))
    if path.is_file():
        return Place(Folder(path.resolve().parent.name, root=path.parent), path.name)
    address = None if isinstance(source, Path) else _ADDRESS.match(source)
    if address is None or not _is_remote(address):
        raise FileFormatError(
            f"no file {str(source)!r}", expected="a path, or owner/repo/file[@revision] on the Hub"
        )
    revision = f"@{address['revision']}" if address["revision"] else ""
    return Place(open_folder(address["repo"] + revision, FileFormatError), address["file"])


def _is_remote(address: re.Match[str]) -> bool:
    owner = address["repo"].partition("/")[0]
    parts = (address["file"] or "x").split("/")
    clean = all(part not in ("", ".", "..") for part in parts)
    return clean and looks_like_repo(address["repo"]) and not Path(owner).exists()
