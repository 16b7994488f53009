"""`push`: a frequency file becomes a repo, in one commit that is there whole or not at all.

What to do when the Hub does not answer as it should: again later, or say so in words.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vocabfreq.errors import HubError, RefusedError, VocabfreqError
from vocabfreq.hub.card import About
from vocabfreq.hub.contents import Contents, contents_of
from vocabfreq.storage.manifest import MANIFEST, is_published
from vocabfreq.storage.resolve import first_line, is_repo_name

DELAYS = (1.0, 2.0, 4.0, 8.0)  # seconds before each further try
LONGEST = 60.0  # of what a server may ask for
PASSING = (408, 425, 429, 500, 502, 503, 504)
LOGIN = "hf auth login with a token that may write, or set HF_TOKEN"

T = TypeVar("T")


def status_of(error: BaseException) -> int | None:
    """HTTP status of an error of the client, None when there was no answer."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed later: a busy server, a cut connection."""
    status = status_of(error)
    if status is not None:
        return status in PASSING
    if type(error).__name__ == "OfflineModeIsEnabled":
        return False
    home = type(error).__module__.partition(".")[0]
    return isinstance(error, ConnectionError | TimeoutError) or home in (
        "httpx",
        "httpx2",
        "httpcore",
        "requests",
    )


