"""The engine of people without vLLM: a plain loop over two causal LMs that share a tokenizer.

The drafter may be the target itself (`self`). That saves no time, since a draft step is a whole
forward, but shows what a size of the pruned head does to acceptance, the drafter being perfect
otherwise. Options: `device`, and `ignore_eos` to generate on to the limit.

The loop: draft some tokens, verify them in one forward of the target, keep what it agrees to.

Greedy on both sides, so the output is that of the target alone. Without a drafter the same loop
with nothing drafted is plain decoding.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from vocabfreq.formats.reading import load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval import models
from vocabfreq.measure.eval.models import Cached
from vocabfreq.measure.eval.plan import RunResult, RunSpec
from vocabfreq.measure.eval.processes import Progress, tell
from vocabfreq.runtime import GreedySampler, PrunedHead, draft_chain, prune_lm_head

T = TypeVar("T")


@dataclass
class Tally:
    """What is counted and timed on the way.

    Attributes:
        steps: of each step, the drafted ids and how many were accepted.
        draft_seconds: of drafting in one step; not the first of a prompt, which reads the prompt.
        target_seconds: of one verification; the target's reading of the prompt is not among them.
    """

    steps: list[tuple[list[int], int]] = field(default_factory=list)
    draft_seconds: list[float] = field(default_factory=list)
    target_seconds: list[float] = field(default_factory=list)


class Drafter:
    """A model that drafts with some rows of its head, over what has been generated so far."""

    def __init__(self, model: Any, sampler: GreedySampler, tokens: int) -> None:
        """Starts with nothing read.

        Args:
            model: a causal LM.
            sampler: of its head, full or pruned.
            tokens: how many are drafted in one step.
        """
        self.cached, self.sampler, self.tokens = Cached(model), sampler, tokens

    def draft(self, ids: list[int]) -> list[int]:
        """The next tokens, target ids."""
        known = list(ids)

        def step(last: Tensor, _: Tensor) -> Tensor:
            known.append(int(last))
            return self.cached.hidden(known)

        drafted = draft_chain(step, self.sampler, self.cached.hidden(known), self.tokens)
        return [int(i) for i in drafted[0]]


class Speculator:
    """Generates greedily for one prompt after the other."""

    def __init__(self, target: Any, stops: frozenset[int], drafter: Callable[[], Drafter] | None):
        """Nothing is run yet.

        Args:
            target: a causal LM.
            stops: ids that end a text.
            drafter: makes a drafter for a new prompt; None for plain decoding.
        """
        self.target, self.stops, self.drafter = target, stops, drafter
        self.tally = Tally()

    @torch.inference_mode()
    def generate(self, prompt: list[int], limit: int) -> list[int]:
        """The ids that follow a prompt, up to `limit` or to a stop id, which is one of them."""
        target = Cached(self.target)
        drafter = self.drafter() if self.drafter else None
        ids = [*prompt, *chosen(target.logits(prompt, 1))]
        first = True
        while len(ids) < len(prompt) + limit and ids[-1] not in self.stops:
            drafted, seconds = self._timed(lambda: drafter.draft(ids) if drafter else [])  # noqa: B023
            self.tally.draft_seconds += [] if first else [seconds]
            ids += self._verified(target, ids, drafted)
            for one in (target, drafter.cached if drafter else target):
                one.crop(len(ids) - 1)
            first = False
        return ids[len(prompt) : len(prompt) + limit]

    def _verified(self, target: Cached, ids: list[int], drafted: list[int]) -> list[int]:
        """What the target accepts of the drafted ids, and its own next one; ends at a stop id."""
        wanted = len(drafted) + 1
        found, seconds = self._timed(lambda: chosen(target.logits([*ids, *drafted], wanted)))
        self.tally.target_seconds.append(seconds)
        agreed = agreement(drafted, found)
        new = up_to_stop(found[: agreed + 1], self.stops)
        if drafted:
            self.tally.steps.append((drafted, min(agreed, len(new))))
        return new

    def _timed(self, call: Callable[[], T]) -> tuple[T, float]:
        """A result and the seconds that it took, the device having finished."""
        started = time.perf_counter()
        result = call()  # ids are read back, which waits for the device
        return result, time.perf_counter() - started


def chosen(logits: Tensor) -> list[int]:
    """The target's choice at each place of [N, V]."""
    return [int(i) for i in logits.argmax(-1).tolist()]


def agreement(drafted: list[int], found: list[int]) -> int:
    """How many of the drafted ids, from the first, the target chooses too."""
    pairs = enumerate(zip(drafted, found, strict=False))
    return next((n for n, (ours, theirs) in pairs if ours != theirs), len(drafted))


