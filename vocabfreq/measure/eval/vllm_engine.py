"""One run in vLLM, in this process; the drafter is pruned by the plugin.

Times of drafting and of the target's forward are taken where calls are synchronous, that is on a
CPU; elsewhere they stay unknown rather than wrong.

What vLLM does not tell: seconds of drafting and of verifying, and which ids were drafted.
"""

import os
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

from vocabfreq.checkpoints.config import drafter_kind_by_config, read_config
from vocabfreq.errors import EvaluationError
from vocabfreq.measure.eval.plan import Prompt, RunResult, RunSpec
from vocabfreq.measure.eval.processes import Progress, tell
from vocabfreq.vllm.config import KEY


@dataclass
class Clock:
    """Hears the calls of one process.

    Attributes:
        on: whether calls count; off during warm-up.
        synchronous: whether a call has ended when it returns, as on a CPU.
        drafts: seconds of each call of `propose`.
        forwards: seconds of each forward of the target that is no prefill.
        steps: of each request, the ids that each call drafted.
    """

    on: bool = False
    synchronous: bool = False
    drafts: list[float] = field(default_factory=list)
    forwards: list[float] = field(default_factory=list)
    steps: list[list[list[int]]] = field(default_factory=list)

    @classmethod
    def installed(cls) -> "Clock":
        """A clock around vLLM's calls; of parts that are not there it hears nothing."""
        from vllm.platforms import current_platform
        from vllm.v1.spec_decode.llm_base_proposer import SpecDecodeBaseProposer
        from vllm.v1.worker.gpu_model_runner import GPUModelRunner

        clock = cls(synchronous=current_platform.is_cpu())
        _wrap(SpecDecodeBaseProposer, "propose", clock.drafting_done)
        if hasattr(GPUModelRunner, "_model_forward"):
            _wrap(GPUModelRunner, "_model_forward", clock.forward_done)
        return clock

    def next_request(self) -> None:
        """What is drafted from here on is of another request."""
        self.steps.append([])

    def drafting_done(self, seconds: float, ids: Any, _: Any) -> None:
        """A call of `propose` has returned int64 [B, N]."""
        if self.on:
            self.drafts.append(seconds)
            self.steps[-1].append(ids[0].tolist())

    def forward_done(self, seconds: float, _: Any, arguments: dict[str, Any]) -> None:
        """A forward of the target has returned; prefill has many positions."""
        positions = arguments.get("positions")
        if self.on and positions is not None and positions.shape[-1] <= 64:
            self.forwards.append(seconds)

    @property
    def drafting(self) -> float | None:
        """Mean seconds of drafting all the tokens of one step."""
        return fmean(self.drafts) if self.synchronous and self.drafts else None

    @property
    def verifying(self) -> float | None:
        """Mean seconds of the target's forward."""
        return fmean(self.forwards) if self.synchronous and self.forwards else None

    def drafted(self, outputs: list[list[int]]) -> list[tuple[list[int], int]]:
        """Drafted ids of each step and how many were accepted, by what came out greedily.

        Args:
            outputs: of each request, the generated ids; requests ran one at a time.
        """
        told = []
        for ids, steps in zip(outputs, self.steps, strict=True):
            place = 1  # the first token comes from the prompt
            for step in steps:
                right = ids[place : place + len(step)]
                if not right:
                    break
                wrong = [n for n, (a, b) in enumerate(zip(step, right, strict=False)) if a != b]
                accepted = wrong[0] if wrong else len(right)
                told.append((step, accepted))
                place += accepted + 1
        return told


def _wrap(owner: type, name: str, heard: Any) -> None:
    original = getattr(owner, name)

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = original(self, *args, **kwargs)
        heard(time.perf_counter() - start, result, kwargs)
        return result

    setattr(owner, name, timed)


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
    kind = drafter_kind_by_config(read_config(Path(str(spec.drafter))))
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
