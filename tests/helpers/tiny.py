"""Tokenizers of a few hundred tokens, made here so that no test needs a network."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from vocabfreq import CountOptions, FrequencyTable, Source
from vocabfreq.counting.build import run_plan
from vocabfreq.counting.merging import Report
from vocabfreq.counting.plan import make_plan
from vocabfreq.tokenizer.info import byte_letters, load_tokenizer

MERGES = [("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("a", "b"), ("ab", "c"), ("l", "l"), ("ll", "o")]
SPECIAL = ["<|endoftext|>", "<|im_end|>"]
Lines = Callable[..., Path]


def tiny_tokenizer() -> Tokenizer:
    """Byte-level BPE: 256 byte letters, 7 merges, 2 special tokens; 265 ids."""
    letters = {letter: i for i, letter in enumerate(byte_letters())}
    vocab = letters | {a + b: 256 + n for n, (a, b) in enumerate(MERGES)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=MERGES))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, **configs: dict[str, Any]) -> Path:
    """Writes tokenizer.json and the given JSON files (`config={...}` → config.json)."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def truth(tok: Path, texts: Iterable[str], rows: int = 265) -> npt.NDArray[np.int64]:
    """The counts by definition: `encode` one text at a time, nothing added, padded or cut."""
    tokenizer = Tokenizer.from_file(str(tok / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    counts = np.zeros(rows, np.int64)
    for text in texts:
        np.add.at(counts, tokenizer.encode(text, add_special_tokens=False).ids, 1)
    return counts


def report(
    tok: Path, *sources: str | Source, options: CountOptions | None = None, **fields: Any
) -> Report:
    """Counts in this process and gives everything there is to say."""
    options = options or CountOptions(workers=0, holdout=0, **fields)
    return run_plan(make_plan(sources, load_tokenizer(str(tok)), options))


def total(table: FrequencyTable) -> npt.NDArray[np.int64]:
    """All counts of a table, held out or not."""
    counts: npt.NDArray[np.int64] = (table.counts + table.heldout).sum(axis=0)
    return counts
