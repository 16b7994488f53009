"""The engine of people without vLLM: a plain loop over two causal LMs that share a tokenizer.

The drafter may be the target itself (`self`). That saves no time, since a draft step is a whole
forward, but shows what a size of the pruned head does to acceptance, the drafter being perfect
otherwise. Options: `device`, and `ignore_eos` to generate on to the limit.
"""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np

from vocabfreq.formats.choosing import choose
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.measure.eval import models
from vocabfreq.measure.eval.progress import Progress, tell
from vocabfreq.measure.eval.spec import RunResult, RunSpec
from vocabfreq.measure.eval.speculate import Drafter, Speculator, Tally
from vocabfreq.runtime import GreedySampler, PrunedHead, prune_lm_head

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
        return prune_lm_head(lm_head, choose(str(spec.vocab), wish, rows))
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
