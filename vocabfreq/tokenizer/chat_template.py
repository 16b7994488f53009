"""Chat templates: what a model writes for an assistant turn, markup included.

A template turns messages into text. What the model emits for turn i is `render(messages[:i + 1])`
less `render(messages[:i], add_generation_prompt=True)`: the content with its reasoning, tool-call
markup and end-of-turn token, without the header that the prompt already holds.

Templates come from strangers. They run in Jinja's immutable sandbox with the names that
`transformers` gives to templates, and only in a child process with bounds on time and memory
(`rendering`). They can open no file and no connection.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from vocabfreq.errors import TokenizerError

Message = dict[str, Any]
Render = Callable[..., str]

MAX_TEMPLATE_BYTES = 1 << 20
TEMPLATE_FILE = "chat_template.jinja"
LONG = 64  # messages; of a longer conversation a turn is rendered with some of those before it
WINDOW = 16
MAX_SYSTEM = 4
REASONING_FIELDS = ("reasoning_content", "thinking", "reasoning")


class TemplateError(Exception):
    """The template cannot render a conversation; the message is the template's own."""


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template and the special tokens that it may write.

    Attributes:
        source: the Jinja text.
        tokens: names and texts of special tokens, as (`bos_token`, `<s>`); templates read them.
        ends: texts of special tokens; what stands after one at the end of a turn is not emitted.
    """

    source: str
    tokens: tuple[tuple[str, str], ...] = ()
    ends: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """SHA-256 of the Jinja text, in hex."""
        return hashlib.sha256(self.source.encode()).hexdigest()

    @cached_property
    def literals(self) -> frozenset[str]:
        """Texts that the template looks for in messages, such as `</think>`.

        A message that holds one of them may be rendered in another way than its neighbours.
        """
        found: set[str] = set()
        try:
            tree = _environment().parse(self.source)
        except jinja2.TemplateSyntaxError:  # `compile` reports it
            return frozenset()
        for kind in (jinja2.nodes.Compare, jinja2.nodes.Call, jinja2.nodes.Filter):
            for node in tree.find_all(kind):
                if getattr(getattr(node, "node", None), "name", "") == "raise_exception":
                    continue  # the words of an error
                consts = node.find_all(jinja2.nodes.Const)
                found |= {const.value for const in consts if isinstance(const.value, str)}
        return frozenset(text for text in found if text.strip() and not text.isidentifier())

    @property
    def reads_tools(self) -> bool:
        """Whether what it writes can depend on the tools of a conversation."""
        return "tools" in self.source

    def compile(self) -> Render:
        """The render function: `render(messages, add_generation_prompt=False, **variables)`.

        Raises:
            TokenizerError: the text is not a Jinja template.
        """
        try:
            template = _environment().from_string(self.source)
        except jinja2.TemplateSyntaxError as error:
            raise TokenizerError(
                f"the chat template is not valid Jinja: {error.message} (line {error.lineno})",
                hint="name another one with --chat-template, or use --chat-template off",
            ) from None
        tokens = dict(self.tokens)

        def render(messages: Sequence[Message], **variables: Any) -> str:
            return template.render(messages=messages, **tokens, **variables)

        return render


def read_chat_template(
    config: Mapping[str, Any], file: Path | None, special_tokens: Iterable[str]
) -> ChatTemplate | None:
    """The chat template of a tokenizer, None when it has none.

    Args:
        config: content of tokenizer_config.json.
        file: a `chat_template.jinja`, which goes before the config.
        special_tokens: texts of the tokenizer's special tokens.

    Raises:
        TokenizerError: the template is too large, or not UTF-8.
    """
    source = _default_template(config.get("chat_template")) if file is None else _read(file)
    if source is None:
        return None
    source = _checked(source)
    named = {name: _token_text(value) for name, value in config.items() if name.endswith("_token")}
    tokens = tuple(sorted((name, text) for name, text in named.items() if text))
    return ChatTemplate(source, tokens, tuple(sorted(set(special_tokens))))


def read_template_file(
    file: Path, tokens: tuple[tuple[str, str], ...], special_tokens: Iterable[str]
) -> ChatTemplate:
    """A chat template that a person named.

    Args:
        file: the Jinja file.
        tokens: names and texts of special tokens that it may read.
        special_tokens: texts of the tokenizer's special tokens.

    Raises:
        TokenizerError: it is not there, too large, or not UTF-8.
    """
    if not file.is_file():
        raise TokenizerError(f"no file {str(file)!r}", expected="a chat template in Jinja")
    source = _checked(_read(file))
    return ChatTemplate(source, tokens, tuple(sorted(set(special_tokens))))


def emitted_turns(
    template: ChatTemplate,
    render: Render,
    messages: Sequence[Message],
    turns: Sequence[int] | None = None,
    **variables: Any,
) -> list[str]:
    """What the model emits for each assistant turn of a conversation, in order.

    Args:
        template: the template; its `ends` close a turn.
        render: its render function.
        messages: OpenAI-style messages.
        turns: the indices of the assistant turns that are wanted, None for all.
        variables: further names for the template, such as `tools`.

    Raises:
        TemplateError: the template raises, or does not write an assistant turn after its prompt.
    """
    messages = [normalized(message) for message in messages]
    roles = [message.get("role") for message in messages]
    wanted = assistant_turns(roles) if turns is None else turns

    def emitted(turn: int, context: Sequence[int]) -> str:
        return _emitted(template, render, [messages[n] for n in context], variables)

    contexts = [context_of(roles, turn) for turn in wanted]
    if wanted and len(contexts[-1]) <= wanted[-1]:
        whole = range(wanted[-1] + 1)
        if emitted(wanted[-1], whole) != emitted(wanted[-1], contexts[-1]):
            contexts = [list(range(turn + 1)) for turn in wanted]
    return [emitted(turn, context) for turn, context in zip(wanted, contexts, strict=True)]


def assistant_turns(roles: Sequence[Any]) -> list[int]:
    """The indices of the assistant's turns."""
    return [n for n, role in enumerate(roles) if role == "assistant"]


