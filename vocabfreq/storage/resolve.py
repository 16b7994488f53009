"""Resolves a path, or `owner/name[/file][@revision]` on the Hub, to checked local files.

What looks local is never downloaded: a path that exists, that begins with `.`, `/` or `~`, or
whose first two parts cannot name a repo. A `Path` object is always local. A repo's revision is
resolved to a commit once, and files that ids are read from are compared with its `SHA256SUMS`.

The Hub client is imported when it is first needed. A file that a repo does not have gives None; a
Hub that does not answer gives an error of the class that the caller chose.
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from vocabfreq.errors import FileFormatError, SourceError, VocabfreqError, first_line
from vocabfreq.storage.manifest import (
    MANIFEST,
    file_sha256,
    leaves_folder,
    read_manifest,
    size_limit,
)

RepoType = Literal["model", "dataset"]
MAX_NAMES = 8  # in one message

# Files that engines and the library read ids from.
_VERIFIED = re.compile(r"vocab_freq\.safetensors|freq_\d+\.pt")

_NAME = r"(?P<repo>\w[\w.-]*/\w[\w.-]*)"
_REVISION = r"(@(?P<revision>[\w./-]+))?"
_REPO = re.compile(_NAME + _REVISION)
_REPO_FILE = re.compile(rf"{_NAME}(/(?P<file>[^@]+))?{_REVISION}")
_FILE = re.compile(
    r"\.(jsonl|ndjson|json|parquet|arrow|feather|orc|avro|csv|tsv|txt|md|rst|py|xml|html?|ya?ml"
    r"|h5|hdf5|pkl|npy|npz|pt|bin|safetensors|gguf|zip|tar|tgz|7z|gz|zst|bz2|xz|lz4|log)$",
    re.IGNORECASE,
)
_NOT_FOUND: dict[RepoType, tuple[str, str]] = {
    "model": ("no model repo {!r} on the Hub, and no such folder", "owner/name[@revision]"),
    "dataset": (
        "no data set {!r} on the Hub, and no such file",
        "org/name[:config][:split][@revision]",
    ),
}


@dataclass(frozen=True)
class Folder:
    """A local folder, or a Hub repo whose files are downloaded one by one when needed.

    Attributes:
        name: the folder's base name, or the repo id; never a local path.
        root: the local folder, None for a repo.
        repo: the repo id, None for a folder.
        revision: the commit, None for a folder.
        error: class of the error when the Hub does not answer.
    """

    name: str
    root: Path | None = None
    repo: str | None = None
    revision: str | None = None
    error: type[VocabfreqError] = SourceError

    def file(self, name: str) -> Path | None:
        """Local path of a file in the folder, None when the folder has no such file.

        Raises:
            VocabfreqError: of the class `error`, when the file cannot be downloaded, or differs
                from the manifest.
        """
        if self.root is not None:
            path = self.root / name
            return path if path.is_file() else None
        if leaves_folder(name):
            raise self.error(f"file {name!r} of {self.repo}", expected="a name inside the repo")
        downloaded = self._download(name)
        if downloaded is not None and _VERIFIED.fullmatch(name):
            self.verify(downloaded, name)
        return downloaded

    def _download(self, name: str) -> Path | None:
        return _download(str(self.repo), str(self.revision), name, self.error)

    def verify(self, path: Path, name: str) -> None:
        """Compares a downloaded file with the manifest; the client checks only its length.

        Raises:
            VocabfreqError: of the class `error`: the manifest names another sha256, or not the
                file. A repo without a manifest is not checked.
        """
        manifest = self._download(MANIFEST)
        if manifest is None:  # the repo was not made by vocabfreq push
            return
        wanted, found = read_manifest(manifest).get(name), file_sha256(path)
        if wanted is None:
            raise self.error(f"the {MANIFEST} of {self.repo} does not name {name}")
        if found != wanted:
            blob = path.resolve()
            path.unlink(missing_ok=True)
            blob.unlink(missing_ok=True)  # else the client would return it again
            raise self.error(
                f"{self.repo}/{name} has sha256 {found}",
                expected=f"{wanted}, by the {MANIFEST} of commit {self.revision}",
                hint="it was changed or damaged on the way; it is out of the cache, try again",
            )


@dataclass(frozen=True)
class Location:
    """A file in a folder or repo, or the folder itself.

    Attributes:
        folder: the folder or repo.
        name: of the file in it, None for the folder itself.
    """

    folder: Folder
    name: str | None = None

    @property
    def display_name(self) -> str:
        """The base name, for messages."""
        return self.folder.name if self.name is None else PurePosixPath(self.name).name

    @property
    def path(self) -> Path:
        """Local path of the file.

        Raises:
            FileFormatError: it is a folder, or there is no such file.
        """
        if self.name is None:
            raise FileFormatError(f"{self.display_name} is a folder", expected="a file")
        path = self.folder.file(self.name)
        if path is None:
            raise FileFormatError(
                f"{self.folder.name} at {self.folder.revision} has no file {self.name!r}"
            )
        return path

    def sibling(self, name: str) -> Path | None:
        """Local path of another file in the same folder, None when there is none."""
        inside = PurePosixPath(self.name or name).parent
        return self.folder.file(str(inside / name))

    def glob(self, pattern: str) -> list[str]:
        """Sorted names of the files of a local folder that match a pattern; [] for a repo."""
        root = self.folder.root
        return [] if root is None else sorted(p.name for p in root.glob(pattern))


def open_folder(spec: str, error: type[VocabfreqError] = SourceError) -> Folder:
    """Opens a local folder or a Hub repo.

    Raises:
        VocabfreqError: of the given class, when `spec` is neither.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        return Folder(path.resolve().name, root=path)
    match = _REPO.fullmatch(spec)
    if match is None or not looks_like_repo(spec):
        raise error(
            f"no {'file' if looks_like_file(spec) else 'folder'} {spec!r}",
            expected="a folder, or owner/name[@revision] on the Hugging Face Hub",
        )
    repo = match["repo"]
    commit = resolve_commit(repo, match["revision"], "model", error)
    return Folder(repo, repo=repo, revision=commit, error=error)


