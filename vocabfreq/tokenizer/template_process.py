"""A child process that renders conversations, with bounds on time and memory.

The parent sends lists of requests and gets one answer for each. Where the bounds come from:

- POSIX: a timer in the child ends a conversation after `SECONDS`. Linux also bounds the address
  space. macOS accepts that bound but does not enforce it, so a template can fill the memory there
  until its time is over.
- Windows has neither. There the parent ends the child `GRACE_SECONDS` later, as it does everywhere
  with a child that does not answer; the conversation counts as too slow and a new child goes on.
"""

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from vocabfreq.errors import TokenizerError
from vocabfreq.tokenizer.chat_template import (
    ChatTemplate,
    Message,
    Render,
    TemplateError,
    emitted_turns,
)

SECONDS = 5.0  # for one conversation; a plain one takes a millisecond
MEMORY_BYTES = 512 << 20  # on top of what the child has when it starts
GRACE_SECONDS = 5.0
START_SECONDS = 60.0
AT_ONCE = 64  # conversations in one request
_WATCH_SECONDS = 0.2
_CHILD = "from vocabfreq.tokenizer.template_process import main; main()"


class Request(NamedTuple):
    """A conversation to render.

    Attributes:
        messages: OpenAI-style messages.
        turns: indices of the assistant turns that are wanted, None for all.
        tools: what the template gets as `tools`.
    """

    messages: list[Message]
    turns: list[int] | None = None
    tools: list[Any] | None = None


Answer = list[str] | TemplateError


class BoundsError(TemplateError):
    """A template ran out of time or memory, or tried to break out of the sandbox."""


class TemplateProcess:
    """The parent's end of a rendering process."""

    def __init__(self, template: ChatTemplate) -> None:
        """Starts the process, and does not wait for it.

        Args:
            template: what it renders with.
        """
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | path,
        )
        self.answered = 0
        self._limit = START_SECONDS
        self._deadline: float | None = None
        self._closed = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        with contextlib.suppress(OSError):  # a child that is gone is noticed when it is asked
            self._send((template, SECONDS))

    def ask(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answers as they come; fewer than requests when the child dies or is ended."""
        for start in range(0, len(requests), AT_ONCE):
            part = requests[start : start + AT_ONCE]
            try:
                self._send([tuple(request) for request in part])
                for _ in part:
                    kind, value = self._receive()
                    yield value if kind == "turns" else _ERRORS[kind](value)
            except (EOFError, OSError, pickle.UnpicklingError):
                return

    def close(self) -> None:
        """Ends the child."""
        self._closed.set()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):  # what was not flushed cannot be
                pipe.close()  # type: ignore[union-attr]

    def _send(self, value: Any) -> None:
        assert self.process.stdin
        self._deadline = time.monotonic() + self._limit
        pickle.dump(value, self.process.stdin, protocol=5)
        self.process.stdin.flush()
        self._deadline = None

    def _receive(self) -> Any:
        assert self.process.stdout
        self._deadline = time.monotonic() + self._limit
        answer = pickle.load(self.process.stdout)
        self._deadline, self._limit = None, SECONDS + GRACE_SECONDS
        self.answered += 1
        return answer

    def _watch(self) -> None:
        """Ends a child that is waited for too long."""
        while not self._closed.wait(_WATCH_SECONDS):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                self.process.kill()
                return


_ERRORS = {"error": TemplateError, "bounds": BoundsError}


def main() -> None:
    """The child: reads a template, then lists of requests, and writes an answer for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints gets between the answers
    template, seconds = pickle.load(requests)
    _limit_memory()
    try:
        render = template.compile()
    except TokenizerError as error:
        refused = "bounds", error.wrong
        _serve(requests, answers, lambda _: refused)
    else:
        _serve(requests, answers, lambda request: _answer(template, render, request, seconds))


def _serve(
    requests: IO[bytes], answers: IO[bytes], answer: Callable[[Request], tuple[str, Any]]
) -> None:
    while True:
        try:
            asked = pickle.load(requests)
        except EOFError:
            return
        for request in asked:
            pickle.dump(answer(Request(*request)), answers, protocol=5)
            answers.flush()


def _answer(
    template: ChatTemplate, render: Render, request: Request, seconds: float
) -> tuple[str, Any]:
    from jinja2.exceptions import SecurityError

    variables = {"tools": request.tools} if request.tools else {}
    try:
        with _time_limit(seconds):
            turns = emitted_turns(template, render, request.messages, request.turns, **variables)
            return "turns", turns
    except TimeoutError:
        return "bounds", f"it took longer than {seconds:g} s"
    except MemoryError:
        return "bounds", f"it took more than {MEMORY_BYTES >> 20} MB"
    except TemplateError as error:
        is_escape = isinstance(error.__context__, SecurityError)
        return ("bounds" if is_escape else "error"), str(error)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Bounds the time, where the system has timers; elsewhere the parent does."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    """Bounds the address space, where the system can; elsewhere the time limit has to do."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES, used + MEMORY_BYTES))