def context_of(roles: Sequence[Any], turn: int) -> list[int]:
    """The messages that a turn is rendered with, itself the last; all up to `LONG`.

    Rendering every turn of a conversation with all before it takes quadratic time. A turn far
    into a long one is rendered with the system messages at the start, the messages shortly before
    it from an assistant's turn on, and the last user message before those.
    """
    if turn < LONG:
        return list(range(turn + 1))
    head = [n for n in range(MAX_SYSTEM) if roles[n] == "system"]
    start = next(n for n in range(turn - WINDOW, turn + 1) if roles[n] == "assistant")
    user = next((n for n in range(start - 1, -1, -1) if roles[n] == "user"), None)
    anchor = [] if user is None or user in head else [user]
    return [*head, *anchor, *range(start, turn + 1)]


def normalized(message: Message) -> Message:
    """A message as transformers hands it to templates.

    Keys without a value are left out, and reasoning stands under `reasoning_content` and `thinking`
    whatever its name was.
    """
    message = {key: value for key, value in message.items() if value is not None}
    reasoning = next((message[name] for name in REASONING_FIELDS if name in message), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _emitted(
    template: ChatTemplate, render: Render, messages: list[Message], variables: dict[str, Any]
) -> str:
    """The text of the last message, as the model emits it."""
    text = _ended(_after_prompt(render, messages, variables), template.ends)
    if not text.strip() and str(messages[-1].get("content") or "").strip():
        raise TemplateError("it writes nothing for an assistant turn")
    return text


def _after_prompt(render: Render, messages: list[Message], variables: dict[str, Any]) -> str:
    """What the template writes for the last message after the generation prompt."""
    try:
        whole = render(messages, add_generation_prompt=False, **variables)
        prompt = render(messages[:-1], add_generation_prompt=True, **variables)
        if whole.startswith(prompt):
            return whole[len(prompt) :]
        history = render(messages[:-1], add_generation_prompt=False, **variables)
    except (TemplateError, MemoryError, TimeoutError):
        raise
    except Exception as error:  # a template can raise whatever Python can
        raise TemplateError(str(error) or type(error).__name__) from None
    header = prompt[len(history) :] if prompt.startswith(history) else ""
    if header and whole.startswith(history):  # the prompt opens what this turn does not have
        rest = whole[len(history) :]
        shared = sum(1 for _ in takewhile(_equal, zip(header, rest, strict=False)))
        if shared:
            return rest[shared:]
    start = whole.rfind(header) if header else -1  # earlier turns are rendered in another way
    if start < 0:
        raise TemplateError("an assistant turn does not begin with the generation prompt")
    return whole[start + len(header) :]


def _equal(pair: tuple[str, str]) -> bool:
    return pair[0] == pair[1]


def _ended(text: str, ends: tuple[str, ...]) -> str:
    """Without white space after the end-of-turn token: the model has stopped by then."""
    stripped = text.rstrip()
    return stripped if stripped.endswith(ends) else text


def _checked(source: str) -> str:
    size = len(source.encode())
    if size > MAX_TEMPLATE_BYTES:
        raise TokenizerError(
            f"the chat template has {size:,} bytes or more",
            expected=f"at most {MAX_TEMPLATE_BYTES:,}",
        )
    return source


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MAX_TEMPLATE_BYTES + 1).decode("utf-8")
    except UnicodeDecodeError:
        raise TokenizerError(f"{file} is not UTF-8", expected="a Jinja template") from None


def _default_template(value: Any) -> str | None:
    """The template of `tokenizer_config.json`: a text, or a list of named ones."""
    if isinstance(value, list):
        named = {
            entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)
        }
        value = named.get("default") or next(iter(named.values()), None)
    return value if isinstance(value, str) and value.strip() else None


def _token_text(value: Any) -> str:
    text = value.get("content") if isinstance(value, dict) else value
    return text if isinstance(text, str) else ""


class _Generation(jinja2.ext.Extension):
    """The `{% generation %}` tag of transformers: renders what is in it."""

    tags = {"generation"}

    def parse(self, parser: Any) -> jinja2.nodes.Node | list[jinja2.nodes.Node]:
        """The statements up to `{% endgeneration %}`."""
        next(parser.stream)
        nodes: list[jinja2.nodes.Node] = parser.parse_statements(
            ("name:endgeneration",), drop_needle=True
        )
        return nodes


class _Namespace(jinja2.utils.Namespace):
    """Jinja's namespace without names that begin with an underscore."""

    def __init__(*arguments: Any, **values: Any) -> None:
        self, *rest = arguments
        jinja2.utils.Namespace.__init__(self, _public(dict(*rest, **values)))

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _public({name: value})[name])


def _public(values: dict[str, Any]) -> dict[str, Any]:
    for name in values:
        if str(name).startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace must not hold {name!r}")
    return values


def _environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """The environment in which transformers renders chat templates."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
    environment.globals["namespace"] = _Namespace
    return environment


def _raise(message: str) -> None:
    raise TemplateError(str(message))


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without the HTML escapes of Jinja's own filter."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
