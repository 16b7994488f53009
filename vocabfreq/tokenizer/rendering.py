"""Emitted texts of conversations, most of them put together without rendering.

What a template puts around a plain content is learnt once for each sequence of roles before it,
from a probe with marker contents, and held against real renderings of a sample. Every other
conversation is rendered, in a process of its own (`template_process`).
"""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NamedTuple

from vocabfreq.errors import TokenizerError
from vocabfreq.tokenizer.chat_template import (
    LONG,
    ChatTemplate,
    Message,
    TemplateError,
    assistant_turns,
    context_of,
)
from vocabfreq.tokenizer.template_process import Answer, BoundsError, Request, TemplateProcess

MAX_SHAPES = 4096
FIRST_SAMPLED = 16  # conversations of a shard that are checked, and then one in SAMPLED_EVERY
SAMPLED_EVERY = 1024
MAX_SAMPLED = 1 << 20  # characters of a turn
MAX_LOST = 16  # conversations of a shard that end the child; then the shard fails
_SPACE = "\n" * 5 + "\u2003"  # white space whose removal tells strip("\n") from strip()
_MARKER = _SPACE + "Vf{}\u00a7x" + _SPACE[::-1]
_PLAIN_KEYS = frozenset({"role", "content"})


class PlainConversation(NamedTuple):
    """A conversation whose messages have a role and a text and nothing else.

    Attributes:
        roles: `system`, `user`, `assistant` or `tool` of each message.
        contents: the text of each.
    """

    roles: tuple[str, ...]
    contents: list[str]

    def messages(self) -> list[Message]:
        """The same as OpenAI messages."""
        pairs = zip(self.roles, self.contents, strict=True)
        return [{"role": role, "content": content} for role, content in pairs]


Conversation = list[Message] | PlainConversation


class _Wrap(NamedTuple):
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


_Shape = list[tuple[int, _Wrap]]


