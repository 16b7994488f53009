"""Real tokenizers with their documents, and what the reference makes of them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tokenizers import Tokenizer

from real.documents import added_tokens, documents, training_texts
from real.npm import npm_tokenizer
from real.trained import train_unigram, train_wordpiece
from vocabfreq import FrequencyTable

Counts = npt.NDArray[np.int64]

NPM = ("llama3_1", "qwen3", "gemma3", "llama2", "deepseek_v3", "gptoss")
TRAINED = {"wordpiece": train_wordpiece, "unigram": train_unigram}
SUBJECTS = [*(pytest.param(name, marks=pytest.mark.real) for name in NPM), *TRAINED]


@dataclass(frozen=True)
class Subject:
    """A tokenizer under test.

    Attributes:
        name: of the tokenizer.
        folder: where its tokenizer.json is.
        covered: whether the fast engine takes it.
        corpus: its documents as JSON lines.
    """

    name: str
    folder: Path
    covered: bool
    corpus: Path

    @cached_property
    def texts(self) -> list[str]:
        """Its documents; the same list in every run."""
        return documents(added_tokens(self.folder / "tokenizer.json"))

    @cached_property
    def truth(self) -> Counts:
        """int64 [largest id met + 1], the counts of `texts` by definition."""
        return true_counts(self.folder, self.texts)


@lru_cache(maxsize=2)
def load_reference(path: Path) -> Tokenizer:
    """A tokenizer that neither pads nor truncates; loading one takes up to 1 s and 200 MB."""
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def true_counts(folder: Path, texts: Iterable[str]) -> Counts:
    """Encodes one text at a time, with nothing added, padded or cut."""
    tokenizer = load_reference(folder / "tokenizer.json")
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    return np.bincount(np.concatenate([np.asarray(i, np.int64) for i in ids]))


def assert_counts(table: FrequencyTable, truth: Counts) -> None:
    """Every id as often as the reference met it, held out or not; names the ids that are not."""
    found = (table.counts + table.heldout).sum(axis=0)
    wanted = np.zeros(table.rows, np.int64)
    wanted[: len(truth)] = truth
    wrong = np.flatnonzero(found != wanted)
    shown = {int(i): (int(found[i]), int(wanted[i])) for i in wrong[:10]}
    assert not len(wrong), f"{len(wrong)} ids, of them (found, wanted): {shown}"


def write_lines(path: Path, texts: Iterable[str]) -> Path:
    """Writes JSON lines with a `text` column; every other line escapes what is not ASCII."""
    lines = (json.dumps({"text": t}, ensure_ascii=n % 2 == 0) for n, t in enumerate(texts))
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8", newline="\n")
    return path


def load_subject(name: str, scratch: Path) -> Subject:
    if name in TRAINED:
        folder = TRAINED[name](training_texts(), scratch / "tokenizer")
    else:
        folder = npm_tokenizer(name)
    subject = Subject(name, folder, name in NPM, scratch / "corpus.jsonl")
    write_lines(subject.corpus, subject.texts)
    return subject
