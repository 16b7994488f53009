"""Text batches → token ids: the fast engine, the reference engine, the check between them.

The truth is `tokenizers.Tokenizer.encode(text, add_special_tokens=False)`, a text at a time, with
the padding and truncation of tokenizer.json switched off. Whatever is faster must agree with it.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from vocabfreq.errors import TokenizerError, first_line

EncoderName = Literal["auto", "gigatoken", "tokenizers"]

BATCH_BYTES = 1 << 20
SLOWER = "counting with tokenizers, which is often 20 times slower or more"
REBUILD_BYTES = 2 << 30  # gigatoken's caches grow for as long as it lives


class EncoderFailedError(Exception):
    """The fast engine broke down; the reference can still count the shard."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of a batch of texts.

    Attributes:
        ids: uint32 [N], the ids of all texts in a row.
        offsets: int64 [T+1], where each text starts.
    """

    ids: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]


def replaced(encoded: Encoded, places: list[int], by: Encoded) -> Encoded:
    """The same batch with the ids of some texts taken from another one.

    Args:
        encoded: all texts.
        places: ascending indices of the texts that are replaced.
        by: only those texts.
    """
    texts = np.split(encoded.ids, encoded.offsets[1:-1])
    for number, place in enumerate(places):
        texts[place] = by.ids[by.offsets[number] : by.offsets[number + 1]]
    offsets = np.zeros_like(encoded.offsets)
    np.cumsum([len(ids) for ids in texts], out=offsets[1:])
    return Encoded(np.concatenate(texts), offsets)


class TokenizersEncoder:
    """The reference engine.

    Attributes:
        name: of the engine.
        version: of its package.
        remark: what a person should know about its choice, "" for nothing.
    """

    name = "tokenizers"
    version = version("tokenizers")

    def __init__(self, path: Path, remark: str = "") -> None:
        self.path, self.remark = path, remark

    @cached_property
    def tokenizer(self) -> Any:
        """The `tokenizers.Tokenizer`, loaded when first needed."""
        return load_reference(self.path)

    def encode(self, texts: list[str]) -> Encoded:
        """Encodes in batches capped by bytes, since an Encoding is many times its text."""
        parts: list[npt.NDArray[np.uint32]] = []
        lengths: list[int] = []
        for batch in _capped(texts):
            for encoding in self.tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                parts.append(np.asarray(encoding.ids, np.uint32))
                lengths.append(len(parts[-1]))
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return Encoded(np.concatenate(parts) if parts else np.zeros(0, np.uint32), offsets)


def load_reference(path: Path) -> Any:
    """A `tokenizers.Tokenizer` that neither pads nor truncates.

    Raises:
        TokenizerError: the file is not a tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"{path} cannot be loaded by tokenizers: {error}") from None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _capped(texts: list[str]) -> list[list[str]]:
    batches: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size + len(text) > BATCH_BYTES and batches[-1]:
            batches.append([])
            size = 0
        batches[-1].append(text)
        size += len(text)
    return batches


class GigatokenEncoder:
    """The fast engine, for byte-level and SentencePiece-style BPE.

    Raises (from the constructor):
        EncoderFailedError: it is not installed, or does not cover this tokenizer.
    """

    name = "gigatoken"
    remark = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._build()
        self.version = version("gigatoken")

    def _build(self) -> None:
        try:
            # gigatoken imports it in its first call, and hands out lists when that is cut short.
            import awkward  # noqa: F401
            import gigatoken

            self._tokenizer = gigatoken.Tokenizer.from_json(self.path.read_bytes())
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
            raise
        except BaseException as error:  # a Rust panic is no Exception
            raise EncoderFailedError(first_line(error)) from None
        self._fed = 0

    def encode(self, texts: list[bytes]) -> Encoded:
        """Encodes UTF-8 on the calling thread; the caller runs several processes instead."""
        if self._fed > REBUILD_BYTES:
            self._build()
        self._fed += sum(map(len, texts))
        try:
            encoded = self._tokenizer.encode_batch(texts, parallel=False)
            if isinstance(encoded, list):  # it has swallowed Ctrl-C while it made an array
                raise KeyboardInterrupt
            layout = encoded.layout
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
            raise
        except BaseException as error:
            raise EncoderFailedError(first_line(error)) from None
        return Encoded(np.asarray(layout.content.data), np.asarray(layout.offsets.data))


Encoder = TokenizersEncoder | GigatokenEncoder


def make_encoder(name: EncoderName, path: Path) -> Encoder:
    """The engine asked for; `auto` takes the fast one where it works.

    Raises:
        TokenizerError: `gigatoken` was asked for by name and cannot do it.
    """
    if name == "tokenizers":
        return TokenizersEncoder(path)
    try:
        return GigatokenEncoder(path)
    except EncoderFailedError as error:
        if name == "gigatoken":
            raise TokenizerError(
                f"gigatoken cannot take this tokenizer: {error}",
                hint="use --encoder auto, which falls back to tokenizers",
            ) from None
        return TokenizersEncoder(path, f"{SLOWER} (gigatoken cannot: {error})")
