"""The engine `transformers`: speculative decoding with two causal LMs that share a tokenizer.

A plain loop, for people without vLLM: draft some tokens, verify them in one forward of the target,
keep what it agrees with. Both sides are greedy, so the output is that of the target alone; without
a drafter, the same loop is plain decoding. The drafter may be the target itself (`self`). That
saves no time, since a draft step is a whole forward, but shows the effect of a pruned head on
acceptance, the drafter being perfect otherwise. Options: `device`, and `ignore_eos` to generate up
to the limit.
"""

import time
from collections.abc import Callable
from importlib.metadata import version
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vocabfreq.formats.reading import load_vocab
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval import models
from vocabfreq.measure.eval.engine_process import PromptProgress, report
from vocabfreq.measure.eval.models import CachedModel
from vocabfreq.measure.eval.plan import DraftStep, RunResult, RunSpec
from vocabfreq.runtime import GreedySampler, PrunedHead, draft_chain, prune_lm_head

WARM_UP_TOKENS = 8


class Drafter:
    """A model that drafts with a pruned head, after the ids of one prompt and its output so far."""

    def __init__(self, model: Any, sampler: GreedySampler, tokens: int) -> None:
        """Starts with an empty cache.

        Args:
            model: a causal LM.
            sampler: of its head, full or pruned.
            tokens: drafted per step.
        """
        self.cached, self.sampler, self.tokens = CachedModel(model), sampler, tokens

    def draft(self, ids: list[int]) -> list[int]:
        """The next tokens, target ids."""
        known = list(ids)

        def step(last: Tensor, _: Tensor) -> Tensor:
            known.append(int(last))
            return self.cached.hidden(known)

        drafted = draft_chain(step, self.sampler, self.cached.hidden(known), self.tokens)
        return [int(i) for i in drafted[0]]


class SpeculativeDecoder:
    """Generates greedily for one prompt after the other, and keeps statistics.

    Attributes:
        steps: drafted ids and accepted number of each step.
        draft_seconds: of each step but the first of a prompt, which reads the prompt.
        target_seconds: of each verification; reading the prompt is not among them.
    """

    def __init__(
        self,
        target: Any,
        stop_ids: frozenset[int],
        make_drafter: Callable[[], Drafter] | None,
    ) -> None:
        """Runs nothing yet.

        Args:
            target: a causal LM.
            stop_ids: ids that end a text.
            make_drafter: makes a drafter for a new prompt; None for plain decoding.
        """
        self._target, self._stop_ids, self._make_drafter = target, stop_ids, make_drafter
        self.steps: list[DraftStep] = []
        self.draft_seconds: list[float] = []
        self.target_seconds: list[float] = []

    @torch.inference_mode()
    def generate(self, prompt: list[int], limit: int) -> list[int]:
        """The ids that follow a prompt, up to `limit` or to a stop id, which is included."""
        target = CachedModel(self._target)
        drafter = self._make_drafter() if self._make_drafter else None
        ids = [*prompt, *target.logits(prompt, 1).argmax(-1).tolist()]
        first_step = True
        while len(ids) < len(prompt) + limit and ids[-1] not in self._stop_ids:
            started = time.perf_counter()
            drafted = drafter.draft(ids) if drafter else []
            if not first_step:
                self.draft_seconds.append(time.perf_counter() - started)
            ids += self._verify(target, ids, drafted)
            target.crop(len(ids) - 1)
            if drafter:
                drafter.cached.crop(len(ids) - 1)
            first_step = False
        return ids[len(prompt) : len(prompt) + limit]

    def _verify(self, target: CachedModel, ids: list[int], drafted: list[int]) -> list[int]:
        """The accepted ids and the target's own next one; ends at a stop id."""
        started = time.perf_counter()
        # `tolist` waits for the device, so the clock sees all of the forward.
        chosen = target.logits([*ids, *drafted], len(drafted) + 1).argmax(-1).tolist()
        self.target_seconds.append(time.perf_counter() - started)
        pairs = enumerate(zip(drafted, chosen, strict=False))
        agreed = next((n for n, (ours, theirs) in pairs if ours != theirs), len(drafted))
        new = chosen[: agreed + 1]
        new = next((new[: n + 1] for n, i in enumerate(new) if i in self._stop_ids), new)
        if drafted:
            self.steps.append((drafted, min(agreed, len(new))))
        return list(new)


