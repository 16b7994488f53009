"""Renders conversations in a child process with bounds on time and memory.

`TurnRenderer.turns` gives the emitted text of every assistant turn. Most conversations need no
rendering: what the template puts around a plain content is learnt once for each sequence of roles,
from a probe with marker contents, and checked against real renderings of a sample.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

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
AT_ONCE = 64  # conversations in one request
MAX_SHAPES = 512
SAMPLE = 16
_SPACE = "\n" * 5 + "\u2003"  # white space whose removal tells strip("\n") from strip()
_MARKER = _SPACE + "Vf{}\u00a7x" + _SPACE[::-1]
_PLAIN_KEYS = frozenset({"role", "content"})
_CHILD = "from vocabfreq.tokenizer.rendering import main; main()"


@dataclass(frozen=True)
class _Wrap:
    r"""What stands around the content of one assistant turn.

    Attributes:
        before: text before the content.
        after: text after it, up to the end of the turn.
        left: what is removed from the content's start: "" nothing, "\n" line ends, None all
            white space.
        right: the same of its end.
    """

    before: str
    after: str
    left: str | None
    right: str | None

    def around(self, content: str) -> str:
        """The emitted text of a turn with this content."""
        return self.before + content.lstrip(self.left).rstrip(self.right) + self.after


@dataclass
class TurnRenderer:
    """Emitted texts of conversations, by one template.

    Attributes:
        template: the template.
        rendered: conversations rendered by the template, probes left out.
        learnt: conversations whose turns were put together without rendering.
        differing: sampled conversations on which the two ways differed; one, and all are rendered.
    """

    template: ChatTemplate
    rendered: int = field(default=0, init=False)
    learnt: int = field(default=0, init=False)
    differing: int = field(default=0, init=False)
    _wraps: dict[tuple[str, ...], list[_Wrap] | None] = field(default_factory=dict, init=False)
    _child: "_Child | None" = field(default=None, init=False)
    _left: int = field(default=SAMPLE, init=False)

    def __post_init__(self) -> None:
        """Compiles what finds messages that the template may treat in a way of their own."""
        literals = sorted(self.template.literals | set(self.template.ends), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, literals)) or r"(?!)")

    def turns(self, conversations: Sequence[list[Message]]) -> list[list[str] | TemplateError]:
        """The emitted texts of each conversation's assistant turns, or why it cannot be rendered.

        Raises:
            TokenizerError: the child process cannot be started.
        """
        found: list[list[str] | TemplateError | None] = [self._plain(c) for c in conversations]
        missing = [n for n, turns in enumerate(found) if turns is None]
        sampled = [n for n, turns in enumerate(found) if turns is not None][: self._left]
        self._left -= len(sampled)
        self.rendered += len(missing)
        answers = self._render([conversations[n] for n in missing + sampled])
        for n, answer in zip(missing, answers, strict=False):
            found[n] = answer
        for n, answer in zip(sampled, answers[len(missing) :], strict=True):
            self.differing += answer != found[n]
        if self.differing and sampled:
            return self._render(conversations)
        self.learnt += len(conversations) - len(missing)
        return [turns if turns is not None else [] for turns in found]

    def check(self) -> None:
        """Renders a first conversation, to refuse what cannot be used before anything is counted.

        Raises:
            TokenizerError: the template is broken, breaks out of the sandbox, or runs out of time
                or memory.
        """
        conversation = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        answer = self._render([conversation])[0]
        if isinstance(answer, TemplateError) and getattr(answer, "fatal", False):
            raise TokenizerError(
                f"the chat template cannot be used: {answer}",
                hint="name another one with --chat-template, or use --chat-template off",
            )

    def restart_sample(self) -> None:
        """Checks the next plain conversations against real renderings, as for each new shard."""
        self._left = SAMPLE

    def close(self) -> None:
        """Ends the child process."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def __enter__(self) -> "TurnRenderer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _plain(self, conversation: list[Message]) -> list[str] | None:
        """The emitted texts of a conversation without rendering it, None when it has to be."""
        if self.differing:
            return None
        roles = []
        contents = []
        for message in conversation:
            content = message.get("content")
            if message.keys() != _PLAIN_KEYS or not isinstance(content, str) or not content.strip():
                return None
            roles.append(message["role"])
            contents.append(content)
        wraps = self._wraps_of(tuple(roles))
        if wraps is None or any(map(self._special.search, contents)):
            return None
        own = [c for c, role in zip(contents, roles, strict=True) if role == "assistant"]
        return [wrap.around(content) for wrap, content in zip(wraps, own, strict=True)]

    def _wraps_of(self, roles: tuple[str, ...]) -> list[_Wrap] | None:
        if roles not in self._wraps:
            if len(self._wraps) >= MAX_SHAPES:
                return None
            self._wraps[roles] = self._learn(roles)
        return self._wraps[roles]

    def _learn(self, roles: tuple[str, ...]) -> list[_Wrap] | None:
        markers = [_MARKER.format(n) for n in range(len(roles))]
        probe = [{"role": r, "content": m} for r, m in zip(roles, markers, strict=True)]
        answer = self._render([probe])[0]
        if isinstance(answer, TemplateError):
            return None
        own = [m for m, role in zip(markers, roles, strict=True) if role == "assistant"]
        wraps = [_wrap(text, marker) for text, marker in zip(answer, own, strict=True)]
        return None if None in wraps else [wrap for wrap in wraps if wrap]

    def _render(self, conversations: Sequence[list[Message]]) -> list[list[str] | TemplateError]:
        answers: list[list[str] | TemplateError] = []
        while len(answers) < len(conversations):
            if self._child is None:
                self._child = _Child(self.template)
            part = conversations[len(answers) :]
            answers += self._child.ask(part)
            if len(answers) < len(conversations):  # the child is gone, and this one ended it
                answers.append(_fatal("it took too much time or memory"))
                self.close()
        return answers


