"""Chat templates: the emitted text against transformers' own rendering, and hostile templates."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from vocabfreq.errors import TokenizerError
from vocabfreq.tokenizer import template_process
from vocabfreq.tokenizer.chat_template import (
    ChatTemplate,
    TemplateError,
    emitted_turns,
    read_chat_template,
)
from vocabfreq.tokenizer.rendering import TurnRenderer

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MISTRAL = (
    "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% if m.role == 'user' %}"
    "{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content.strip() + eos_token }}"
    "{% endif %}{% endfor %}"
)
PHI = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
COMMAND_R = (
    "{{ bos_token }}{% for m in messages %}{% set name = {'user': 'USER', 'assistant': 'CHATBOT', "
    "'system': 'SYSTEM'}[m.role] %}{{ '<|START_OF_TURN_TOKEN|><|' + name + '_TOKEN|>' + "
    "m.content.strip() + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"
)
HARMONY = (  # the layout of gpt-oss: channels, and another end for the last turn
    "{% for m in messages %}{% if m.role == 'assistant' %}{% if m.thinking and loop.last %}"
    "{{ '<|start|>assistant<|channel|>analysis<|message|>' + m.thinking + '<|end|>' }}{% endif %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + m.content }}{% if loop.last and not "
    "add_generation_prompt %}<|return|>{% else %}<|end|>{% endif %}{% else %}"
    "{{ '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
THINKING = (  # the generation prompt opens the reasoning, as DeepSeek-R1's and QwQ's do
    "{% for m in messages %}{% if m.role == 'assistant' %}{% set c = m.content %}{% if '</think>' "
    "in c %}{% set c = c.split('</think>')[-1] %}{% endif %}{{ '<A>' }}"
    "{% if m.reasoning_content and loop.last %}{{ '<think>\n' + m.reasoning_content + "
    "'</think>' }}{% endif %}{{ c + '<E>' }}"
    "{% else %}{{ '<U>' + m.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<A><think>\n' }}{% endif %}"
)
ENDS = ("<|im_end|>", "</s>", "<|end|>", "<|END_OF_TURN_TOKEN|>", "<|return|>", "<E>")
TOKENS = (("bos_token", "<s>"), ("eos_token", "</s>"))


def template(source: str) -> ChatTemplate:
    """A template with the special tokens of all styles."""
    return ChatTemplate(source, TOKENS, ENDS)


def chat(*turns: str, **last: Any) -> list[dict[str, Any]]:
    """User and assistant in turn; `last` goes into the last message."""
    roles = ("user", "assistant")
    messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(turns)]
    messages[-1] |= last
    return messages


def emitted(source: str, messages: list[dict[str, Any]]) -> list[str]:
    """The emitted turns, rendered in this process."""
    given = template(source)
    return emitted_turns(given, given.compile(), messages)


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (CHATML, "c d<|im_end|>"),
        (MISTRAL, " c d</s>"),
        (PHI, "c d<|end|>\n</s>"),
        (COMMAND_R, "c d<|END_OF_TURN_TOKEN|>"),
        (HARMONY, "<|channel|>final<|message|>c d<|return|>"),
    ],
)
def test_T1_a_turn_ends_with_its_end_of_turn_token(source: str, wanted: str) -> None:
    assert emitted(source, chat("a b", "c d")) == [wanted]


def test_T2_a_template_that_trims_or_branches_is_followed() -> None:
    assert emitted(COMMAND_R, chat("a", "\n c d ")) == ["c d<|END_OF_TURN_TOKEN|>"]
    assert emitted(THINKING, chat("a", "x</think>c d")) == ["c d<E>"]
    with TurnRenderer(template(THINKING)) as renderer:
        assert renderer.turns([chat("a", "x</think>c d"), chat("a", "c d")]) == [["c d<E>"]] * 2
        assert (renderer.rendered, renderer.learnt) == (1, 1)


def test_T3_each_turn_keeps_its_own_reasoning() -> None:
    messages = chat("a", "b", "c", "d")
    messages[1]["reasoning_content"], messages[3]["thinking"] = "r1", "r2"
    assert emitted(HARMONY, messages) == [
        f"<|channel|>analysis<|message|>{reasoning}<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{content}<|return|>"
        for reasoning, content in (("r1", "b"), ("r2", "d"))
    ]


def test_T5_a_template_that_raises_speaks_for_itself() -> None:
    wrong = [{"role": "assistant", "content": "c"}]
    with pytest.raises(TemplateError, match="^Conversation roles must alternate$"):
        emitted(MISTRAL, wrong)
    with TurnRenderer(template(MISTRAL)) as renderer:
        renderer.check()
        good, bad = renderer.turns([chat("a", "c"), wrong])
    assert good == [" c</s>"]
    assert str(bad) == "Conversation roles must alternate"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}"
            "{% endfor %}{% endfor %}{% endfor %}",
            "longer than",
        ),
        (
            "{% set n = namespace(x='ab' * 1000) %}{% for i in range(40) %}"
            "{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}",
            "more than 512 MB",
        ),
        ("{{ 'x' * 10**12 }}", "more than 512 MB"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "'__class__' .* is unsafe"),
        ("{{ messages.append(1) }}", "'append' .* is unsafe"),
        ("{% for %}", "not valid Jinja"),
    ],
    ids=["endless", "doubling", "product", "class", "changes", "syntax"],
)
def test_T6_hostile_templates_are_refused_in_bounds(
    source: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template_process, "SECONDS", 1.0)
    start = time.monotonic()
    with TurnRenderer(template(source)) as renderer, pytest.raises(TokenizerError, match=reason):
        renderer.check()
    assert time.monotonic() - start < template_process.SECONDS + template_process.GRACE_SECONDS


def test_T7_a_generation_prompt_that_opens_the_reasoning() -> None:
    assert emitted(THINKING, chat("a", "c d", reasoning_content="r")) == ["r</think>c d<E>"]
    assert emitted(THINKING, chat("a", "c d")) == ["c d<E>"]
    earlier = chat("a", "b", "c", "d", reasoning_content="r")
    earlier[1]["reasoning_content"] = "q"
    assert emitted(THINKING, earlier) == ["q</think>b<E>", "r</think>d<E>"]


@pytest.mark.parametrize("source", [CHATML, PHI, COMMAND_R, HARMONY, MISTRAL])
def test_learnt_turns_equal_rendered_ones(source: str) -> None:
    conversations = [
        chat("a", f" c {n}\n", *(["b", "\nd\n\n"] if n % 3 == 0 else [])) for n in range(40)
    ]
    conversations += [chat("a", ""), chat("a", "  "), chat("a", "c <|im_end|> d"), chat("a")]
    with TurnRenderer(template(source)) as renderer:
        found = renderer.turns(conversations)
        assert renderer.learnt == 41
        assert not renderer.differing
    assert found == [emitted(source, conversation) for conversation in conversations]


def test_a_difference_on_the_sample_ends_the_learning() -> None:
    # The content's length decides, which no literal of the template tells.
    source = CHATML.replace("m.content +", "(m.content | length) ~ m.content +")
    conversations = [chat("a", "c" * n) for n in range(1, 30)]
    with TurnRenderer(template(source)) as renderer:
        found = renderer.turns(conversations)
        assert renderer.differing
    assert found == [emitted(source, conversation) for conversation in conversations]


def test_a_template_is_found_in_its_file_or_in_the_config(tmp_path: Path) -> None:
    file = tmp_path / "chat_template.jinja"
    file.write_text("{{ 1 }}")
    config = {"chat_template": "{{ 2 }}", "eos_token": {"content": "</s>"}, "bos_token": None}
    assert read_chat_template(config, file, ["</s>"]) == ChatTemplate(
        "{{ 1 }}", (("eos_token", "</s>"),), ("</s>",)
    )
    several = [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]
    found = read_chat_template({"chat_template": several}, None, [])
    assert found is not None
    assert found.source == "d"
    assert read_chat_template({}, None, []) is None
    with pytest.raises(TokenizerError, match="at most 1,048,576"):
        read_chat_template({"chat_template": "x" * (1 << 21)}, None, [])


@pytest.fixture(scope="module", params=["qwen3", "llama3_1", "gemma3", "deepseek_v3"])
def real(request: pytest.FixtureRequest) -> tuple[ChatTemplate, Any]:
    """A real template, and transformers' rendering of it."""
    from real.npm import npm_tokenizer
    from transformers.utils.chat_template_utils import render_jinja_template

    folder = npm_tokenizer(request.param)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    found = read_chat_template(config, None, [a["content"] for a in added if a["special"]])
    assert found is not None

    def render(messages: list[dict[str, Any]], **options: Any) -> str:
        given = dict(found.tokens) | options
        texts, _ = render_jinja_template([messages], chat_template=found.source, **given)
        return str(texts[0])

    return found, render