def run(spec: RunSpec) -> RunResult:
    """Runs a spec, one prompt after the other.

    Raises:
        EvaluationError: a model cannot be loaded.
        MismatchError: target and drafter have different tokenizers.
        SelectionError: the size cannot be selected.
    """
    device = models.device_of(spec.options)
    target = models.load_model(spec.target, spec.dtype, device)
    tokenizer = models.load_tokenizer(spec.target)
    make_drafter, coverage = _load_drafter(spec, target, tokenizer, device)
    stop_ids = frozenset() if spec.options.get("ignore_eos") else models.stop_ids(target)
    prompts = [models.encode(tokenizer, prompt) for prompt in spec.prompts]
    warm_up = SpeculativeDecoder(target, stop_ids, make_drafter)
    warm_up.generate(prompts[0], min(WARM_UP_TOKENS, spec.max_tokens))
    report("warm")
    decoder = SpeculativeDecoder(target, stop_ids, make_drafter)
    progress, outputs, started = PromptProgress(len(prompts)), [], time.perf_counter()
    for prompt in prompts:
        outputs.append(decoder.generate(prompt, spec.max_tokens))
        progress.done(len(outputs))
    seconds, accepted = time.perf_counter() - started, [n for _, n in decoder.steps]
    return RunResult(
        outputs=outputs,
        prompt_ids=prompts,
        seconds=seconds,
        drafts=len(decoder.steps),
        draft_tokens=sum(len(drafted) for drafted, _ in decoder.steps),
        accepted=sum(accepted),
        accepted_per_position=[sum(n > at for n in accepted) for at in range(spec.spec_tokens)],
        draft_seconds_per_step=_mean(decoder.draft_seconds) if decoder.steps else None,
        target_seconds_per_forward=_mean(decoder.target_seconds),
        coverage=coverage,
        notes=_notes(spec, tokenizer),
        versions={name: version(name) for name in ("torch", "transformers")},
        draft_steps=decoder.steps or None,
    )


def _load_drafter(
    spec: RunSpec, target: Any, tokenizer: Any, device: str
) -> tuple[Callable[[], Drafter] | None, float | None]:
    """What makes a drafter for a prompt, and the coverage of its head."""
    if spec.drafter is None:
        return None, None
    model = target
    if not spec.self_drafting:
        models.check_same_tokenizer(tokenizer, models.load_tokenizer(spec.drafter))
        model = models.load_model(spec.drafter, spec.dtype, device)
    rows = len(target.get_output_embeddings().weight)
    head = _head(model.get_output_embeddings(), spec, rows)
    sampler, vocab = GreedySampler(head), head.vocab
    coverage = 1.0 if vocab.is_identity else vocab.coverage.get("all sources")
    return lambda: Drafter(model, sampler, spec.spec_tokens), coverage


def _head(lm_head: Any, spec: RunSpec, rows: int) -> PrunedHead:
    """The kept rows, copied; unpruned, a view of all the rows that the target has too."""
    if spec.pruned:
        selection = {} if spec.size is None else {"size": spec.size}
        return prune_lm_head(lm_head, load_vocab(str(spec.vocab), selection, rows))
    weight = lm_head.weight.detach()[:rows]
    every_id = DraftVocab.from_ids(np.arange(len(weight)), rows=len(weight))
    bias = getattr(lm_head, "bias", None)
    return PrunedHead(weight, every_id, bias=None if bias is None else bias.detach()[:rows])


def _mean(seconds: list[float]) -> float | None:
    return fmean(seconds) if seconds else None


def _notes(spec: RunSpec, tokenizer: Any) -> list[str]:
    notes = []
    chats = any(not isinstance(prompt, str) for prompt in spec.prompts)
    if chats and not getattr(tokenizer, "chat_template", None):
        notes.append("the tokenizer has no chat template: chats were given as plain text")
    if spec.drafter is not None and spec.self_drafting:
        notes.append("the target drafts for itself: acceptance is what a perfect drafter would get")
    return notes
