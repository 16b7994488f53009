"""Chooses the code that runs: Triton or torch, fused or not, and one operator for `torch.compile`.

`greedy`, `greedy_logits` and `sample` go to `launch` (Triton) where a GPU and Triton are, else to
`torch_backend`; both give the results of `reference`. Up to `FUSED_ROWS` batch rows the head
product and the argmax are one kernel; above, the matrix library makes the logits.

Under `torch.compile` the same calls become custom operators, `vocabfreq::greedy` and
`vocabfreq::sample`, which the compiler traces around. An operator writes into tensors that it is
given and returns nothing.
"""

import os
from importlib.util import find_spec
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vocabfreq.errors import HeadError
from vocabfreq.runtime import torch_backend
from vocabfreq.runtime.reference import SampleOutput, SampleParams
from vocabfreq.runtime.torch_backend import Workspace, draft_logits

Backend = Literal["auto", "triton", "torch"]
# Provisional: set it by what benchmarks/bench_sampler.py says on a GPU.
FUSED_ROWS = 64


class HeadTensors(NamedTuple):
    """The tensors of a head as kernels take them: weight [K, H]; the others [K] or None."""

    weight: Tensor
    target_ids: Tensor | None
    bias: Tensor | None
    scale: Tensor | None


def uses_triton(backend: Backend, device: torch.device) -> bool:
    """Whether Triton kernels run for tensors on this device.

    Raises:
        HeadError: an unknown backend, or `triton` where Triton cannot run.
    """
    if backend not in ("auto", "triton", "torch"):
        raise HeadError(f"backend {backend!r}", expected="auto, triton or torch")
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    available = find_spec("triton") is not None and (device.type == "cuda" or interpreted)
    if backend == "triton" and not available:
        raise HeadError(
            f"no Triton for {device}",
            expected="the package triton and a CUDA device (or TRITON_INTERPRET=1)",
            hint="backend='auto' takes torch where Triton is not",
        )
    return backend == "triton" or (backend == "auto" and available and device.type == "cuda")


def greedy(
    hidden: Tensor,
    head: HeadTensors,
    bitmask: Tensor | None,
    triton: bool,
    *,
    out: Tensor | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """Target ids in `out`, or packed keys where there is no `out`; int64 [B]."""
    if torch.compiler.is_compiling():
        result = hidden.new_empty(hidden.shape[0], dtype=torch.int64) if out is None else out
        greedy_op(hidden, *head, bitmask, triton, out is None, result)
        return result
    return _greedy(hidden, head, bitmask, triton, out, workspace)


def _greedy(
    hidden: Tensor,
    head: HeadTensors,
    bitmask: Tensor | None,
    triton: bool,
    out: Tensor | None,
    workspace: Workspace | None = None,
) -> Tensor:
    workspace = workspace or Workspace()
    if not triton:
        return torch_backend.greedy(hidden, *head, bitmask, out=out, workspace=workspace)
    if hidden.shape[0] > FUSED_ROWS:
        logits = draft_logits(hidden, head.weight, head.bias, head.scale, workspace)
        return greedy_logits(logits, head.target_ids, bitmask, triton, out=out, workspace=workspace)
    from vocabfreq.runtime import launch

    scratch = _tile_keys(hidden, len(head.weight), workspace)
    return launch.greedy(hidden, *head, bitmask, out=out, scratch=scratch)


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None,
    triton: bool,
    *,
    out: Tensor | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """`greedy` of given logits, [B, K]."""
    workspace = workspace or Workspace()
    if not triton:
        return torch_backend.greedy_logits(
            logits, target_ids, bitmask, out=out, workspace=workspace
        )
    from vocabfreq.runtime import launch

    scratch = _tile_keys(logits, logits.shape[1], workspace)
    return launch.greedy_logits(logits, target_ids, bitmask, out=out, scratch=scratch)


def _tile_keys(batch: Tensor, draft_rows: int, workspace: Workspace) -> Tensor:
    from vocabfreq.runtime import launch

    size = launch.scratch_size(batch.shape[0], draft_rows)
    return workspace.take("scratch", (size,), torch.int64, batch.device)


def sample(
    hidden: Tensor, head: HeadTensors, params: SampleParams, bitmask: Tensor | None, triton: bool
) -> SampleOutput:
    """A draw for each row; the fields are [B]."""
    if torch.compiler.is_compiling():
        keys = hidden.new_empty(hidden.shape[0], dtype=torch.int64)
        logits, logsumexp = (torch.empty_like(keys, dtype=torch.float32) for _ in range(2))
        output = SampleOutput(keys, logits, logsumexp)
        sample_op(hidden, *head, bitmask, *params, triton, *output)
        return output
    return _sample(hidden, head, params, bitmask, triton)


def _sample(
    hidden: Tensor, head: HeadTensors, params: SampleParams, bitmask: Tensor | None, triton: bool
) -> SampleOutput:
    weight, target_ids, bias, scale = head
    if not triton:
        return torch_backend.sample(hidden, weight, target_ids, params, bias, scale, bitmask)
    from vocabfreq.runtime import launch

    if hidden.shape[0] <= FUSED_ROWS:
        return launch.sample(hidden, weight, target_ids, params, bias, scale, bitmask)
    logits = draft_logits(hidden, weight, bias, scale)
    return launch.sample_logits(logits, target_ids, params, bitmask)


@torch.library.custom_op("vocabfreq::greedy", mutates_args=("out",))
def greedy_op(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None,
    scale: Tensor | None,
    bitmask: Tensor | None,
    triton: bool,
    packed: bool,
    out: Tensor,
) -> None:
    """Writes target ids, or their packed keys, int64 [B]."""
    head = HeadTensors(weight, target_ids, bias, scale)
    if packed:
        out.copy_(_greedy(hidden, head, bitmask, triton, None))
    else:
        _greedy(hidden, head, bitmask, triton, out)


@torch.library.custom_op("vocabfreq::sample", mutates_args=("keys", "logits", "logsumexp"))
def sample_op(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None,
    scale: Tensor | None,
    bitmask: Tensor | None,
    temperature: Tensor,
    seed: Tensor,
    step: Tensor,
    logit_scale: float,
    soft_cap: float,
    triton: bool,
    keys: Tensor,
    logits: Tensor,
    logsumexp: Tensor,
) -> None:
    """Writes the fields of `SampleOutput`, each [B]."""
    head = HeadTensors(weight, target_ids, bias, scale)
    params = SampleParams(temperature, seed, step, logit_scale, soft_cap)
    output = _sample(hidden, head, params, bitmask, triton)
    for buffer, value in zip((keys, logits, logsumexp), output, strict=True):
        buffer.copy_(value)


@greedy_op.register_fake
@sample_op.register_fake
def _(*_: object) -> None:
    """Operators return nothing, so the compiler has no shapes to learn."""
