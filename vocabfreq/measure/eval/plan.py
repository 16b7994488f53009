"""What a sweep is of: lists whose product makes the runs.

What one run is to do, and what came out: frozen, and JSON both ways.

The prompts are in the spec as they are in the file; an engine applies the chat template to those
that are lists of messages, and takes text as it is.

The engines: which module runs a spec, and what has to be installed for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from vocabfreq.checkpoints.config import read_config
from vocabfreq.errors import EvaluationError, MissingExtraError
from vocabfreq.formats.reading import load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.storage.atomic import write_atomically
from vocabfreq.tokenizer.fingerprint import check_tokenizers, local_folders

Prompt = str | list[dict[str, Any]]


@dataclass(frozen=True)
class RunSpec:
    """One run of one engine.

    Attributes:
        engine: its name in `engines`.
        target: folder or Hub repo of the target.
        drafter: of the drafter; `self` where the target drafts for itself; None for plain decoding.
        vocab: frequency file, file of ids, or Hub repo; None for the full head.
        size: K, None for the full head, and for a file of ids that are chosen already.
        spec_tokens: tokens drafted in one step, 0 for plain decoding.
        batch_size: most requests at a time.
        max_tokens: most tokens generated for a prompt.
        dtype: `bfloat16`, `float16` or `float32`.
        prompts: text, or the messages of a chat.
        options: for the engine.
        allow_other_tokenizer: take ids that were counted with another tokenizer.json.
    """

    engine: str
    target: str
    drafter: str | None = None
    vocab: str | None = None
    size: int | None = None
    spec_tokens: int = 0
    batch_size: int = 1
    max_tokens: int = 128
    dtype: str = "bfloat16"
    prompts: tuple[Prompt, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    allow_other_tokenizer: bool = False

    @property
    def pruned(self) -> bool:
        """Whether the drafter keeps only some ids."""
        return self.vocab is not None

    @property
    def method(self) -> str:
        """What the table calls it; an engine's option `method` names the unpruned drafter."""
        if self.drafter is None:
            return "vanilla"
        full = "eagle" if self.engine == "vllm" else "self" if self.drafts_itself else "draft model"
        return "fr-spec" if self.pruned else str(self.options.get("method", full))

    @property
    def drafts_itself(self) -> bool:
        """Whether target and drafter are one model."""
        return self.drafter in ("self", self.target)

    @property
    def label(self) -> str:
        """A few words that tell it from the others of a sweep."""
        if self.drafter is None:
            return f"vanilla, B = {self.batch_size}"
        kept = f"K = {self.size:,}" if self.size is not None else "full head"
        kept = "its own ids" if self.pruned and self.size is None else kept
        return f"{self.method}, {kept}, {self.spec_tokens} spec tokens, B = {self.batch_size}"


@dataclass(frozen=True)
class RunResult:
    """What one run gave.

    Attributes:
        outputs: of each prompt, the generated target ids, a stop id included.
        prompt_ids: of each prompt, the ids that the model was given.
        seconds: of generating for all prompts, prefill included, loading and warm-up not.
        drafts: steps that drafted.
        draft_tokens: tokens drafted.
        accepted: of them, those that the target accepted.
        accepted_per_position: the same for the first, second, … drafted token.
        draft_seconds_per_step: mean seconds of drafting all the tokens of one step; None where it
            was not measured.
        target_seconds_per_forward: mean seconds of the target's forward that verifies one step, or
            gives one token in plain decoding; prefill not included.
        coverage: share of counted tokens whose id is kept; None where it is not known.
        notes: what a reader should know.
        versions: package → version.
        drafted: of each step, the drafted target ids and how many were accepted; None where the
            engine does not tell.
        ended_at: when, as ISO 8601 in UTC; empty where it is not known.
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
    drafted: list[tuple[list[int], int]] | None = None
    ended_at: str = ""

    @property
    def generated(self) -> int:
        """Tokens generated."""
        return sum(map(len, self.outputs))

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
        return self.generated / self.seconds if self.seconds else 0.0

    @property
    def forward_ratio(self) -> float | None:
        """Seconds of drafting in one step to seconds of the target's forward that verifies it."""
        draft, target = self.draft_seconds_per_step, self.target_seconds_per_forward
        return draft / target if draft is not None and target else None


T = TypeVar("T", RunSpec, RunResult)


def save(path: Path, value: RunSpec | RunResult) -> None:
    """Writes one as JSON, whole or not at all."""
    write_atomically(path, msgspec.json.encode(value))


def load(path: Path, kind: type[T]) -> T:
    """Reads one.

    Raises:
        EvaluationError: the file does not hold it.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.DecodeError, RecursionError) as error:
        raise EvaluationError(f"{path}: {error}", expected=f"a {kind.__name__} as JSON") from None


class Engine(NamedTuple):
    """One way to run a spec.

    Attributes:
        module: has `run(spec: RunSpec) -> RunResult`.
        needs: the packages that must be there.
        hint: how to get them.
        largest_batch: most requests at a time, None for any.
        takes_self: whether a target can draft for itself.
    """

    module: str
    needs: tuple[str, ...]
    hint: str
    largest_batch: int | None = None
    takes_self: bool = False


ENGINES = {
    "transformers": Engine(
        "vocabfreq.measure.eval.transformers_engine",
        ("torch", "transformers"),
        "pip install 'vocabfreq[eval]'",
        largest_batch=1,
        takes_self=True,
    ),
    "vllm": Engine(
        "vocabfreq.measure.eval.vllm_engine", ("vllm",), "pip install vllm, or see docs/vllm.md"
    ),
}


def engine_of(name: str) -> Engine:
    """An engine by its name; nothing is imported.

    Raises:
        EvaluationError: there is none of that name.
        MissingExtraError: what it needs is not installed.
    """
    if name not in ENGINES:
        raise EvaluationError(f"engine {name!r}", expected=f"one of {', '.join(ENGINES)}")
    missing = [package for package in ENGINES[name].needs if find_spec(package) is None]
    if missing:
        raise MissingExtraError(f"{missing[0]} is not installed", hint=ENGINES[name].hint)
    return ENGINES[name]


def runner_of(name: str) -> Callable[[RunSpec], RunResult]:
    """The function that runs a spec, its module imported."""
    run: Callable[[RunSpec], RunResult] = import_module(engine_of(name).module).run
    return run


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
        return load_vocab(self.vocab, {} if size is None else {"size": size}, rows)