def _wrap(text: str, marker: str) -> _Wrap | None:
    """What stands around a marker, None when it is not there exactly once."""
    core = marker.strip()
    before, found, after = text.partition(core)
    if not found or core in after:
        return None
    before, left = _stripped(before, _SPACE, str.endswith, str.removesuffix)
    after, right = _stripped(after, _SPACE[::-1], str.startswith, str.removeprefix)
    return _Wrap(before, after, left, right)


def _stripped(
    text: str, space: str, is_there: Callable[[str, str], bool], without: Callable[[str, str], str]
) -> tuple[str, str | None]:
    """The text without what is left of the white space around a marker, and what was removed."""
    if is_there(text, space):
        return without(text, space), ""
    if is_there(text, space.strip("\n")):
        return without(text, space.strip("\n")), "\n"
    return text, None


def _fatal(text: str) -> TemplateError:
    error = TemplateError(text)
    error.fatal = True  # type: ignore[attr-defined]
    return error


class _Child:
    """The parent's end of a rendering process."""

    def __init__(self, template: ChatTemplate) -> None:
        path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | path,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.requests = Connection(os.dup(self.process.stdin.fileno()), readable=False)
        self.answers = Connection(os.dup(self.process.stdout.fileno()), writable=False)
        self.process.stdin.close()
        self.process.stdout.close()
        self.requests.send((template, SECONDS))

    def ask(self, conversations: Sequence[list[Message]]) -> Iterator[list[str] | TemplateError]:
        """Answers as they come; fewer than conversations when the child dies or hangs."""
        for start in range(0, len(conversations), AT_ONCE):
            part = conversations[start : start + AT_ONCE]
            try:
                self.requests.send(list(part))
                for _ in part:
                    if not self.answers.poll(SECONDS + GRACE_SECONDS):
                        return
                    kind, value = self.answers.recv()
                    yield value if kind == "turns" else _error(kind, value)
            except (EOFError, OSError):
                return

    def close(self) -> None:
        self.process.kill()
        self.requests.close()
        self.answers.close()
        self.process.wait()


def _error(kind: str, text: str) -> TemplateError:
    return _fatal(text) if kind == "fatal" else TemplateError(text)


def main() -> None:
    """The child: reads a template, then lists of conversations, and writes an answer for each."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, answers = Connection(os.dup(0)), Connection(os.dup(1))
    os.dup2(2, 1)  # nothing that a library prints gets between the answers
    template, seconds = requests.recv()
    _limit_memory()
    try:
        render = template.compile()
    except TokenizerError as error:
        refused = "fatal", error.wrong
        _serve(requests, answers, lambda _: refused)
    else:
        _serve(requests, answers, lambda messages: _answer(template, render, messages, seconds))


def _serve(
    requests: "Connection[Any, Any]",
    answers: "Connection[Any, Any]",
    answer: Callable[[list[Message]], Any],
) -> None:
    while True:
        try:
            conversations = requests.recv()
        except EOFError:
            return
        for messages in conversations:
            answers.send(answer(messages))


def _answer(
    template: ChatTemplate, render: Render, messages: list[Message], seconds: float
) -> tuple[str, Any]:
    from jinja2.exceptions import SecurityError

    with _time_limit(seconds):
        try:
            return "turns", emitted_turns(template, render, messages)
        except TimeoutError:
            return "fatal", f"it took longer than {seconds:g} s"
        except MemoryError:
            return "fatal", f"it took more than {MEMORY_BYTES >> 20} MB"
        except TemplateError as error:
            cause = error.__context__
            return ("fatal" if isinstance(cause, SecurityError) else "error"), str(error)


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
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
