"""Many short outputs of a real vLLM, in a process of its own.

    python -m real.vllmsampling RUN.json RESULT.json

samples the same prompt again and again, with a few greedy requests among them, and notes what the
drafter hands over. Faults can be built into vLLM, to see that a test would find them; one that the
CPU build of 0.32.0 has itself is mended (`vllmhanded.mend`).
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from real.vllmhanded import mend, traced
from real.vllmruns import SHAPE, child

PROMPT = [5, 9, 30]
GREEDY = [[one, one + 7] for one in range(3, 43, 5)]
LENGTH = 4


class Sampled(NamedTuple):
    """What was seen.

    Attributes:
        outputs: ids of each sampled output.
        greedy: ids of each greedy one.
        handed: draft distributions that the rejection sampler was given, 0 without.
        shape: of the last such tensor, [B, D, V].
        outside: the largest probability in them of an id that is not kept.
        sums: the smallest and the largest sum of one.
        peaks: how many sampled drafts were the most likely id, and how many should have been.
        ids_only: calls of `get_top_tokens`.
        accepted: drafted tokens that the target took.
        drafted: tokens that were drafted.
    """

    outputs: list[list[int]]
    greedy: list[list[int]]
    handed: int
    shape: list[int]
    outside: float
    sums: list[float]
    peaks: list[float]
    ids_only: int
    accepted: float
    drafted: float


def sampled(folder: Path, wanted: list[dict[str, Any]], **arguments: Any) -> list[Sampled]:
    """Runs in one engine, one after the other.

    Args:
        folder: for its files.
        wanted: of each run `draws`, `heat`, and perhaps `fault` and `kept`, the ids kept.
        **arguments: of `vllm.LLM`, beside `SHAPE`.
    """
    folder.mkdir(parents=True)
    request, result = folder / "run.json", folder / "result.json"
    content = {"wanted": wanted, "arguments": SHAPE | {"max_model_len": 64} | arguments}
    request.write_text(json.dumps(content))
    done = child([sys.executable, "-m", "real.vllmsampling", str(request), str(result)])
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Missing cached draft probabilities" not in done.stdout
    return [Sampled(**one) for one in json.loads(result.read_text())]


def _main(request_path: Path, result: Path) -> None:
    from vllm import LLM

    request = json.loads(request_path.read_text())
    llm = LLM(
        **request["arguments"],
        skip_tokenizer_init=True,
        enable_prefix_caching=False,
        disable_log_stats=False,
        max_num_seqs=512,
    )
    mend()
    runner = llm.collective_rpc(lambda worker: worker.model_runner)[0]
    drafter = getattr(runner, "drafter", None)
    result.write_text(json.dumps([_run(llm, drafter, **wanted) for wanted in request["wanted"]]))


def _run(
    llm: Any, drafter: Any, *, draws: int, heat: float, fault: str = "", kept: Any = ()
) -> dict[str, Any]:
    from vllm import SamplingParams

    settings = {"max_tokens": LENGTH, "ignore_eos": True, "detokenize": False}
    cold, warm = (
        SamplingParams(temperature=0, **settings),
        SamplingParams(temperature=heat, **settings),
    )
    prompts = [{"prompt_token_ids": ids} for ids in GREEDY + [PROMPT] * draws]
    params = [cold] * len(GREEDY) + [warm] * draws
    before = _counts(llm)
    with traced(drafter, fault, kept) as seen:
        outputs = llm.generate(prompts, params, use_tqdm=False)
    ids = [list(one.outputs[0].token_ids) for one in outputs]
    accepted, drafted = (a - b for a, b in zip(_counts(llm), before, strict=True))
    tokens = {"greedy": ids[: len(GREEDY)], "outputs": ids[len(GREEDY) :]}
    return {**seen, **tokens, "accepted": accepted, "drafted": drafted}


def _counts(llm: Any) -> list[float]:
    found = {metric.name: metric for metric in llm.get_metrics()}
    names = ("vllm:spec_decode_num_accepted_tokens", "vllm:spec_decode_num_draft_tokens")
    return [found[name].value if name in found else 0 for name in names]


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
