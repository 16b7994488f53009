"""What a sweep is of: lists whose product makes the runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal

from vocabfreq.checkpoints.config import read_config
from vocabfreq.errors import EvaluationError
from vocabfreq.formats.choosing import choose
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval.engines import engine_of
from vocabfreq.measure.eval.spec import Prompt, RunSpec
from vocabfreq.tokenizer.fingerprint import check_tokenizers, local_folders

COMMON = (  # of a plan and each of its runs
    "engine",
    "target",
    "max_tokens",
    "dtype",
    "prompts",
    "options",
    "allow_other_tokenizer",
)
Size = int | Literal["full", "ids"]


@dataclass(frozen=True)
class Plan:
    """A sweep.

    Attributes:
        engine: its name in `engines`.
        target: folder or Hub repo.
        drafter: of the drafter, `self`, or None for plain decoding alone.
        vocab: frequency file, file of ids, or Hub repo.
        sizes: K, or `full`, or `ids` for a vocab whose ids are chosen already.
        spec_tokens: tokens drafted in one step.
        batch_sizes: requests at a time.
        max_tokens: most tokens generated for a prompt.
        dtype: `bfloat16`, `float16` or `float32`.
        prompts: text, or the messages of a chat.
        options: for the engine.
        allow_other_tokenizer: take ids that were counted with another tokenizer.json than the
            target's.
    """

    engine: str
    target: str
    drafter: str | None = None
    vocab: str | None = None
    sizes: tuple[Size, ...] = ("full",)
    spec_tokens: tuple[int, ...] = (3,)
    batch_sizes: tuple[int, ...] = (1,)
    max_tokens: int = 128
    dtype: str = "bfloat16"
    prompts: tuple[Prompt, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    allow_other_tokenizer: bool = False

    def specs(self) -> list[RunSpec]:
        """Every run: for each batch size plain decoding, then each size at each number of tokens.

        Raises:
            EvaluationError: a size without a vocabulary, or what the engine cannot do.
            SelectionError: a size that cannot be met.
            MismatchError: the ids were counted with another tokenizer than the target's.
            MissingExtraError: what the engine needs is not installed.

        Nothing has been run when one is raised.
        """
        self._check()
        return list(self._specs())

    def _check(self) -> None:
        engine = engine_of(self.engine)
        largest = engine.largest_batch
        if self.drafter == "self" and not engine.takes_self:
            raise EvaluationError(
                f"drafter 'self' with --engine {self.engine}",
                expected="folder or repo of a drafter",
            )
        if largest is not None and max(self.batch_sizes) > largest:
            raise EvaluationError(
                f"batch size {max(self.batch_sizes)} with --engine {self.engine}",
                expected=f"at most {largest}",
                hint="larger batches: --engine vllm",
            )
        if self.drafter is not None and self.vocab is None and set(self.sizes) != {"full"}:
            raise EvaluationError("sizes without a vocabulary", expected="--vocab FILE|REPO")
        if self.drafter is not None:
            _ = self.remarks  # chooses the ids, and holds their tokenizer against the target's

    def _specs(self) -> Iterator[RunSpec]:
        plain = RunSpec(**{name: getattr(self, name) for name in COMMON})
        for batch in self.batch_sizes:
            yield replace(plain, batch_size=batch)
            for tokens, size in product(self.spec_tokens, self.sizes):
                if self.drafter is not None:
                    yield replace(
                        plain,
                        drafter=self.drafter,
                        vocab=None if size == "full" else self.vocab,
                        size=size if isinstance(size, int) else None,
                        spec_tokens=tokens,
                        batch_size=batch,
                    )

    @cached_property
    def vocabs(self) -> dict[int | None, DraftVocab]:
        """The kept ids of each size that prunes; None stands for ids that are chosen already."""
        sizes = {size if isinstance(size, int) else None for size in self.sizes if size != "full"}
        return {size: self._choose(size) for size in sizes}

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What is odd about the kept ids and was allowed.

        Raises:
            MismatchError: they were counted with another tokenizer, which was not allowed.
        """
        folders = local_folders(self.target)
        counted = {vocab.tokenizer for vocab in self.vocabs.values()}  # one file, so one at most
        return tuple(
            remark
            for tokenizer in counted
            for remark in check_tokenizers(tokenizer, folders, self.allow_other_tokenizer)
        )

    def _choose(self, size: int | None) -> DraftVocab:
        folder = Path(self.target)
        rows = read_config(folder).size("vocab_size") if folder.is_dir() else None
        assert self.vocab is not None
        return choose(self.vocab, {} if size is None else {"size": size}, rows)
