"""The layouts of rows: which columns hold what a model wrote, and how a source's layout is found.

`LAYOUTS` is the one table that detection, documentation and tests are made from. A layout with one
plain column is read at full speed; every other one is read row by row (`extraction`).
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from vocabfreq.corpus.extraction import (
    Document,
    conversation,
    documents_in,
    steps_of,
    values_at,
    with_chosen,
)
from vocabfreq.corpus.messages import ContentError, Message, is_turn, tools_of
from vocabfreq.errors import SourceError

Kind = Literal["text", "chat", "ids", "rows"]
Roles = Literal["assistant", "all"]
Group = Literal["conversation", "chosen", "log", "answer", "text", "ids"]

MASK_COLUMN = "loss_mask"
ANSWERS_COLUMN = "answers"  # of rows that `collect` writes: which messages the model wrote
SAMPLE_CHARS = 60
MAX_LEFT = 4


class KnownLayout(NamedTuple):
    """A row of the table.

    Attributes:
        name: what people call it.
        group: what its columns hold. Of the groups that a row has, the first in the table counts;
            `conversation` and `chosen` count together.
        columns: paths, in the order of preference.
        found_in: data sets and tools that have it.
    """

    name: str
    group: Group
    columns: tuple[str, ...]
    found_in: str


LAYOUTS = (
    KnownLayout(
        "conversation",
        "conversation",
        (
            *("messages", "conversations", "conversation", "dialogue", "dialog", "chat"),
            *("trajectory", "traj", "turns", "full_messages", "request_response_messages"),
        ),
        "OpenAI, TRL, ShareGPT, LLaMA-Factory, Axolotl, Unsloth, tau-bench",
    ),
    KnownLayout(
        "preferred answer",
        "chosen",
        ("chosen", "chosen_messages", "chosen_response", "chosen_conversations"),
        "TRL, LLaMA-Factory, UltraFeedback; the rejected answer never counts",
    ),
    KnownLayout(
        "API log",
        "log",
        (
            "response.body.choices[].message",
            "response.body.choices[].text",
            "response.body.output[]",
            "response.choices[].message",
            "response.choices[].text",
            "body.choices[].message",
            "choices[].message",
            "choices[].turns[]",
            "choices[].text",
            "response.candidates[].content.parts",
            "candidates[].content.parts",
            "outputs[].text",
            "result.message",
            "response.message",
            "message",
        ),
        "OpenAI batch results and logs, LiteLLM, vLLM, FastChat, Gemini, Anthropic, Ollama",
    ),
    KnownLayout(
        "answer",
        "answer",
        (
            *("output", "outputs", "response", "responses", "answer", "answers"),
            *("completion", "completions", "generation", "generations", "generated_text"),
            *("model_output", "model_response", "assistant_response", "assistant", "prediction"),
            *("predictions", "solution", "solutions", "reply", "resps", "filtered_resps"),
            *("generated_solution", "generated_code", "target", "targets", "chosen_answer"),
        ),
        "Alpaca, Dolly, GSM8K, distilabel, lm-evaluation-harness",
    ),
    KnownLayout(
        "plain text",
        "text",
        (*("text", "content", "raw_content", "document", "code", "markdown", "article"),),
        "FineWeb, The Stack, Wikipedia",
    ),
    KnownLayout("token ids", "ids", ("input_ids", "token_ids", "output_ids"), "tokenised sets"),
)
COLUMNS = {layout.group: layout.columns for layout in LAYOUTS}
GROUPS: tuple[Group, ...] = tuple(COLUMNS)
ANSWER_GROUPS: frozenset[Group | None] = frozenset({"chosen", "log", "answer"})
REASONING_COLUMNS = (
    "reasoning",
    "thinking",
    "reasoning_content",
    "complex_cot",
    "rationale",
    "cot",
)


@dataclass(frozen=True)
class Layout:
    """Where the rows of a source hold what is counted.

    Attributes:
        kind: `text`, `chat` or `ids` for one plain column, read at full speed; else `rows`.
        column: name of the one column, or the first path.
        roles: whose turns of a conversation count.
        paths: the paths of `rows`.
        named: whether a person named the paths; then all of them count, else those of one group.
        answer: whether texts are answers of the model, to which a chat template applies.
    """

    kind: Kind
    column: str
    roles: Roles = "assistant"
    paths: tuple[str, ...] = ()
    named: bool = False
    answer: bool = False

    @property
    def columns(self) -> str | list[str]:
        """The one column, or the paths."""
        return list(self.paths) if len(self.paths) > 1 else self.column

    @property
    def is_rendered(self) -> bool:
        """Whether a chat template applies to what is counted."""
        return self.roles != "all" and (self.answer or self.kind in ("chat", "rows"))

    def documents(self, row: Message) -> list[Document]:
        """The documents of a row; `[]` when it has none of the paths.

        Raises:
            ContentError: a value holds no text.
        """
        documents = self._found(row)
        tools = tools_of(row)
        for document in documents if tools else ():
            document.tools = tools
        return documents

    def _found(self, row: Message) -> list[Document]:
        """The documents of a row without its tools."""
        if self.kind == "chat":
            return [conversation(row[self.column], every_role=self.roles == "all")]
        if self.kind == "text":
            return self._documents(row, self.column)
        if self.named:
            return [document for path in self.paths for document in self._documents(row, path)]
        for group in GROUPS:
            for path in self.paths:
                if group_of(path) == group and usable(row, path):
                    return self._with_others(row, path, group)
        return []

    def _with_others(self, row: Message, path: str, group: Group) -> list[Document]:
        """The documents at a path, and what belongs to them in other columns."""
        documents = self._documents(row, path)
        if group == "conversation" and _is_ids(row.get(ANSWERS_COLUMN)) and documents:
            documents[0].own = row[ANSWERS_COLUMN]
        elif group == "conversation":
            chosen = next(
                (p for p in self.paths if group_of(p) == "chosen" and usable(row, p)), None
            )
            return with_chosen(documents, self._documents(row, chosen)) if chosen else documents
        if group == "answer" and len(documents) == 1 and not documents[0].turns:
            documents[0].reasoning = _reasoning(row)
        return documents

    def _documents(self, row: Message, path: str) -> list[Document]:
        answer = group_of(path) in ANSWER_GROUPS
        every_role = self.roles == "all"
        return [
            document
            for value in values_at(row, path)
            for document in documents_in(value, answer=answer, every_role=every_role)
        ]


class FoundLayout(NamedTuple):
    """A layout, and what its choice left out.

    Attributes:
        layout: where the text is.
        left: text columns that do not count, and the characters that they have in the sample.
        sampled: characters of all text columns in the sample.
    """

    layout: Layout
    left: dict[str, int]
    sampled: int

    def describe(self, *, rendered: bool) -> str:
        """What counts and what does not, for people.

        Args:
            rendered: whether a chat template was applied.
        """
        layout = self.layout
        names = " and ".join(map(repr, layout.paths or (layout.column,)))
        what = {
            "text": "the answers in" if layout.answer else "the text of",
            "chat": "all turns of" if layout.roles == "all" else "the assistant's turns of",
            "ids": "the ids of",
            "rows": "what stands in" if layout.named else "what the model wrote in",
        }[layout.kind]
        if rendered and layout.is_rendered:
            names += ", as the chat template writes it"
        left = sorted(self.left.items(), key=lambda item: -item[1])
        shown = ", ".join(f"{n!r} ({s / self.sampled:.0%} of the text)" for n, s in left[:MAX_LEFT])
        more = f" and {len(left) - MAX_LEFT} more" if len(left) > MAX_LEFT else ""
        return f"{what} {names}" + (f"; not {shown}{more} (--column counts others)" if left else "")


def group_of(path: str) -> Group | None:
    """The group of a known path, whatever its case; None for another one."""
    return _GROUP_OF.get(path.lower())


def usable(row: Message, path: str) -> bool:
    """Whether a row has at a known path what its group holds."""
    fits = _FITS[group_of(path) or "answer"]
    values = values_at(row, path)
    return bool(values) and all(map(fits, values))


def find_layout(
    rows: list[Message], columns: tuple[str, ...], roles: Roles, where: str
) -> FoundLayout:
    """Finds what is to be counted in rows like these.

    Args:
        rows: the first rows of a source.
        columns: the columns or paths that a person named; `()` to find them.
        roles: whose turns of a conversation count.
        where: name of the file, for messages.

    Raises:
        SourceError: a named column is not there, or none is known to hold what a model wrote.
    """
    missing = [path for path in columns if not any(values_at(row, path) for row in rows)]
    if missing and not any(path in row for path in missing for row in rows):
        raise SourceError(
            f"{where}: no column {missing[0]!r}",
            expected=f"one of {_names(rows)}",
            hint="name one of them with --column; a.b and a[].b lead into objects and lists",
        )
    paths = columns or tuple(dict.fromkeys(path for row in rows for path in _paths_of(row)))
    paths = paths or _empty_column(rows)
    if not paths:
        raise SourceError(
            f"{where}: not clear which column to count, there are {_names(rows)}",
            expected=f"a column that is known to hold what a model wrote ({_described(rows)})",
            hint="name it with --column; a.b and a[].b lead into objects and lists",
        )
    layout = _simple(rows, paths, roles)
    if layout is None:
        answer = any(group_of(path) in ANSWER_GROUPS for path in paths)
        layout = Layout("rows", paths[0], roles, paths, bool(columns), answer)
    sizes = Counter[str]()
    for row in rows:
        sizes.update({name: _size(value) for name, value in row.items() if _size(value)})
    taken = {steps_of(path)[0] for path in paths} | set(paths)
    left = {name: size for name, size in sizes.items() if name not in taken}
    return FoundLayout(layout, left, sum(sizes.values()))


def _paths_of(row: Message) -> list[str]:
    """The known paths that a row is counted by."""
    names = {name.lower(): name for name in row}
    for layout in LAYOUTS:
        paths = [_named_as(path, names) for path in layout.columns]
        found = next((path for path in paths if usable(row, path)), None)
        if found is None:
            continue
        if layout.group != "conversation":
            return [found]
        chosen = [_named_as(path, names) for path in COLUMNS["chosen"]]
        return [found, *[path for path in chosen if usable(row, path)][:1]]
    return []


def _empty_column(rows: list[Message]) -> tuple[str, ...]:
    """A known column without a value in these rows; later rows may have one."""
    names = {name for row in rows for name in row if not any(row.get(name) for row in rows)}
    known = (c for c in _GROUP_OF if c in names and _GROUP_OF[c] in ("conversation", "text", "ids"))
    return tuple(known)[:1]


def _named_as(path: str, names: dict[str, str]) -> str:
    """A known path with its first name written as the row writes it."""
    first, dot, rest = path.partition(".")
    return names.get(first, first) + dot + rest


def _simple(rows: list[Message], paths: tuple[str, ...], roles: Roles) -> Layout | None:
    """The layout of one plain column, None when rows have to be looked into."""
    path = paths[0]
    values = [row[path] for row in rows if row.get(path) is not None]
    if len(paths) > 1 or (not values and not any(path in row for row in rows)):
        return None
    answer = group_of(path) in ANSWER_GROUPS
    if answer and any(_reasoning(row) for row in rows):
        return None
    if any(_is_ids(row.get(ANSWERS_COLUMN)) for row in rows):  # rows that `collect` wrote
        return None
    first = next(filter(None, values), None)
    if _is_conversation(first) or (not values and group_of(path) == "conversation"):
        return Layout("chat", path, roles, answer=answer)
    if _is_ids(first):
        return Layout("ids", path, roles)
    if answer and any(isinstance(value, list | dict) for value in values):
        return None
    is_text = group_of(path) == "text" or not isinstance(first, list | dict)
    return Layout("text", path, roles, answer=answer) if is_text else None


def _is_ids(value: Any) -> bool:
    is_list = isinstance(value, list) and bool(value)
    return is_list and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def _is_conversation(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_turn, value))


def _has_text(value: Any) -> bool:
    try:
        return bool(documents_in(value, answer=True)) and not _is_ids(value)
    except ContentError:
        return False


_GROUP_OF: dict[str, Group] = {
    column: layout.group for layout in LAYOUTS for column in layout.columns
}
_FITS = {
    "conversation": _is_conversation,
    "chosen": _has_text,
    "log": _has_text,
    "answer": _has_text,
    "text": lambda value: isinstance(value, str | bytes),
    "ids": _is_ids,
}


def _reasoning(row: Message) -> str:
    named = {key.lower(): value for key, value in row.items()}
    return next((named[c] for c in REASONING_COLUMNS if isinstance(named.get(c), str)), "")


def _size(value: Any) -> int:
    """Characters of the text in a value, about."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(map(_size, value))
    return sum(map(_size, value.values())) if isinstance(value, dict) else 0


def _names(rows: list[Message]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(k for row in rows for k in row)) or (
        "no columns at all"
    )


def _described(rows: list[Message]) -> str:
    """The columns with their types and the beginning of a value."""
    values: dict[str, Any] = {}
    for row in rows:
        for name, value in row.items():
            if values.get(name) is None:
                values[name] = value
    return "; ".join(f"{name!r}, {_shown(value)}" for name, value in values.items()) or (
        "no columns at all"
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"an object with {', '.join(map(repr, list(value)[:6]))}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    cut = text[:SAMPLE_CHARS] + "…" * (len(text) > SAMPLE_CHARS)
    return f"{type(value).__name__} ({cut})"
