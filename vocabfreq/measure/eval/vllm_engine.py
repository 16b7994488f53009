"""One run in vLLM, in this process; the drafter is pruned by the plugin.

Times of drafting and of the target's forward are taken where calls are synchronous, that is on a
CPU; elsewhere they stay unknown rather than wrong.
"""

import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vocabfreq.checkpoints.config import read_config
from vocabfreq.checkpoints.kinds import kind_by_config
from vocabfreq.errors import EvaluationError
from vocabfreq.measure.eval.progress import Progress, tell
from vocabfreq.measure.eval.spec import Prompt, RunResult, RunSpec
from vocabfreq.measure.eval.vllm_clock import Clock
from vocabfreq.vllm.config import KEY

OURS = ("method",)  # options that are not arguments of LLM
COUNTS = {
    "drafts": "vllm:spec_decode_num_drafts",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
}
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


def run(spec: RunSpec) -> RunResult:
    """Loads vLLM, warms it up, generates, counts.

    Raises:
        EvaluationError: a drafter that vLLM has no method for.
    """
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # so that the clock sees the calls
    from vllm import LLM, SamplingParams

    clock = Clock.installed()
    tell("loading vLLM")
    llm = LLM(**arguments(spec))
    greedy = SamplingParams(temperature=0, max_tokens=spec.max_tokens)
    _generate(llm, list(spec.prompts[:1]), SamplingParams(temperature=0, max_tokens=8))
    before, clock.on = _counts(llm), True
    progress, outputs, start = Progress(len(spec.prompts)), [], time.perf_counter()
    for first in range(0, len(spec.prompts), spec.batch_size):
        clock.next_request()
        outputs += _generate(llm, list(spec.prompts[first : first + spec.batch_size]), greedy)
        progress.done(len(outputs))
    seconds = time.perf_counter() - start
    return _result(spec, outputs, seconds, _difference(_counts(llm), before), clock)


def arguments(spec: RunSpec) -> dict[str, Any]:
    """Arguments of `LLM` for a spec."""
    given: dict[str, Any] = {
        "model": spec.target,
        "dtype": spec.dtype,
        "max_num_seqs": spec.batch_size,
        "enforce_eager": True,
        "max_model_len": 1024,
        "disable_log_stats": False,
    }
    if spec.drafter is not None:
        given["speculative_config"] = {
            "method": method_of(spec),
            "model": spec.drafter,
            "num_speculative_tokens": spec.spec_tokens,
            "draft_tensor_parallel_size": 1,
        }
    if spec.vocab is not None:
        asked = {
            "vocab": str(Path(spec.vocab).resolve() if Path(spec.vocab).exists() else spec.vocab)
        }
        wish = {"size": spec.size, "allow_other_tokenizer": spec.allow_other_tokenizer}
        given["additional_config"] = {KEY: asked | {k: v for k, v in wish.items() if v}}
    return given | {k: v for k, v in spec.options.items() if k not in OURS}


def method_of(spec: RunSpec) -> str:
    """VLLM's name for the kind of drafter."""
    if "method" in spec.options:
        return str(spec.options["method"])
    kind = kind_by_config(read_config(Path(str(spec.drafter))))
    if kind is None:
        raise EvaluationError(
            f"{spec.drafter} does not say what kind of drafter it is",
            hint="name vLLM's method: --option method=eagle3 (eagle, mtp)",
        )
    return "eagle3" if kind == "eagle3" else "eagle"


def _generate(llm: Any, prompts: list[Prompt], sampling: Any) -> list[Any]:
    chats = [isinstance(prompt, list) for prompt in prompts]
    if all(chats):
        return list(llm.chat(prompts, sampling, use_tqdm=False))
    if any(chats):  # one by one keeps their order
        return [out for prompt in prompts for out in _generate(llm, [prompt], sampling)]
    return list(llm.generate(prompts, sampling, use_tqdm=False))


def _counts(llm: Any) -> dict[str, Any]:
    metrics = {metric.name: metric for metric in llm.get_metrics()}
    told: dict[str, Any] = {
        name: int(metrics[key].value) if key in metrics else 0 for name, key in COUNTS.items()
    }
    positions = metrics.get(PER_POSITION)
    return told | {"per_position": list(positions.values) if positions is not None else []}


def _difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    told = {name: after[name] - before[name] for name in COUNTS}
    old = before["per_position"] or [0] * len(after["per_position"])
    positions = [int(a - b) for a, b in zip(after["per_position"], old, strict=True)]
    return told | {"accepted_per_position": positions}


def _result(
    spec: RunSpec, outputs: list[Any], seconds: float, counts: dict[str, Any], clock: Clock
) -> RunResult:
    ids = [list(map(int, out.outputs[0].token_ids)) for out in outputs]
    return RunResult(
        outputs=ids,
        prompt_ids=[list(map(int, out.prompt_token_ids)) for out in outputs],
        seconds=seconds,
        draft_seconds_per_step=clock.drafting,
        target_seconds_per_forward=clock.verifying,
        versions={"vllm": _vllm(), "torch": version("torch")},
        drafted=clock.drafted(ids) if spec.batch_size == 1 and spec.drafter else None,
        **counts,
    )


def _vllm() -> str:
    from vocabfreq.vllm.plugin import vllm_version

    return vllm_version()
