"""What to do when the Hub does not answer as it should: again later, or say so in words."""

import time
from collections.abc import Callable
from typing import TypeVar

from vocabfreq.errors import HubError, VocabfreqError
from vocabfreq.storage.resolve import first_line

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
