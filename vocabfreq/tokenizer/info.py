"""Reads the facts about a tokenizer that counting needs: fingerprint, rows and special ids.

Only `tokenizer.json` and the small JSON files next to it are read; no code of a repo runs. The
vocabulary is parsed without building the tokenizer, which the workers do.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from vocabfreq.errors import TokenizerError
from vocabfreq.storage.resolve import Folder, open_folder
from vocabfreq.tokenizer.chat_template import TEMPLATE_FILE, ChatTemplate, read_chat_template

_BYTE_TOKEN = re.compile(r"^<0x[0-9A-F]{2}>$")


@dataclass(frozen=True)
class TokenizerInfo:
    """The facts about a tokenizer that counting and frequency files need.

    Attributes:
        name: folder name or repo id.
        revision: commit on the Hub, None for a local one.
        sha256: of tokenizer.json.
        size: how many ids it can emit below `rows`.
        rows: V, rows of the target's lm_head.
        absent: ranges [start, stop) of ids below `rows` that it cannot emit.
        special_ids: ids of the tokens that it calls special.
        stop_ids: ids that end a generation.
        template_ids: ids of the tokens that the chat template writes, and of BOS and EOS.
        byte_ids: ids of the byte tokens: the letters of byte-level BPE, or <0x00> … <0xFF>; some
            tokenizers lack a few.
        path: local path of tokenizer.json.
        chat_template: the chat template, None when it has none.
        special_tokens: texts of the tokens that it calls special, by which turns end.
        remarks: what is odd about its files.
    """

    name: str
    revision: str | None
    sha256: str
    size: int
    rows: int
    absent: tuple[tuple[int, int], ...]
    special_ids: tuple[int, ...]
    stop_ids: tuple[int, ...]
    template_ids: tuple[int, ...]
    byte_ids: tuple[int, ...]
    path: Path
    chat_template: ChatTemplate | None = None
    special_tokens: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


class _AddedToken(msgspec.Struct):
    id: int
    content: str
    special: bool = False


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[tuple[str, float]]


class _TokenizerJson(msgspec.Struct):
    """The parts of tokenizer.json that are read; merges are skipped."""

    model: _Model
    added_tokens: list[_AddedToken] = []
    pre_tokenizer: Any = None
    decoder: Any = None


def load_tokenizer(spec: str, model_config: str | None = None) -> TokenizerInfo:
    """Reads the facts about a tokenizer.

    Args:
        spec: a tokenizer.json, a folder that has one, or `owner/name[@revision]`.
        model_config: a folder or repo with `config.json` (or that file), which gives V and the
            stop ids. Default: a `config.json` next to the tokenizer; without one, V is the largest
            id plus one.

    Raises:
        TokenizerError: a file is missing or malformed.
    """
    folder = _open_folder(spec)
    path = _tokenizer_path(spec, folder)
    data = path.read_bytes()
    parsed = _parse(data, path)
    vocab = _vocabulary(parsed)
    configs = _configs(_open_folder(model_config) if model_config else folder)
    tokenizer_config = _read(folder, "tokenizer_config.json")
    if model_config and not configs[0]:
        raise TokenizerError(f"{model_config!r} has no config.json", hint="check --model-config")
    rows = _rows(configs[0]) or max(vocab.values()) + 1
    ids = {i for i in vocab.values() if i < rows}
    special_tokens = tuple(sorted(a.content for a in parsed.added_tokens if a.special))
    return TokenizerInfo(
        name=folder.name,
        revision=folder.revision,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(ids),
        rows=rows,
        absent=tuple(_missing_ranges(ids, rows)),
        special_ids=_valid_ids((a.id for a in parsed.added_tokens if a.special), rows),
        stop_ids=_valid_ids(_config_ids("eos", configs, tokenizer_config, vocab), rows),
        template_ids=_valid_ids(
            [
                *_config_ids("bos", configs, tokenizer_config, vocab),
                *_config_ids("eos", configs, tokenizer_config, vocab),
                *_template_ids(_template(folder, tokenizer_config), parsed.added_tokens),
            ],
            rows,
        ),
        byte_ids=_valid_ids(_byte_ids(vocab, parsed), rows),
        path=path,
        chat_template=read_chat_template(
            tokenizer_config, folder.file(TEMPLATE_FILE), special_tokens
        ),
        special_tokens=special_tokens,
        remarks=_stop_ids_beyond(configs, rows),
    )


def _stop_ids_beyond(configs: tuple[dict[str, Any], dict[str, Any]], rows: int) -> tuple[str, ...]:
    """A remark for each stop id that the model has no row for."""
    return tuple(
        f"{name} names the stop id {stop}, but the model has {rows:,} rows: it is left out"
        for name, config in zip(("config.json", "generation_config.json"), configs, strict=True)
        for stop in _config_ids("eos", (config,), {}, {})
        if isinstance(stop, int) and stop >= rows
    )


def _open_folder(spec: str) -> Folder:
    path = Path(spec).expanduser()
    if path.is_file():
        return Folder(path.resolve().parent.name, root=path.parent)
    return open_folder(spec, TokenizerError)


def _tokenizer_path(spec: str, folder: Folder) -> Path:
    given = Path(spec).expanduser()
    path = given if given.is_file() else folder.file("tokenizer.json")
    if path is None:
        raise TokenizerError(
            f"{spec!r} has no tokenizer.json",
            expected="a tokenizer in the format of the tokenizers library",
            hint="save it with AutoTokenizer.from_pretrained(…).save_pretrained(folder)",
        )
    return path


def _parse(data: bytes, path: Path) -> _TokenizerJson:
    try:
        return msgspec.json.decode(data, type=_TokenizerJson)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise TokenizerError(
            f"{path} is not a tokenizer.json: {error}",
            expected="the JSON that the tokenizers library writes",
        ) from None


def _vocabulary(parsed: _TokenizerJson) -> dict[str, int]:
    vocab = parsed.model.vocab
    if isinstance(vocab, list):
        vocab = {token: i for i, (token, _) in enumerate(vocab)}
    vocab = vocab | {added.content: added.id for added in parsed.added_tokens}
    if not vocab or min(vocab.values()) < 0:
        raise TokenizerError("the tokenizer has no tokens, or negative ids")
    return vocab


def _configs(folder: Folder) -> tuple[dict[str, Any], dict[str, Any]]:
    return _read(folder, "config.json"), _read(folder, "generation_config.json")


def _read(folder: Folder, name: str) -> dict[str, Any]:
    path = folder.file(name)
    if path is None:
        return {}
    try:
        loaded = json.loads(path.read_bytes())
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON: {error}") from None
    return loaded if isinstance(loaded, dict) else {}


def _rows(config: dict[str, Any]) -> int | None:
    text_config = config.get("text_config")
    inner = text_config.get("vocab_size") if isinstance(text_config, dict) else None
    rows = config.get("vocab_size")
    rows = inner if rows is None else rows
    if rows is None:
        return None
    if not isinstance(rows, int) or isinstance(rows, bool) or rows < 1:
        raise TokenizerError(f"config.json says vocab_size {rows!r}", expected="a positive number")
    return rows


def _config_ids(
    role: str,
    configs: Iterable[dict[str, Any]],
    tokenizer_config: dict[str, Any],
    vocab: dict[str, int],
) -> Iterable[Any]:
    """The ids that the configs give for `bos` or `eos`: one, a list of them, or a token's."""
    for config in configs:
        inner = config.get("text_config")
        for holder in (config, inner if isinstance(inner, dict) else {}):
            ids = holder.get(f"{role}_token_id")
            yield from ids if isinstance(ids, list) else [ids]
    token = tokenizer_config.get(f"{role}_token")
    yield vocab.get(str(token.get("content") if isinstance(token, dict) else token), -1)


