"""Fixtures of real tokenizers with their documents."""

from collections.abc import Callable

import pytest
from real.subjects import SUBJECTS, Subject, load_reference, load_subject


@pytest.fixture(scope="session")
def make_subject(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Subject]:
    """Gives a tokenizer with its documents by name, each made once."""
    made: dict[str, Subject] = {}

    def make(name: str) -> Subject:
        if name not in made:
            made[name] = load_subject(name, tmp_path_factory.mktemp(name))
        return made[name]

    return make


@pytest.fixture(autouse=True)
def _load_references_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine keeps nothing of a text; the fast one is loaded anew each time."""
    monkeypatch.setattr("vocabfreq.tokenizer.encoders.load_reference", load_reference)


@pytest.fixture(scope="session", params=SUBJECTS)
def subject(request: pytest.FixtureRequest, make_subject: Callable[[str], Subject]) -> Subject:
    """Each tokenizer in turn."""
    return make_subject(request.param)


@pytest.fixture(scope="session")
def llama3(make_subject: Callable[[str], Subject]) -> Subject:
    """Llama 3.1: byte-level BPE."""
    return make_subject("llama3_1")


@pytest.fixture(scope="session")
def gemma3(make_subject: Callable[[str], Subject]) -> Subject:
    """Gemma 3: BPE in the manner of SentencePiece, 262,144 ids and one beyond."""
    return make_subject("gemma3")
