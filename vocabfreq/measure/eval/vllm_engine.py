"""The engine `vllm`: one run of vLLM in this process; the plugin prunes the drafter.

vLLM reports neither the seconds of drafting and verifying nor the drafted ids, so its calls are
wrapped and timed. Seconds are taken where calls are synchronous, that is on a CPU; elsewhere they
stay unknown rather than wrong.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from vocabfreq.checkpoints.config import drafter_kind_by_config, read_config
from vocabfreq.errors import EvaluationError
from vocabfreq.measure.eval.engine_process import PromptProgress, report
from vocabfreq.measure.eval.plan import DraftStep, Prompt, RunResult, RunSpec
from vocabfreq.vllm.config import KEY
from vocabfreq.vllm.plugin import vllm_version

OWN_OPTIONS = ("method",)  # the others are arguments of LLM
COUNTERS = {
    "drafts": "vllm:spec_decode_num_drafts",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens",
    "accepted": "vllm:spec_decode_num_accepted_tokens",
}
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos"


def run(spec: RunSpec) -> RunResult:
    """Loads vLLM, warms it up, and generates.

    Raises:
        EvaluationError: vLLM has no method for the drafter.
    """
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # so that the timer sees the calls
    from vllm import LLM, SamplingParams

    timer = CallTimer.install()
    report("loading vLLM")
    llm = LLM(**llm_arguments(spec))
    greedy = SamplingParams(temperature=0, max_tokens=spec.max_tokens)
    _generate(llm, list(spec.prompts[:1]), SamplingParams(temperature=0, max_tokens=8))
    before, timer.enabled = _counters(llm), True
    progress, outputs, start = PromptProgress(len(spec.prompts)), [], time.perf_counter()
    for first in range(0, len(spec.prompts), spec.batch_size):
        timer.next_batch()
        outputs += _generate(llm, list(spec.prompts[first : first + spec.batch_size]), greedy)
        progress.done(len(outputs))
    seconds, after = time.perf_counter() - start, _counters(llm)
    counts: dict[str, Any] = {
        name: after[key][0] - before[key][0] for name, key in COUNTERS.items()
    }
    per_position = after[PER_POSITION], before[PER_POSITION] or [0] * len(after[PER_POSITION])
    ids = [list(map(int, out.outputs[0].token_ids)) for out in outputs]
    return RunResult(
        outputs=ids,
        prompt_ids=[list(map(int, out.prompt_token_ids)) for out in outputs],
        seconds=seconds,
        accepted_per_position=[new - old for new, old in zip(*per_position, strict=True)],
        draft_seconds_per_step=timer.mean(timer.draft_seconds),
        target_seconds_per_forward=timer.mean(timer.target_seconds),
        versions={"vllm": vllm_version(), "torch": version("torch")},
        draft_steps=timer.draft_steps(ids) if spec.batch_size == 1 and spec.drafter else None,
        **counts,
    )


def llm_arguments(spec: RunSpec) -> dict[str, Any]:
    """Arguments of `LLM` for a spec."""
    arguments: dict[str, Any] = {
        "model": spec.target,
        "dtype": spec.dtype,
        "max_num_seqs": spec.batch_size,
        "enforce_eager": True,
        "max_model_len": 1024,
        "disable_log_stats": False,
    }
    if spec.drafter is not None:
        arguments["speculative_config"] = {
            "method": method_of(spec),
            "model": spec.drafter,
            "num_speculative_tokens": spec.spec_tokens,
            "draft_tensor_parallel_size": 1,
        }
    if spec.vocab is not None:
        path = Path(spec.vocab)
        plugin_config: dict[str, Any] = {
            "vocab": str(path.resolve()) if path.exists() else spec.vocab
        }
        if spec.size:
            plugin_config["size"] = spec.size
        if spec.allow_other_tokenizer:
            plugin_config["allow_other_tokenizer"] = True
        arguments["additional_config"] = {KEY: plugin_config}
    return arguments | {k: v for k, v in spec.options.items() if k not in OWN_OPTIONS}


def method_of(spec: RunSpec) -> str:
    """VLLM's name for the kind of drafter."""
    if "method" in spec.options:
        return str(spec.options["method"])
    kind = drafter_kind_by_config(read_config(Path(str(spec.drafter))))
    if kind is None:
        raise EvaluationError(
            f"the config of {spec.drafter} does not say what kind of drafter it is",
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


def _counters(llm: Any) -> dict[str, list[int]]:
    """Metric name → its value, or its value per position; 0 for metrics that do not exist."""
    metrics = {metric.name: metric for metric in llm.get_metrics()}
    counters = {
        key: [int(metrics[key].value) if key in metrics else 0] for key in COUNTERS.values()
    }
    positions = metrics.get(PER_POSITION)
    return counters | {
        PER_POSITION: list(map(int, positions.values)) if positions is not None else []
    }


@dataclass
class CallTimer:
    """Times the calls of vLLM, and records the drafted ids.

    Attributes:
        enabled: whether calls are recorded; not during warm-up.
        synchronous: whether a call has ended when it returns, as on a CPU.
        draft_seconds: of each call of `propose`, which drafts all tokens of a step.
        target_seconds: of each forward of the target that is no prefill.
        drafts: of each batch, the ids that each call drafted for its first request.
    """

    enabled: bool = False
    synchronous: bool = False
    draft_seconds: list[float] = field(default_factory=list)
    target_seconds: list[float] = field(default_factory=list)
    drafts: list[list[list[int]]] = field(default_factory=list)

    @classmethod
    def install(cls) -> "CallTimer":
        """A timer around vLLM's calls; a method that this vLLM does not have is not timed."""
        from vllm.platforms import current_platform
        from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        timer = cls(synchronous=current_platform.is_cpu())
        _wrap(SpecDecodeBaseProposer, "propose", timer._drafted)
        if hasattr(GPUModelRunner, "_model_forward"):
            _wrap(GPUModelRunner, "_model_forward", timer._verified)
        return timer

    def next_batch(self) -> None:
        """What is drafted from here on belongs to the next requests."""
        self.drafts.append([])

    def _drafted(self, seconds: float, ids: Any, _: Any) -> None:
        """A call of `propose` has returned int64 [B, N]."""
        if self.enabled:
            self.draft_seconds.append(seconds)
            self.drafts[-1].append(ids[0].tolist())

    def _verified(self, seconds: float, _: Any, arguments: dict[str, Any]) -> None:
        """A forward of the target has returned; prefill has many positions."""
        positions = arguments.get("positions")
        if self.enabled and positions is not None and positions.shape[-1] <= 64:
            self.target_seconds.append(seconds)

    def mean(self, seconds: list[float]) -> float | None:
        """Mean of recorded seconds; None where they mean nothing."""
        return fmean(seconds) if self.synchronous and seconds else None

    def draft_steps(self, outputs: list[list[int]]) -> list[DraftStep]:
        """Drafted ids and accepted number of each step, inferred from the greedy output.

        Args:
            outputs: of each request, the generated ids; requests ran one at a time.
        """
        steps: list[DraftStep] = []
        for ids, drafts in zip(outputs, self.drafts, strict=True):
            position = 1  # the first token comes from the prompt
            for draft in drafts:
                following = ids[position : position + len(draft)]
                if not following:
                    break
                pairs = enumerate(zip(draft, following, strict=False))
                accepted = next((n for n, (a, b) in pairs if a != b), len(following))
                steps.append((draft, accepted))
                position += accepted + 1
        return steps


def _wrap(owner: type, name: str, record: Callable[[float, Any, dict[str, Any]], None]) -> None:
    original = getattr(owner, name)

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = original(self, *args, **kwargs)
        record(time.perf_counter() - start, result, kwargs)
        return result

    setattr(owner, name, timed)