def _template(folder: Folder, tokenizer_config: dict[str, Any]) -> str:
    """The text of the chat templates, which is searched and never run."""
    path = folder.file(TEMPLATE_FILE)
    separate = path.read_text("utf-8", errors="replace") if path else ""
    return separate + json.dumps(tokenizer_config.get("chat_template", ""), ensure_ascii=False)


def _template_ids(template: str, added: Iterable[_AddedToken]) -> Iterable[int]:
    return (token.id for token in added if token.content and token.content in template)


def _valid_ids(ids: Iterable[Any], rows: int) -> tuple[int, ...]:
    return tuple(sorted({i for i in ids if isinstance(i, int) and 0 <= i < rows}))


def _byte_ids(vocab: dict[str, int], parsed: _TokenizerJson) -> list[int]:
    if _has_type(parsed.pre_tokenizer, "ByteLevel") or _has_type(parsed.decoder, "ByteLevel"):
        return [vocab[letter] for letter in byte_letters() if letter in vocab]
    return [i for token, i in vocab.items() if _BYTE_TOKEN.match(token)]


def _has_type(part: Any, kind: str) -> bool:
    """Whether a component of tokenizer.json, or one inside its Sequence, has a type."""
    if isinstance(part, list):
        return any(_has_type(inner, kind) for inner in part)
    if not isinstance(part, dict):
        return False
    inner = [part.get("pretokenizers"), part.get("decoders")]
    return part.get("type") == kind or _has_type(inner, kind)


def byte_letters() -> list[str]:
    """The 256 letters by which byte-level BPE writes bytes, in byte order (GPT-2's encoder.py)."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(256) if byte not in letters)
    letters.update({byte: chr(256 + n) for n, byte in enumerate(others)})
    return [letters[byte] for byte in range(256)]


def _missing_ranges(ids: set[int], rows: int) -> Iterable[tuple[int, int]]:
    previous = 0
    for i in [*sorted(ids), rows]:
        if i > previous:
            yield previous, i
        previous = i + 1
