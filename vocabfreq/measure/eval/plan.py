"""The plan of a sweep, the spec and result of each run, and the engines that run them.

A plan holds lists whose product makes the runs. Specs and results are JSON files between the
processes; an engine applies the chat template to prompts that are lists of messages, and takes text
as it is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from vocabfreq.checkpoints.config import read_config
from vocabfreq.errors import EvaluationError
from vocabfreq.formats.reading import load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval.engines import find_engine
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.tokenizer.fingerprint import check_tokenizers, local_folders

Prompt = str | list[dict[str, Any]]
Size = int | Literal["full", "ids"]
DraftStep = tuple[list[int], int]  # the drafted target ids, and how many were accepted


@dataclass(frozen=True)
class EvalOptions:
    """What all runs of a sweep share.

    Attributes:
        engine: its name in `ENGINES`.
        target: folder or Hub repo of the target.
        drafter: folder or Hub repo; `self` where the target drafts for itself; None for plain
            decoding.
        vocab: frequency file, file of ids, or Hub repo; None for the full head.
        max_tokens: most tokens generated per prompt.
        dtype: `bfloat16`, `float16` or `float32`.
        prompts: text, or the messages of a chat.
        options: of the engine.
        allow_other_tokenizer: accept ids counted with another tokenizer.json than the target's.
    """

    engine: str
    target: str
    drafter: str | None = None
    vocab: str | None = None
    max_tokens: int = 128
    dtype: str = "bfloat16"
    prompts: tuple[Prompt, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    allow_other_tokenizer: bool = False


@dataclass(frozen=True)
class RunSpec(EvalOptions):
    """One run of one engine.

    Attributes:
        size: K; None for the full head, and for a file of ids that are already chosen.
        spec_tokens: tokens drafted per step, 0 for plain decoding.
        batch_size: most requests at a time.
    """

    size: int | None = None
    spec_tokens: int = 0
    batch_size: int = 1

    @property
    def pruned(self) -> bool:
        """Whether the drafter's head is pruned."""
        return self.vocab is not None

    @property
    def method(self) -> str:
        """Its name in the table; the engine option `method` names the unpruned drafter."""
        if self.drafter is None:
            return "vanilla"
        full = "eagle" if self.engine == "vllm" else "self" if self.self_drafting else "draft model"
        return "fr-spec" if self.pruned else str(self.options.get("method", full))

    @property
    def self_drafting(self) -> bool:
        """Whether target and drafter are one model."""
        return self.drafter in ("self", self.target)

    @property
    def label(self) -> str:
        """A short description that is unique in a sweep."""
        if self.drafter is None:
            return f"vanilla, B = {self.batch_size}"
        head = f"K = {self.size:,}" if self.size is not None else "full head"
        head = "its own ids" if self.pruned and self.size is None else head
        return f"{self.method}, {head}, {self.spec_tokens} spec tokens, B = {self.batch_size}"


@dataclass(frozen=True)
class RunResult:
    """Output and measurements of one run.

    Attributes:
        outputs: of each prompt, the generated target ids, a stop id included.
        prompt_ids: of each prompt, its ids.
        seconds: of generating for all prompts, prefill included, loading and warm-up not.
        drafts: steps that drafted.
        draft_tokens: tokens drafted.
        accepted: drafted tokens that the target accepted.
        accepted_per_position: the same for the first, second, … drafted token.
        draft_seconds_per_step: mean seconds of drafting all the tokens of one step; None where it
            was not measured.
        target_seconds_per_forward: mean seconds of the target's forward that verifies one step, or
            gives one token in plain decoding; prefill not included.
        coverage: share of counted tokens whose id is kept; None where unknown.
        notes: remarks for the reader of the table.
        versions: package → version.
        draft_steps: drafted ids and accepted number of each step; None where unknown.
        ended_at: ISO 8601 in UTC; empty where unknown.
    """

    outputs: list[list[int]]
    prompt_ids: list[list[int]]
    seconds: float
    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    draft_seconds_per_step: float | None = None
    target_seconds_per_forward: float | None = None
    coverage: float | None = None
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    draft_steps: list[DraftStep] | None = None
    ended_at: str = ""

    @property
    def acceptance_length(self) -> float:
        """Mean tokens produced per target step: the drafted ones accepted, plus one."""
        return 1 + self.accepted / self.drafts if self.drafts else 1.0

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """Share of steps in which the first, second, … drafted token was accepted."""
        return tuple(n / self.drafts for n in self.accepted_per_position) if self.drafts else ()

    @property
    def tokens_per_second(self) -> float:
        """Generated tokens by seconds."""
        return sum(map(len, self.outputs)) / self.seconds if self.seconds else 0.0

    @property
    def forward_ratio(self) -> float | None:
        """Seconds of drafting in one step by seconds of the target's forward that verifies it."""
        draft, target = self.draft_seconds_per_step, self.target_seconds_per_forward
        return draft / target if draft is not None and target else None


