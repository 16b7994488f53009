"""vocabfreq: token frequencies for drafting with a pruned vocabulary.

The names below load what they need when first used; `import vocabfreq` alone loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabfreq.checkpoints.checking import check_drafter
    from vocabfreq.checkpoints.pruning import prune_drafter
    from vocabfreq.counting import count
    from vocabfreq.errors import VocabfreqError
    from vocabfreq.frequencies import FrequencyTable
    from vocabfreq.planning import CountOptions
    from vocabfreq.sources.plan import Source
    from vocabfreq.tokenizer import load_tokenizer
    from vocabfreq.vocab import DraftVocab

_HOMES = {
    "CountOptions": "vocabfreq.planning",
    "DraftVocab": "vocabfreq.vocab",
    "FrequencyTable": "vocabfreq.frequencies",
    "Source": "vocabfreq.sources.plan",
    "VocabfreqError": "vocabfreq.errors",
    "check_drafter": "vocabfreq.checkpoints.checking",
    "count": "vocabfreq.counting",
    "load_tokenizer": "vocabfreq.tokenizer",
    "prune_drafter": "vocabfreq.checkpoints.pruning",
}

__all__ = [
    "CountOptions",
    "DraftVocab",
    "FrequencyTable",
    "Source",
    "VocabfreqError",
    "check_drafter",
    "count",
    "load_tokenizer",
    "prune_drafter",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'vocabfreq' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
