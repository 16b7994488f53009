"""Small tokenizers of the kinds that the fast engine does not cover, trained here, offline."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

VOCABULARY = 4_000


def train_wordpiece(texts: Sequence[str], folder: Path) -> Path:
    """A WordPiece tokenizer as BERT has it."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=VOCABULARY, limit_alphabet=1_000, special_tokens=special, show_progress=False
    )
    return _trained(tokenizer, trainer, texts, folder)


def train_unigram(texts: Sequence[str], folder: Path) -> Path:
    """A Unigram tokenizer as SentencePiece makes it, without byte fallback."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<unk>", "<s>", "</s>"],
        unk_token="<unk>",
        show_progress=False,
    )
    return _trained(tokenizer, trainer, texts, folder)


def _trained(
    tokenizer: Tokenizer, trainer: trainers.Trainer, texts: Sequence[str], folder: Path
) -> Path:
    tokenizer.train_from_iterator(texts, trainer)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
