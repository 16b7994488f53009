"""Names that several verbs take as options; they mirror those of the library, and load nothing."""

from enum import StrEnum


class FormatChoice(StrEnum):
    """What to write."""

    draft_vocab = "draft-vocab"
    token_map = "token-map"  # noqa: S105 (no password)
    token_freq = "token-freq"  # noqa: S105 (no password)
    vocab_freq = "vocab-freq"
    npy = "npy"
    mapping = "mapping"
    modelopt = "modelopt"
    nemo = "nemo"
    json = "json"


class KindChoice(StrEnum):
    """What a file is."""

    auto = "auto"
    token_map = "token-map"  # noqa: S105 (no password)
    vocab_freq = "vocab-freq"
    token_freq = "token-freq"  # noqa: S105 (no password)
    npy = "npy"
    mapping = "mapping"
    modelopt = "modelopt"
    nemo = "nemo"
    checkpoint = "checkpoint"
    json = "json"
    text = "text"
    draft_vocab = "draft-vocab"
    frequency = "frequency"


class PinsChoice(StrEnum):
    """What is kept whatever its count."""

    default = "default"
    special = "special"
    none = "none"
