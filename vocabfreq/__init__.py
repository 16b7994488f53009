"""vocabfreq: token frequencies for drafting with a pruned vocabulary.

The names below load what they need when first used; `import vocabfreq` alone loads nothing heavy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabfreq.checkpoints.checks import check_drafter
    from vocabfreq.checkpoints.pruning import prune_drafter
    from vocabfreq.corpus.sources import Source
    from vocabfreq.counting.build import count
    from vocabfreq.counting.plan import CountOptions
    from vocabfreq.errors import VocabfreqError
    from vocabfreq.frequencies.draft_vocab import DraftVocab
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.tokenizer.info import load_tokenizer

_HOMES = {
    "CountOptions": "vocabfreq.counting.plan",
    "DraftVocab": "vocabfreq.frequencies.draft_vocab",
    "FrequencyTable": "vocabfreq.frequencies.table",
    "Source": "vocabfreq.corpus.sources",
    "VocabfreqError": "vocabfreq.errors",
    "check_drafter": "vocabfreq.checkpoints.checks",
    "count": "vocabfreq.counting.build",
    "load_tokenizer": "vocabfreq.tokenizer.info",
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