def wait_before(attempt: int, error: BaseException) -> None:
    """Waits as long as the server asks for, or longer from try to try."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    asked = headers.get("Retry-After", "")
    seconds = float(asked) if asked.isdecimal() else DELAYS[attempt]
    time.sleep(min(seconds, LONGEST))


def persistent(call: Callable[[], T], repo: str, what: str) -> T:
    """Calls until it succeeds; only for what does no harm when it is done twice.

    Raises:
        HubError: it failed for good, or still after the last try.
    """
    for attempt in range(len(DELAYS) + 1):
        try:
            return call()
        except VocabfreqError:
            raise
        except Exception as error:  # the client's errors share no base from version to version
            if not is_passing(error) or attempt == len(DELAYS):
                raise worded(error, repo, what) from None
            wait_before(attempt, error)
    raise AssertionError


def worded(error: BaseException, repo: str, what: str) -> VocabfreqError:
    """The error for what the Hub said, in words; nothing of a token is in it."""
    status = status_of(error)
    if status == 401:
        return HubError(f"the Hub does not accept the login (401): {what} {repo!r}", hint=LOGIN)
    if status == 403:
        return HubError(f"no right to {what} {repo!r} (403)", hint=LOGIN)
    if status == 412:
        return HubError(
            f"{repo!r} was changed by somebody else in the meantime (412); nothing was committed",
            hint="look at what changed, then push again",
        )
    if is_passing(error):
        hint = f"tried {len(DELAYS) + 1} times; push again later: nothing is committed twice"
        return HubError(f"cannot {what} {repo!r}: {first_line(error)}", hint=hint)
    return HubError(f"cannot {what} {repo!r}: {first_line(error)}")


BRANCH = re.compile(r"\w[\w-]*([./][\w-]+)*")
SHA = re.compile(r"[0-9a-f]{40}")
MESSAGE = "Publish token frequencies"


@dataclass(frozen=True)
class Pushed:
    """What is on the Hub now.

    Attributes:
        repo: `owner/name`.
        commit: sha of the branch with these files, or of the pull request's.
        changed: whether a commit was made; False when everything was there already.
        url: where to look at it.
        files: name → bytes.
        remarks: what a person should know.
    """

    repo: str
    commit: str
    changed: bool
    url: str
    files: dict[str, int]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Place:
    """Where to push.

    Attributes:
        repo: `owner/name`, made if it does not exist.
        revision: a branch, made if it does not exist; None for main.
        create_pr: open a pull request instead of committing to the branch.
        private: for a new repo.
        message: of the commit.
    """

    repo: str
    revision: str | None = None
    create_pr: bool = False
    private: bool = False
    message: str = MESSAGE


def push(
    file: str | Path,
    place: str | Place,
    *,
    sizes: Sequence[int] | None = None,
    about: About | None = None,
) -> Pushed:
    """Publishes a frequency file as a model repo on the Hub.

    Args:
        file: a frequency file.
        place: `owner/name`, or where exactly.
        sizes: values of K that get a token map; None for the usual ones below V.
        about: what the card says beyond the file.

    Raises:
        HubError: no login, no right, a branch that moved, or a Hub that does not answer; nothing
            is committed twice.
        FileFormatError: it is no frequency file.
        SelectionError: a size cannot be selected.
    """
    place = place if isinstance(place, Place) else Place(place)
    check_place(place)
    contents = contents_of(Path(file), about or About(place.repo), sizes)
    return upload(contents, place)


def check_place(place: Place) -> None:
    """Refuses what cannot be a repo on the Hub.

    Raises:
        RefusedError: naming it.
    """
    if not is_repo_name(place.repo):
        raise RefusedError(f"repo {place.repo!r}", expected="owner/name on the Hugging Face Hub")
    branch = place.revision
    if branch is not None and (not BRANCH.fullmatch(branch) or SHA.fullmatch(branch)):
        raise RefusedError(f"revision {branch!r}", expected="the name of a branch")


def upload(contents: Contents, place: Place) -> Pushed:
    """Makes the repo if need be, and one commit."""
    from huggingface_hub import HfApi, get_token

    if not get_token():
        raise HubError("not logged in to the Hugging Face Hub", hint=LOGIN)
    api = HfApi(library_name="vocabfreq")
    _make(api, place)
    parent = _head(api, place)
    commit, url = _commit(api, contents, place, parent)
    sizes = {name: len(data) for name, data in contents.files.items()}
    return Pushed(place.repo, commit, commit != parent, url, sizes, contents.remarks)


def _make(api: Any, place: Place) -> None:
    """The repo and the branch, if they do not exist; done twice it does nothing."""
    repo = place.repo
    if not _exists(api, repo):
        kwargs = {"private": place.private, "exist_ok": True}
        persistent(lambda: api.create_repo(repo, **kwargs), repo, "make the repo")
    elif place.private and not persistent(lambda: api.repo_info(repo), repo, "look at").private:
        raise RefusedError(
            f"{repo!r} exists and is public",
            expected="a new repo, or a private one",
            hint="make it private on its page, or leave --private out",
        )
    if place.revision and not place.create_pr:  # a pull request needs a branch that is there
        branch = place.revision
        if not persistent(lambda: api.revision_exists(repo, branch), repo, "look at"):
            made = lambda: api.create_branch(repo, branch=branch, exist_ok=True)  # noqa: E731
            persistent(made, repo, f"make the branch {branch!r} of")


def _exists(api: Any, repo: str) -> bool:
    return bool(persistent(lambda: api.repo_exists(repo), repo, "look at"))


def _head(api: Any, place: Place) -> str:
    """The commit of the branch."""
    look = lambda: api.repo_info(place.repo, revision=place.revision)  # noqa: E731
    return str(persistent(look, place.repo, "look at").sha)


def _commit(api: Any, contents: Contents, place: Place, parent: str) -> tuple[str, str]:
    """One commit on top of `parent`: its sha and address.

    After a failure that may pass, the branch is looked at first: the commit may have been made
    although nobody said so. `parent_commit` keeps the rest out.
    """
    unsure = False  # whether a commit of ours may be there although nobody said so
    gone = _stale(api, contents, place.repo, parent)
    for attempt in range(len(DELAYS) + 1):
        try:
            made = _send(api, contents, place, parent, gone)
            return str(made.oid), str(made.pr_url or _page(api, place.repo, made.oid))
        except VocabfreqError:
            raise
        except Exception as error:  # the client's errors share no base from version to version
            passing = is_passing(error)
            if not passing and status_of(error) != 412:
                raise worded(error, place.repo, "push to") from None
            if place.create_pr and passing:
                raise _maybe_opened(place, error) from None
            unsure, now = unsure or passing, _head(api, place)
            if now != parent and _is_ours(api, contents, place.repo, now):
                return now, _page(api, place.repo, now)
            if not passing or now != parent or attempt == len(DELAYS):
                raise _moved(error, place, now != parent, unsure) from None
            wait_before(attempt, error)
    raise AssertionError


def _stale(api: Any, contents: Contents, repo: str, parent: str) -> list[str]:
    """Files of an earlier push that this one does not have: a list of other counts, say."""
    names = persistent(lambda: api.list_repo_files(repo, revision=parent), repo, "look at")
    return sorted(name for name in names if is_published(name) and name not in contents.files)


def _send(api: Any, contents: Contents, place: Place, parent: str, gone: list[str]) -> Any:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations: list[Any] = [
        CommitOperationAdd(path_in_repo=name, path_or_fileobj=data)
        for name, data in contents.files.items()
    ]
    operations += [CommitOperationDelete(path_in_repo=name) for name in gone]
    return api.create_commit(
        place.repo,
        operations,
        commit_message=place.message,
        revision=place.revision,
        create_pr=place.create_pr,
        parent_commit=parent,
    )


def _is_ours(api: Any, contents: Contents, repo: str, commit: str) -> bool:
    """Whether a commit holds exactly what was to be pushed, by its manifest."""
    from huggingface_hub.errors import EntryNotFoundError

    try:
        path = persistent(
            lambda: api.hf_hub_download(repo, MANIFEST, revision=commit), repo, "look at"
        )
    except (EntryNotFoundError, HubError):
        return False
    return Path(path).read_bytes() == contents.files[MANIFEST]


def _moved(error: Exception, place: Place, moved: bool, unsure: bool) -> VocabfreqError:
    if not moved:
        return worded(error, place.repo, "push to")
    if unsure:
        return HubError(
            f"{place.repo!r} was changed by somebody else while the Hub did not answer; whether "
            "ours was committed before that is not known",
            hint="look at its history, then push again",
        )
    return HubError(
        f"{place.repo!r} was changed by somebody else in the meantime; nothing was committed",
        hint="look at what changed, then push again",
    )


def _maybe_opened(place: Place, error: Exception) -> VocabfreqError:
    return HubError(
        f"cannot tell whether the pull request was opened: {first_line(error)}",
        hint=f"look at the discussions of {place.repo} before you push again",
    )


def _page(api: Any, repo: str, commit: str) -> str:
    return f"{api.endpoint}/{repo}/tree/{commit}"