def up_to_stop(ids: list[int], stops: frozenset[int]) -> list[int]:
    """The ids up to the first that ends a text."""
    return next((ids[: n + 1] for n, i in enumerate(ids) if i in stops), ids)


WARM_UP = 8  # tokens


def run(spec: RunSpec) -> RunResult:
    """Runs a spec, one prompt after the other.

    Raises:
        EvaluationError: a model cannot be loaded.
        MismatchError: target and drafter have different tokenizers.
        SelectionError: the size cannot be met.
    """
    device = models.device_of(spec.options)
    target = models.load_model(spec.target, spec.dtype, device)
    tokenizer = models.load_tokenizer(spec.target)
    drafter, head = _drafter(spec, target, tokenizer, device)
    stops = frozenset() if spec.options.get("ignore_eos") else models.stop_ids(target)
    prompts = [models.encode(tokenizer, prompt) for prompt in spec.prompts]
    Speculator(target, stops, drafter).generate(prompts[0], min(WARM_UP, spec.max_tokens))
    tell("warm")
    speculator = Speculator(target, stops, drafter)
    outputs, seconds = _generate(speculator, prompts, spec.max_tokens)
    return RunResult(
        outputs=outputs,
        prompt_ids=prompts,
        seconds=seconds,
        coverage=_coverage(head),
        notes=_notes(spec, tokenizer),
        versions={name: version(name) for name in ("torch", "transformers")},
        **_counts(speculator.tally, spec.spec_tokens),
    )


def _drafter(
    spec: RunSpec, target: Any, tokenizer: Any, device: str
) -> tuple[Callable[[], Drafter] | None, PrunedHead | None]:
    """What makes a drafter for a prompt, and its head."""
    if spec.drafter is None:
        return None, None
    model = target
    if not spec.drafts_itself:
        models.check_same_tokenizer(tokenizer, models.load_tokenizer(spec.drafter))
        model = models.load_model(spec.drafter, spec.dtype, device)
    rows = len(target.get_output_embeddings().weight)
    head = _head(model.get_output_embeddings(), spec, rows)
    sampler = GreedySampler(head)
    return lambda: Drafter(model, sampler, spec.spec_tokens), head


def _head(lm_head: Any, spec: RunSpec, rows: int) -> PrunedHead:
    """The kept rows, copied, or all that the target has too, as they are."""
    if spec.pruned:
        wish = {} if spec.size is None else {"size": spec.size}
        return prune_lm_head(lm_head, load_vocab(str(spec.vocab), wish, rows))
    weight = lm_head.weight.detach()[:rows]
    every = DraftVocab.from_ids(np.arange(len(weight)), rows=len(weight))
    bias = getattr(lm_head, "bias", None)
    return PrunedHead(weight, every, bias=None if bias is None else bias.detach()[:rows])


def _generate(
    speculator: Speculator, prompts: list[list[int]], limit: int
) -> tuple[list[list[int]], float]:
    progress, outputs, started = Progress(len(prompts)), [], time.perf_counter()
    for done, prompt in enumerate(prompts, 1):
        outputs.append(speculator.generate(prompt, limit))
        progress.done(done)
    return outputs, time.perf_counter() - started


def _counts(tally: Tally, tokens: int) -> dict[str, Any]:
    steps = tally.steps
    return {
        "drafts": len(steps),
        "draft_tokens": sum(len(drafted) for drafted, _ in steps),
        "accepted": sum(accepted for _, accepted in steps),
        "accepted_per_position": [sum(n > place for _, n in steps) for place in range(tokens)],
        "draft_seconds_per_step": _mean(tally.draft_seconds) if steps else None,
        "target_seconds_per_forward": _mean(tally.target_seconds),
        "drafted": steps or None,
    }


def _mean(seconds: list[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None


def _coverage(head: PrunedHead | None) -> float | None:
    if head is None:
        return None
    return 1.0 if head.vocab.is_identity else head.vocab.coverage.get("all sources")


def _notes(spec: RunSpec, tokenizer: Any) -> list[str]:
    notes = []
    chats = any(not isinstance(prompt, str) for prompt in spec.prompts)
    if chats and not getattr(tokenizer, "chat_template", None):
        notes.append("the tokenizer has no chat template: chats were given as plain text")
    if spec.drafter is not None and spec.drafts_itself:
        notes.append("the target drafts for itself: acceptance is what a perfect drafter would get")
    return notes
