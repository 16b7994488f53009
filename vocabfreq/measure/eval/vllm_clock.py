"""What vLLM does not tell: seconds of drafting and of verifying, and which ids were drafted."""

import time
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any


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
