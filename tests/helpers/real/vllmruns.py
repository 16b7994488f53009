"""One run of a real vLLM in a process of its own, and what it is made of.

    python -m real.vllmruns RUN.json RESULT.json

traces what the drafter makes and what the target answers (`Run`).
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TESTS = Path(__file__).parents[1]
V = 49_152
ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine stays where the traces are
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": str(TESTS),
}
SHAPE = {"enforce_eager": True, "max_model_len": 256, "dtype": "float32", "seed": 0}


class Run(NamedTuple):
    """What was seen.

    Attributes:
        outputs: ids per prompt.
        drafted: ids [B, D] of each `propose`.
        logits: of each call of the target's `compute_logits`, the sha256 of each row.
        wide: shapes of tensors of V columns and a storage of their own, made in `propose`.
        head: sha256, shape, bytes and whether it is the embedding too, of the target's lm_head.
        draft_rows: rows of the drafter's lm_head, None without a drafter.
        accepted: drafted tokens that the target took.
        log: what vLLM printed.
    """

    outputs: list[list[int]]
    drafted: list[list[list[int]]]
    logits: list[list[str]]
    wide: list[list[int]]
    head: list[Any]
    draft_rows: int | None
    accepted: int
    log: str


def run(folder: Path, prompts: list[list[int]], **arguments: Any) -> Run:
    """Greedy generation of 16 tokens per prompt.

    Args:
        folder: for its files.
        prompts: ids.
        **arguments: of `vllm.LLM`, beside `SHAPE`.
    """
    folder.mkdir(parents=True)
    request, result = folder / "run.json", folder / "result.json"
    request.write_text(json.dumps({"prompts": prompts, "arguments": SHAPE | arguments}))
    done = child([sys.executable, "-m", "real.vllmruns", str(request), str(result)])
    assert done.returncode == 0, done.stdout[-4000:]
    return Run(**json.loads(result.read_text()), log=done.stdout)


def child(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A process with vLLM's environment; both of its outputs in one."""
    return subprocess.run(
        command,
        env=os.environ | ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def _main(request_path: Path, result: Path) -> None:
    from vllm import LLM, SamplingParams

    request = json.loads(request_path.read_text())
    llm = LLM(**request["arguments"], disable_log_stats=False)
    runner = llm.collective_rpc(lambda worker: worker.model_runner)[0]
    sampling = SamplingParams(temperature=0, max_tokens=16, ignore_eos=True, detokenize=False)
    with _traced(runner) as seen:
        prompts = [{"prompt_token_ids": ids} for ids in request["prompts"]]
        outputs = llm.generate(prompts, sampling, use_tqdm=False)
    drafter = getattr(runner, "drafter", None)
    found = {
        "outputs": [list(one.outputs[0].token_ids) for one in outputs],
        **seen,
        "head": _head(runner.model),
        "draft_rows": None if drafter is None else len(drafter.model.lm_head.weight),
        "accepted": sum(m.value for m in llm.get_metrics() if m.name.endswith("accepted_tokens")),
    }
    result.write_text(json.dumps(found))


def _head(model: Any) -> list[Any]:
    weight = model.lm_head.weight
    tied = weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    return [_digest(weight), list(weight.shape), weight.untyped_storage().nbytes(), tied]


def _digest(tensor: Any) -> str:
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()


@contextmanager
def _traced(runner: Any) -> Iterator[dict[str, list[Any]]]:
    """Wraps the target's `compute_logits` and the drafter's `propose`."""
    seen: dict[str, list[Any]] = {"drafted": [], "logits": [], "wide": []}
    compute = runner.model.compute_logits

    def compute_logits(*args: Any, **kwargs: Any) -> Any:
        logits = compute(*args, **kwargs)
        seen["logits"].append([_digest(row) for row in logits])
        return logits

    runner.model.compute_logits = compute_logits
    drafter = getattr(runner, "drafter", None)
    if drafter is not None:
        propose = drafter.propose

        def traced(*args: Any, **kwargs: Any) -> Any:
            with _wide(seen["wide"]):
                ids = propose(*args, **kwargs)
            seen["drafted"].append(ids.tolist())
            return ids

        drafter.propose = traced
    yield seen


def _wide(found: list[Any]) -> Any:
    """A mode that notes each new tensor with a dimension of V or more that really is as large.

    A view of what was there before is none, and neither is one number expanded to V columns.
    """
    from torch import Tensor
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    def storages(held: Any) -> dict[int, Tensor]:
        tensors = (leaf for leaf in tree_leaves(held) if isinstance(leaf, Tensor))
        return {tensor.untyped_storage()._cdata: tensor for tensor in tensors}

    class Wide(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            before = storages((args, kwargs))
            for storage, tensor in storages(result).items():
                large = tensor.untyped_storage().nbytes() >= V * tensor.element_size()
                if storage not in before and large and max(tensor.shape, default=0) >= V:
                    found.append(list(tensor.shape))
            return result

    return Wide()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