@dataclass
class TurnRenderer:
    """Emitted texts of conversations, by one template.

    Attributes:
        template: the template.
        rendered: conversations of this shard that the template rendered, samples left out.
        learnt: conversations of it whose turns were put together without rendering.
        differing: sampled turns on which the two ways differed; after one, all are rendered.
    """

    template: ChatTemplate
    rendered: int = field(default=0, init=False)
    learnt: int = field(default=0, init=False)
    differing: int = field(default=0, init=False)
    _shapes: dict[tuple[str, ...], _Shape | None] = field(default_factory=dict, init=False)
    _wraps: dict[tuple[str, ...], _Wrap | None] = field(default_factory=dict, init=False)
    _child: TemplateProcess | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)
    _lost: int = field(default=0, init=False)
    _is_learning: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        """Compiles what finds messages that the template may treat in a way of their own."""
        literals = sorted(self.template.literals | set(self.template.ends), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, literals)) or r"(?!)")
        shared = set.intersection(*map(set, literals)) if literals else {"\0"}
        self._sign = min(shared, key=str.isalnum, default="")  # what has none of it is not special

    def turns(
        self, conversations: Sequence[Conversation], tools: Sequence[list[Any] | None] = ()
    ) -> list[Answer]:
        """The emitted texts of each conversation's assistant turns, or why it cannot be rendered.

        Args:
            conversations: the conversations.
            tools: what the template gets as `tools` with each, `()` for none with any.

        Raises:
            TokenizerError: the child process cannot be started, or too many conversations ended it.
        """
        offered = tools if tools and self.template.reads_tools else [None] * len(conversations)
        pairs = zip(conversations, offered, strict=True)
        found: list[Answer | None]
        found = [None if given else self._learnt(talk) for talk, given in pairs]
        if not self._agree(conversations, found):
            found = [None] * len(found)
        missing = [n for n, texts in enumerate(found) if texts is None]
        requests = [Request(_messages(conversations[n]), None, offered[n]) for n in missing]
        for n, answer in zip(missing, self._render(requests), strict=True):
            found[n] = answer
        self.rendered += len(missing)
        self.learnt += len(found) - len(missing)
        return [answer for answer in found if answer is not None]

    @property
    def is_mistaken(self) -> bool:
        """Whether texts were put together before a difference showed; they have to be rendered."""
        return bool(self.differing and self.learnt)

    def check(self) -> None:
        """Renders a first conversation, to refuse what cannot be used before anything is counted.

        Raises:
            TokenizerError: the template is broken, breaks out of the sandbox, or runs out of time
                or memory.
        """
        conversation = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        answer = self._render([Request(conversation)])[0]
        if isinstance(answer, BoundsError):
            raise TokenizerError(
                f"the chat template cannot be used: {answer}",
                hint="name another one with --chat-template, or use --chat-template off",
            )

    def restart(self, *, learning: bool = True) -> None:
        """Begins a new shard, whose texts do not depend on those before it.

        What was learnt is kept, and held against real renderings again.

        Args:
            learning: whether turns are put together without rendering.
        """
        self.rendered = self.learnt = self.differing = self._lost = self._seen = 0
        self._is_learning = learning

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

    def _learnt(self, conversation: Conversation) -> list[str] | None:
        """The emitted texts of a conversation without rendering it, None when it has to be."""
        plain = _plain(conversation)
        if plain is None or self.differing or not self._is_learning:
            return None
        roles, contents = plain
        shape = self._shapes.get(roles) or self._shape_of(roles)
        if shape is None:
            return None
        sign, is_special = self._sign, self._special.search
        for content in contents:
            if not content or content.isspace() or (sign in content and is_special(content)):
                return None
        return [
            before + contents[n].lstrip(left).rstrip(right) + after
            for n, (before, after, left, right) in shape
        ]

    def _agree(self, conversations: Sequence[Conversation], found: list[Answer | None]) -> bool:
        """Holds a sample of the turns that were put together against real renderings."""
        short = [
            n
            for n, texts in enumerate(found)
            if isinstance(texts, list) and texts and max(map(len, texts)) <= MAX_SAMPLED
        ]
        seen, self._seen = self._seen, self._seen + len(short)
        requests, put_together = [], []
        for number, n in enumerate(short, seen):
            if number >= FIRST_SAMPLED and number % SAMPLED_EVERY:
                continue
            messages, texts = _messages(conversations[n]), found[n]
            turns = assistant_turns([message["role"] for message in messages])
            requests.append(Request(messages, [turns[n % len(turns)]]))
            put_together.append([texts[n % len(turns)]])  # type: ignore[index]
        answers = self._render(requests)
        self.differing += sum(map(operator.ne, answers, put_together))
        return not self.differing

    def _shape_of(self, roles: tuple[str, ...]) -> _Shape | None:
        """What stands around each assistant turn, None when that cannot be learnt."""
        if roles in self._shapes:
            return self._shapes[roles]
        turns = assistant_turns(roles)
        keys = [tuple(roles[n] for n in context_of(roles, turn)) for turn in turns]
        missing = [key for key in dict.fromkeys(keys) if key not in self._wraps]
        if len(self._wraps) + len(missing) > MAX_SHAPES:
            return None
        self._wraps |= dict(zip(missing, self._learn(missing), strict=True))
        wraps = [self._wraps[key] for key in keys]
        shape = [(n, wrap) for n, wrap in zip(turns, wraps, strict=True) if wrap is not None]
        found = shape if len(shape) == len(turns) else None
        if len(self._shapes) < MAX_SHAPES and len(roles) <= LONG:
            self._shapes[roles] = found
        return found

    def _learn(self, keys: list[tuple[str, ...]]) -> list[_Wrap | None]:
        """What stands around the last turn of conversations with these roles."""
        probes = [
            Request(
                [{"role": role, "content": _MARKER.format(n)} for n, role in enumerate(key)],
                [len(key) - 1],
            )
            for key in keys
        ]
        return [
            None if isinstance(answer, TemplateError) else _wrap(answer[0], len(key) - 1)
            for key, answer in zip(keys, self._render(probes), strict=True)
        ]

    def _render(self, requests: list[Request]) -> list[Answer]:
        answers: list[Answer] = []
        while len(answers) < len(requests):
            if self._child is None:
                self._child = TemplateProcess(self.template)
            answers += self._child.ask(requests[len(answers) :])
            if len(answers) < len(requests):  # the child is gone, and this one ended it
                answers.append(BoundsError("it took too much time or memory"))
                self._count_lost(self._child)
                self.close()
        return answers

    def _count_lost(self, child: TemplateProcess) -> None:
        self._lost += 1
        if self._lost > MAX_LOST:
            code = child.process.poll()
            raise TokenizerError(
                f"the chat template ended the process that renders it {self._lost} times "
                f"(exit code {code})",
                expected="conversations that render in bounded time and memory",
                hint="name another one with --chat-template, or use --chat-template off",
            )


def _plain(conversation: Conversation) -> PlainConversation | None:
    """A conversation as roles and contents, None when a message holds more than that."""
    if isinstance(conversation, PlainConversation):
        return conversation
    for message in conversation:
        if message.keys() != _PLAIN_KEYS or not isinstance(message["content"], str):
            return None
    return PlainConversation(
        tuple([message["role"] for message in conversation]),
        [message["content"] for message in conversation],
    )


def _messages(conversation: Conversation) -> list[Message]:
    is_plain = isinstance(conversation, PlainConversation)
    return conversation.messages() if is_plain else conversation  # type: ignore[union-attr, return-value]


def _wrap(text: str, number: int) -> _Wrap | None:
    """What stands around a marker, None when it is not there exactly once."""
    core = _MARKER.format(number).strip()
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