def locate(source: str | Path) -> Location:
    """Finds a file or a folder; only what cannot be local is looked for on the Hub.

    Raises:
        FileFormatError: there is none.
    """
    path = Path(source).expanduser()
    if str(source) and path.is_dir():
        return Location(open_folder(str(path), FileFormatError))
    if path.is_file():
        return Location(Folder(path.resolve().parent.name, root=path.parent), path.name)
    match = None if isinstance(source, Path) else _REPO_FILE.fullmatch(source)
    if match is None or not _is_remote(match):
        raise FileFormatError(
            f"no file {str(source)!r}", expected="a path, or owner/repo/file[@revision] on the Hub"
        )
    revision = f"@{match['revision']}" if match["revision"] else ""
    return Location(open_folder(match["repo"] + revision, FileFormatError), match["file"])


def _is_remote(match: re.Match[str]) -> bool:
    """Whether nothing local has the first part of the path, and no part leads elsewhere."""
    owner = match["repo"].partition("/")[0]
    parts = (match["file"] or "x").split("/")
    clean = all(part not in ("", ".", "..") for part in parts)
    return clean and looks_like_repo(match["repo"]) and not Path(owner).exists()


def looks_like_repo(spec: str) -> bool:
    """Whether a spec can be a Hub repo. What exists locally, or looks local, cannot."""
    if spec.startswith((".", "/", "~")) or os.path.exists(spec):
        return False
    match = _REPO.fullmatch(spec)
    return match is not None and not looks_like_file(match["repo"])


def looks_like_file(name: str) -> bool:
    """Whether a name has the ending of a file; such a name is never looked for on the Hub."""
    return bool(_FILE.search(name))


def is_repo_name(name: str) -> bool:
    """Whether the Hub accepts a name for a repo, `owner/name`."""
    odd = ".." in name or name.endswith((".git", ".", "-")) or len(name) > 96
    return re.fullmatch(_NAME, name) is not None and not odd


def resolve_commit(
    repo: str, revision: str | None, kind: RepoType, error: type[VocabfreqError] = SourceError
) -> str:
    """The commit of a branch, a tag or a commit of a repo (None: its main branch).

    Raises:
        VocabfreqError: of the given class, when there is none or the Hub does not answer.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    wrong, expected = _NOT_FOUND[kind]
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
        known = quote_names(_refs(repo, kind)) or "a branch, a tag or a commit"
        raise error(
            f"{repo!r} has no revision {revision!r}", expected=f"a commit, or one of {known}"
        ) from None
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable_error(repo, failure, error) from None


def unreachable_error(
    repo: str, failure: BaseException, error: type[VocabfreqError]
) -> VocabfreqError:
    """The error for a Hub that does not answer, or answers with a failure."""
    return error(
        f"cannot get {repo!r} from the Hub: {first_line(failure)}",
        hint="check the network and the login (hf auth login), or give local files",
    )


def quote_names(names: list[str]) -> str:
    """The first few names, quoted, for a message."""
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(map(repr, names[:MAX_NAMES])) + more


def _refs(repo: str, kind: RepoType) -> list[str]:
    from huggingface_hub import HfApi

    try:
        refs = HfApi().list_repo_refs(repo, repo_type=kind)
    except Exception:  # the names only improve the message of another error
        return []
    return [ref.name for ref in [*refs.branches, *refs.tags]]


def _cached_commit(
    repo: str, revision: str | None, kind: RepoType, error: type[VocabfreqError]
) -> str:
    """The commit that the local cache has for a revision, without a network."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        # No file is needed, only the folder, whose name is the commit.
        folder: Any = snapshot_download(
            repo, repo_type=kind, revision=revision, local_files_only=True, allow_patterns=[]
        )
    except LocalEntryNotFoundError:
        raise error(
            f"{repo!r} at {revision or 'main'!r} is not in the local cache",
            hint="HF_HUB_OFFLINE is set: name a cached commit (@…), or give local files",
        ) from None
    return Path(folder).name


def _download(repo: str, revision: str, name: str, error: type[VocabfreqError]) -> Path | None:
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        _check_size(repo, revision, name, error)
        return Path(hf_hub_download(repo, name, revision=revision))
    except VocabfreqError:
        raise
    except LocalEntryNotFoundError as failure:  # the Hub did not answer, and the cache has no copy
        if try_to_load_from_cache(repo, name, revision=revision) is _CACHED_NO_EXIST:
            return None
        raise unreachable_error(f"{repo}/{name}", failure.__cause__ or failure, error) from None
    except EntryNotFoundError:
        return None
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable_error(f"{repo}/{name}", failure, error) from None


def _check_size(repo: str, revision: str, name: str, error: type[VocabfreqError]) -> None:
    """Checks the size before a download; cached files were checked when they were downloaded."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    cached = try_to_load_from_cache(repo, name, revision=revision)
    if cached is not None or constants.HF_HUB_OFFLINE:
        return
    size = None
    with suppress(Exception):  # the download that follows retries, or raises a better error
        size = get_hf_file_metadata(hf_hub_url(repo, name, revision=revision)).size
    if size is not None and size > size_limit(name):
        raise error(
            f"{repo}/{name} has {size:,} bytes",
            expected=f"at most {size_limit(name):,} for such a file; nothing was fetched",
        )
