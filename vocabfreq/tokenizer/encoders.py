"""Text batches → token ids, by a fast engine or by the reference.

The reference is `tokenizers.Tokenizer.encode(text, add_special_tokens=False)`, a text at a time,
with the padding and truncation of tokenizer.json switched off. Every faster engine must give the
same ids; `crosscheck` compares them.
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

_BATCH_BYTES = 1 << 20
_SLOWER = "counting with tokenizers, which is often 20 times slower or more"
_REBUILD_BYTES = 2 << 30  # gigatoken's caches grow without bound


class EncoderFailedError(Exception):
    """The fast engine failed; the reference can still count the shard."""


@dataclass(frozen=True)
class Encoded:
    """Token ids of a batch of texts.

    Attributes:
        ids: uint32 [N], the ids of all texts in a row.
        offsets: int64 [T+1], where each text starts.
    """

    ids: npt.NDArray[np.uint32]
    offsets: npt.NDArray[np.int64]

    def __getitem__(self, index: int) -> npt.NDArray[np.uint32]:
        """The ids of one text."""
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def replace(self, indices: list[int], other: "Encoded") -> "Encoded":
        """The same batch with the ids of some texts taken from another one.

        Args:
            indices: ascending indices of the texts to replace.
            other: those texts alone, in the same order.
        """
        texts = np.split(self.ids, self.offsets[1:-1])
        for number, index in enumerate(indices):
            texts[index] = other[number]
        offsets = np.zeros_like(self.offsets)
        np.cumsum([len(ids) for ids in texts], out=offsets[1:])
        return Encoded(np.concatenate(texts), offsets)


class TokenizersEncoder:
    """The reference engine.

    Attributes:
        name: of the engine.
        version: of its package.
        remark: warning for the user when `auto` falls back to this engine, else "".
    """

    name = "tokenizers"
    version = version("tokenizers")

    def __init__(self, path: Path, remark: str = "") -> None:
        self.path, self.remark = path, remark

    @cached_property
    def tokenizer(self) -> Any:
        """The `tokenizers.Tokenizer`, loaded at the first use."""
        return load_reference(self.path)

    def encode(self, texts: list[str]) -> Encoded:
        """Encodes in batches capped by bytes, since an Encoding is many times its text."""
        parts: list[npt.NDArray[np.uint32]] = []
        lengths: list[int] = []
        for batch in _batches(texts):
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


def _batches(texts: list[str]) -> list[list[str]]:
    batches: list[list[str]] = [[]]
    size = 0
    for text in texts:
        if size + len(text) > _BATCH_BYTES and batches[-1]:
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
            # gigatoken imports it in its first call, and returns lists when Ctrl-C interrupts that.
            import awkward  # noqa: F401
            import gigatoken

            self._tokenizer = gigatoken.Tokenizer.from_json(self.path.read_bytes())
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
            raise
        except BaseException as error:  # a Rust panic is not an Exception
            raise EncoderFailedError(first_line(error)) from None
        self._fed = 0

    def encode(self, texts: list[bytes]) -> Encoded:
        """Encodes UTF-8 on the calling thread; callers run several processes for more speed."""
        if self._fed > _REBUILD_BYTES:
            self._build()
        self._fed += sum(map(len, texts))
        try:
            encoded = self._tokenizer.encode_batch(texts, parallel=False)
            if isinstance(encoded, list):  # gigatoken swallowed Ctrl-C, see above
                raise KeyboardInterrupt
            layout = encoded.layout
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
            raise
        except BaseException as error:
            raise EncoderFailedError(first_line(error)) from None
        return Encoded(np.asarray(layout.content.data), np.asarray(layout.offsets.data))


Encoder = TokenizersEncoder | GigatokenEncoder


def make_encoder(name: EncoderName, path: Path) -> Encoder:
    """Opens an engine by name; `auto` is the fast one, or the reference where that fails.

    Raises:
        TokenizerError: the name is `gigatoken`, and gigatoken does not cover this tokenizer.
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
        return TokenizersEncoder(path, f"{_SLOWER} (gigatoken failed: {error})")
