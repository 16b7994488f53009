"""`push`: publishes a frequency file as a model repo, in one atomic commit.

Requests that fail for a moment (429, 5xx, a cut connection) are repeated. Before a commit is
repeated, the branch is compared with what was to be pushed, so that nothing is committed twice.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vocabfreq.errors import HubError, RefusedError, VocabfreqError, first_line
from vocabfreq.hub.card import CardInfo
from vocabfreq.hub.contents import Contents, contents_of
from vocabfreq.storage.manifest import MANIFEST, is_published
from vocabfreq.storage.resolve import is_repo_name

MESSAGE = "Publish token frequencies"
DELAYS = (1.0, 2.0, 4.0, 8.0)  # seconds before each retry
MAX_DELAY = 60.0  # of what a server may ask for
TRANSIENT_STATUS = (408, 425, 429, 500, 502, 503, 504)
HTTP_LIBRARIES = ("httpx", "httpx2", "httpcore", "requests")
LOGIN = "hf auth login with a token that may write, or set HF_TOKEN"
_BRANCH = re.compile(r"\w[\w-]*([./][\w-]+)*")
_SHA = re.compile(r"[0-9a-f]{40}")

T = TypeVar("T")


@dataclass(frozen=True)
class Pushed:
    """The state of the repo after a push.

    Attributes:
        repo: `owner/name`.
        commit: sha of the branch with these files, or of the pull request's.
        changed: whether a commit was made; False when all files were there already.
        url: page of the commit or pull request.
        files: name → bytes.
        remarks: what is missing, and why.
    """

    repo: str
    commit: str
    changed: bool
    url: str
    files: dict[str, int]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class PushOptions:
    """Where and how to push.

    Attributes:
        repo: `owner/name`, created if it does not exist.
        revision: a branch, created if it does not exist; None for main.
        create_pr: open a pull request instead of committing to the branch.
        private: for a new repo.
        message: of the commit.
    """

    repo: str
    revision: str | None = None
    create_pr: bool = False
    private: bool = False
    message: str = MESSAGE

    def __post_init__(self) -> None:
        """Checks the names.

        Raises:
            RefusedError: the repo or the branch has a name that the Hub does not allow.
        """
        if not is_repo_name(self.repo):
            raise RefusedError(f"repo {self.repo!r}", expected="owner/name on the Hugging Face Hub")
        branch = self.revision
        if branch is not None and (not _BRANCH.fullmatch(branch) or _SHA.fullmatch(branch)):
            raise RefusedError(f"revision {branch!r}", expected="the name of a branch")


def push(
    file: str | Path,
    repo: str | PushOptions,
    *,
    sizes: Sequence[int] | None = None,
    card_info: CardInfo | None = None,
) -> Pushed:
    """Publishes a frequency file as a model repo on the Hub.

    Args:
        file: a frequency file.
        repo: `owner/name`, or more options.
        sizes: values of K that get a token map; None for the default ones below V.
        card_info: what the card states beyond the file.

    Raises:
        HubError: no login, no right, a branch that moved, or a Hub that does not answer; nothing
            is committed twice.
        RefusedError: a name that the Hub does not allow, or a local path in the metadata.
        FileFormatError: it is no frequency file.
        SelectionError: a size cannot be selected.
    """
    options = repo if isinstance(repo, PushOptions) else PushOptions(repo)
    contents = contents_of(Path(file), card_info or CardInfo(options.repo), sizes)
    return upload(contents, options)


def upload(contents: Contents, options: PushOptions) -> Pushed:
    """Creates the repo if needed, and makes one commit.

    Raises:
        HubError: no login, no right, a branch that moved, or a Hub that does not answer.
        RefusedError: `private` for a public repo.
    """
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise HubError("not logged in to the Hugging Face Hub", hint=LOGIN)
    api = HfApi(library_name="vocabfreq")
    _create(api, options)
    parent = _branch_head(api, options)
    commit, url = _commit(api, contents, options, parent)
    sizes = {name: len(data) for name, data in contents.files.items()}
    return Pushed(options.repo, commit, commit != parent, url, sizes, contents.remarks)


def _create(api: Any, options: PushOptions) -> None:
    """Creates the repo and the branch if they do not exist; safe to repeat."""
    repo, branch = options.repo, options.revision
    if not _retry(lambda: api.repo_exists(repo), repo):
        arguments = {"private": options.private, "exist_ok": True}
        _retry(lambda: api.create_repo(repo, **arguments), repo, "create the repo")
    elif options.private and not _retry(lambda: api.repo_info(repo), repo).private:
        raise RefusedError(
            f"{repo!r} exists and is public",
            expected="a new repo, or a private one",
            hint="make it private on its page, or leave --private out",
        )
    if not branch or options.create_pr:  # a pull request needs a branch that exists
        return
    if not _retry(lambda: api.revision_exists(repo, branch), repo):
        create = lambda: api.create_branch(repo, branch=branch, exist_ok=True)  # noqa: E731
        _retry(create, repo, f"create the branch {branch!r} of")


def _branch_head(api: Any, options: PushOptions) -> str:
    """The commit of the branch."""
    repo, revision = options.repo, options.revision
    return str(_retry(lambda: api.repo_info(repo, revision=revision), repo).sha)


def _commit(api: Any, contents: Contents, options: PushOptions, parent: str) -> tuple[str, str]:
    """Makes one commit on top of `parent`; its sha and address.

    After a transient failure, the branch is read first: the commit may have been made although the
    answer was lost. `parent_commit` keeps other commits from being overwritten.
    """
    repo = options.repo
    answer_lost = False  # whether a commit of ours may exist although no answer confirmed it
    stale = _stale_files(api, contents, repo, parent)
    for attempt in range(len(DELAYS) + 1):
        try:
            made = _create_commit(api, contents, options, parent, stale)
            return str(made.oid), str(made.pr_url or _page(api, repo, made.oid))
        except VocabfreqError:
            raise
        except Exception as error:  # the client's errors share no base from version to version
            transient = _is_transient(error)
            if not transient and _status(error) != 412:
                raise _hub_error(error, repo, "push to") from None
            if options.create_pr and transient:
                raise HubError(
                    f"cannot tell whether the pull request was opened: {first_line(error)}",
                    hint=f"look at the discussions of {repo} before you push again",
                ) from None
            answer_lost, head = answer_lost or transient, _branch_head(api, options)
            if head != parent and _has_contents(api, contents, repo, head):
                return head, _page(api, repo, head)
            if head != parent:
                raise _branch_moved(repo, answer_lost) from None
            if not transient or attempt == len(DELAYS):
                raise _hub_error(error, repo, "push to") from None
            _wait(attempt, error)
    raise AssertionError


def _stale_files(api: Any, contents: Contents, repo: str, parent: str) -> list[str]:
    """Files of an earlier push that this one does not have, such as a token map of other counts."""
    names = _retry(lambda: api.list_repo_files(repo, revision=parent), repo)
    return sorted(name for name in names if is_published(name) and name not in contents.files)


def _create_commit(
    api: Any, contents: Contents, options: PushOptions, parent: str, stale: list[str]
) -> Any:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations: list[Any] = [
        CommitOperationAdd(path_in_repo=name, path_or_fileobj=data)
        for name, data in contents.files.items()
    ]
    operations += [CommitOperationDelete(path_in_repo=name) for name in stale]
    return api.create_commit(
        options.repo,
        operations,
        commit_message=options.message,
        revision=options.revision,
        create_pr=options.create_pr,
        parent_commit=parent,
    )


def _has_contents(api: Any, contents: Contents, repo: str, commit: str) -> bool:
    """Whether a commit holds exactly what was to be pushed, by its manifest."""
    from huggingface_hub.errors import EntryNotFoundError

    try:
        path = _retry(lambda: api.hf_hub_download(repo, MANIFEST, revision=commit), repo)
    except (EntryNotFoundError, HubError):
        return False
    return Path(path).read_bytes() == contents.files[MANIFEST]


def _branch_moved(repo: str, answer_lost: bool) -> HubError:
    if answer_lost:
        return HubError(
            f"{repo!r} was changed by somebody else while the Hub did not answer; it is unknown "
            "whether ours was committed before that",
            hint="look at its history, then push again",
        )
    return HubError(
        f"{repo!r} was changed by somebody else in the meantime; nothing was committed",
        hint="look at what changed, then push again",
    )


def _page(api: Any, repo: str, commit: str) -> str:
    return f"{api.endpoint}/{repo}/tree/{commit}"


def _retry(call: Callable[[], T], repo: str, action: str = "read") -> T:
    """Calls until it succeeds; only for requests that are safe to repeat.

    Raises:
        HubError: it failed for good, or still at the last retry; names the action.
    """
    for attempt in range(len(DELAYS) + 1):
        try:
            return call()
        except VocabfreqError:
            raise
        except Exception as error:  # the client's errors share no base from version to version
            if not _is_transient(error) or attempt == len(DELAYS):
                raise _hub_error(error, repo, action) from None
            _wait(attempt, error)
    raise AssertionError


def _status(error: BaseException) -> int | None:
    """HTTP status of an error of the client, None when there was no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later: a busy server, a cut connection."""
    status = _status(error)
    if status is not None:
        return status in TRANSIENT_STATUS
    if type(error).__name__ == "OfflineModeIsEnabled":
        return False
    library = type(error).__module__.partition(".")[0]
    return isinstance(error, ConnectionError | TimeoutError) or library in HTTP_LIBRARIES


def _wait(attempt: int, error: BaseException) -> None:
    """Waits as long as the server asks for, else longer with each attempt."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    retry_after = headers.get("Retry-After", "")
    seconds = float(retry_after) if retry_after.isdecimal() else DELAYS[attempt]
    time.sleep(min(seconds, MAX_DELAY))


def _hub_error(error: BaseException, repo: str, action: str) -> HubError:
    """Our error for one of the client; it holds nothing of a token."""
    status = _status(error)
    if status == 401:
        return HubError(f"the Hub does not accept the login (401): {action} {repo!r}", hint=LOGIN)
    if status == 403:
        return HubError(f"no right to {action} {repo!r} (403)", hint=LOGIN)
    if status == 412:
        return HubError(
            f"{repo!r} was changed by somebody else in the meantime (412); nothing was committed",
            hint="look at what changed, then push again",
        )
    hint = ""
    if _is_transient(error):
        hint = f"tried {len(DELAYS) + 1} times; push again later: nothing is committed twice"
    return HubError(f"cannot {action} {repo!r}: {first_line(error)}", hint=hint)
