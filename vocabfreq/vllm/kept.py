"""Which ids a target's drafter keeps: what is asked for, held against the target's configuration.

Asked twice: when the engine is configured, before a weight is read, and by whoever prunes.
"""

from typing import Any

from vocabfreq.errors import RefusedError
from vocabfreq.formats.choosing import choose
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.tokenizer.fingerprint import check_tokenizers, local_folders
from vocabfreq.vllm.config import Asked


def kept_ids(asked: Asked, config: Any) -> tuple[DraftVocab, list[str]]:
    """The ids, and remarks for the log.

    Args:
        asked: which ids.
        config: the target's `ModelConfig`.

    Raises:
        RefusedError: they are for another number of rows.
        MismatchError: they were counted with another tokenizer.
        SelectionError: the wish cannot be met.
        FileFormatError: the vocabulary cannot be read.
    """
    rows = int(config.get_vocab_size())
    vocab = choose(asked.vocab, asked.wish, rows)
    if vocab.rows != rows:
        raise RefusedError(
            f"the vocabulary {asked.vocab!r} is for V = {vocab.rows:,}, the target has {rows:,}",
            expected="one number of rows",
            hint="take ids that were counted for this target",
        )
    folders = local_folders(str(config.tokenizer), getattr(config, "tokenizer_revision", None))
    return vocab, list(check_tokenizers(vocab.tokenizer, folders, asked.allow_other_tokenizer))