@pytest.mark.real
def test_emitted_turns_stand_in_the_rendering_of_transformers(
    real: tuple[ChatTemplate, Any],
) -> None:
    found, render = real
    lines = (Path(__file__).parents[2] / "data" / "chat.jsonl").read_text().splitlines()[:300]
    conversations = [json.loads(line)["messages"] for line in lines]
    with TurnRenderer(found) as renderer:
        turns = renderer.turns(conversations)
    for messages, texts in zip(conversations, turns, strict=True):
        assert isinstance(texts, list)
        own = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
        for n, text in zip(own, texts, strict=True):
            prompt = render(messages[:n], add_generation_prompt=True)
            whole = render(messages[: n + 1])
            assert (prompt + text).rstrip() == whole.rstrip()
            assert text.endswith(found.ends)


@pytest.mark.real
@pytest.mark.parametrize("arguments", [{"city": "Paris", "n": 2}, '{"city": "Paris"}'])
def test_T4_tool_calls_are_written_as_transformers_writes_them(
    real: tuple[ChatTemplate, Any], arguments: Any
) -> None:
    found, render = real
    call = {"type": "function", "function": {"name": "weather", "arguments": arguments}}
    messages = chat("how is it?", "", tool_calls=[call])
    with TurnRenderer(found) as renderer:
        answer = renderer.turns([messages])[0]
    try:
        whole = render(messages)
    except Exception as error:
        assert str(answer) == str(error)  # noqa: PT017 both must fail in the same words
    else:
        assert isinstance(answer, list)
        assert (render(messages[:1], add_generation_prompt=True) + answer[0]).rstrip() == (
            whole.rstrip()
        )