T = TypeVar("T", RunSpec, RunResult)


def save(path: Path, value: RunSpec | RunResult) -> None:
    """Writes a spec or result as JSON, atomically."""
    write_atomically(path, msgspec.json.encode(value))


def load(path: Path, kind: type[T]) -> T:
    """Reads a spec or result.

    Raises:
        EvaluationError: the file does not hold one.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EvaluationError(f"{path}: {error}", expected=f"a {kind.__name__} as JSON") from None


@dataclass(frozen=True)
class Plan(EvalOptions):
    """A sweep: plain decoding at each batch size, and the product of all three lists.

    Attributes:
        sizes: K, or `full`, or `ids` for a vocabulary whose ids are already chosen.
        spec_tokens: tokens drafted per step.
        batch_sizes: requests at a time.
    """

    sizes: tuple[Size, ...] = ("full",)
    spec_tokens: tuple[int, ...] = (3,)
    batch_sizes: tuple[int, ...] = (1,)

    def specs(self) -> list[RunSpec]:
        """Every run; nothing has been run when an error is raised.

        Raises:
            EvaluationError: sizes without a vocabulary, or something that the engine cannot do.
            SelectionError: a size that cannot be selected.
            MismatchError: the ids were counted with another tokenizer than the target's.
            MissingExtraError: a package of the engine is not installed.
        """
        self._check()
        return list(self._specs())

    def _check(self) -> None:
        engine = find_engine(self.engine)
        if self.drafter == "self" and not engine.self_drafting:
            raise EvaluationError(
                f"drafter 'self' with --engine {self.engine}",
                expected="folder or repo of a drafter",
            )
        if engine.max_batch_size is not None and max(self.batch_sizes) > engine.max_batch_size:
            raise EvaluationError(
                f"batch size {max(self.batch_sizes)} with --engine {self.engine}",
                expected=f"at most {engine.max_batch_size}",
                hint="larger batches: --engine vllm",
            )
        if self.drafter is not None and self.vocab is None and set(self.sizes) != {"full"}:
            raise EvaluationError("sizes without a vocabulary", expected="--vocab FILE|REPO")
        if self.drafter is not None:
            _ = self.remarks  # selects the ids, and compares their tokenizer with the target's

    def _specs(self) -> Iterator[RunSpec]:
        shared = {option.name: getattr(self, option.name) for option in fields(EvalOptions)}
        drafting = RunSpec(**shared)
        for batch in self.batch_sizes:
            yield replace(drafting, drafter=None, vocab=None, batch_size=batch)
            for tokens, size in product(self.spec_tokens, self.sizes):
                if self.drafter is not None:
                    yield replace(
                        drafting,
                        vocab=None if size == "full" else self.vocab,
                        size=size if isinstance(size, int) else None,
                        spec_tokens=tokens,
                        batch_size=batch,
                    )

    @cached_property
    def vocabs(self) -> dict[int | None, DraftVocab]:
        """The kept ids of each pruned size; the key None stands for ids that are already chosen."""
        folder = Path(self.target)
        rows = read_config(folder).size("vocab_size") if folder.is_dir() else None
        sizes = {size if isinstance(size, int) else None for size in self.sizes if size != "full"}
        return {
            size: load_vocab(str(self.vocab), {} if size is None else {"size": size}, rows)
            for size in sizes
        }

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about kept ids that were counted with another tokenizer, which was allowed.

        Raises:
            MismatchError: they were, and it was not allowed.
        """
        folders = local_folders(self.target)
        tokenizers = {vocab.tokenizer for vocab in self.vocabs.values()}  # of one file: at most one
        return tuple(
            remark
            for tokenizer in tokenizers
            for remark in check_tokenizers(tokenizer, folders, self.allow_other_tokenizer)
        )
