"""Measures the head within real decoding steps: its time, full and pruned, and its missed ids.

    python benchmarks/bench_decoding.py MODEL vocab_freq.safetensors --sizes 8192,16384

MODEL is a folder that transformers loads. The model decodes real prompts greedily, one at a time.
At every step the full head and the pruned heads are timed on the same hidden state. The pruned ids
are compared with the full argmax: they are equal wherever that id is kept, up to rounding.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.functional import linear

from vocabfreq import FrequencyTable
from vocabfreq.runtime import GreedySampler, prune_lm_head

PROMPTS = Path(__file__).parents[2] / "shared/data/mt_bench_questions.jsonl"


def prompts(path: Path, limit: int) -> list[str]:
    """First turns of mt-bench questions."""
    lines = path.read_text().splitlines()[:limit]
    return [json.loads(line)["turns"][0] for line in lines]


class Timed:
    """Seconds of each head, and how often its id was the full head's."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}
        self.equal: dict[str, int] = {}
        self.kept: dict[str, int] = {}
        self.gap: dict[str, float] = {}

    def run(self, name: str, call: Any) -> Any:
        """Calls a function and measures its time."""
        start = time.perf_counter()
        result = call()
        self.seconds.setdefault(name, []).append(time.perf_counter() - start)
        return result


@torch.inference_mode()
def decode(model: Any, ids: torch.Tensor, samplers: dict[str, Any], tokens: int, to: Timed) -> None:
    """Decodes one prompt; the full argmax continues the text."""
    past, head = None, model.get_output_embeddings()
    for _ in range(tokens):
        found = to.run("body", lambda ids=ids, past=past: body(model, ids, past))
        hidden, past = found.last_hidden_state[:, -1], found.past_key_values
        logits = to.run("full", lambda hidden=hidden: with_argmax(hidden, head.weight))
        best = int(logits[1])
        for name, sampler in samplers.items():
            chosen = int(to.run(name, lambda s=sampler, hidden=hidden: s(hidden)))
            note(to, name, sampler, best, chosen, logits[0][0])
        ids = logits[1][None]
        if best in stops(model):
            return


def body(model: Any, ids: torch.Tensor, past: Any) -> Any:
    """The model without its head."""
    return model.model(input_ids=ids, past_key_values=past, use_cache=True)


def with_argmax(hidden: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The full head and its argmax."""
    logits = linear(hidden, weight)
    return logits, logits.argmax(-1)


def note(to: Timed, name: str, sampler: Any, best: int, chosen: int, logits: torch.Tensor) -> None:
    """Counts kept and equal ids; where the best id is kept, another may only be a near-tie."""
    kept = bool(sampler.head.vocab.t2d[best])
    to.kept[name] = to.kept.get(name, 0) + kept
    to.equal[name] = to.equal.get(name, 0) + (best == chosen)
    if kept:
        gap = float(logits[best] - logits[chosen])
        to.gap[name] = max(to.gap.get(name, 0.0), gap)


def stops(model: Any) -> set[int]:
    """The ids that end an answer."""
    ids = model.generation_config.eos_token_id
    return set(ids if isinstance(ids, list) else [ids])


def report(to: Timed, steps: int) -> None:
    """Prints the table."""
    body_ms, full_ms = (1e3 * median(to.seconds[name]) for name in ("body", "full"))
    print(f"\n{steps} steps; body {body_ms:.2f} ms a step (median)\n")
    print(
        "| head | median ms | of the step | full ÷ it | full argmax kept | same id | widest gap |"
    )
    print("|---|---|---|---|---|---|---|")
    print(f"| full | {full_ms:.2f} | {full_ms / (body_ms + full_ms):.0%} | | | | |")
    for name in to.kept:
        ms = 1e3 * median(to.seconds[name])
        print(
            f"| {name} | {ms:.2f} | {ms / (body_ms + ms):.0%} | {full_ms / ms:.1f}× "
            f"| {to.kept[name] / steps:.2%} | {to.equal[name] / steps:.2%} "
            f"| {to.gap.get(name, 0.0):.3g} |"
        )


def encoded(tokenizer: Any, prompt: str) -> torch.Tensor:
    """A prompt as a chat if the tokenizer has a template, else as plain text."""
    if not tokenizer.chat_template:
        return tokenizer(prompt, return_tensors="pt")["input_ids"]  # type: ignore[no-any-return]
    return tokenizer.apply_chat_template(  # type: ignore[no-any-return]
        [{"role": "user", "content": prompt}],
        add_generation_prompt=True,
        return_tensors="pt",
        return_dict=True,
    )["input_ids"]


def main() -> None:
    """Loads, decodes, reports."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("vocab", type=Path)
    parser.add_argument("--sizes", default="8192,16384")
    parser.add_argument("--prompts", type=Path, default=PROMPTS)
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--dtype", default="bfloat16")
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=dtype).eval()
    tokenizer = AutoTokenizer.from_pretrained(args.model)
    head, table = model.get_output_embeddings(), FrequencyTable.load(args.vocab)
    samplers = {
        f"K = {size:,}": GreedySampler(prune_lm_head(head, table, size=size))
        for size in map(int, args.sizes.split(","))
    }
    print(
        f"{args.model.name}: head {list(head.weight.shape)} {args.dtype}, torch {torch.__version__}"
    )
    to = Timed()
    for prompt in prompts(args.prompts, args.limit):
        decode(model, encoded(tokenizer, prompt), samplers, args.tokens, to)
    report(to, len(to.seconds["full"]))


if __name__ == "__main__":
    main()
