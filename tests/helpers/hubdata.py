"""Contents of data sets on the loopback Hub, and the environment of a process that uses it."""

import csv
import io
import json
import os
from pathlib import Path

from hubserver import HubServer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TRAIN = [f"Row {n} of the training split, where the quick brown fox jumps." for n in range(40)]
TEST = ["Ein Test mit Umlauten: Äpfel, Öl, Übermut.", "次は日本語です。", "🙂 done"]
DATASETS_NEEDS = ("pandas", "pyarrow.dataset")  # and nothing that reads HF_… when imported
HURRIED = str(Path(__file__).parent / "hurried")  # no process waits long before it tries again


def jsonl(texts: list[str]) -> bytes:
    rows = [json.dumps({"id": n, "text": text}) for n, text in enumerate(texts)]
    return "".join(f"{row}\n" for row in rows).encode()


def csv_file(texts: list[str], columns: tuple[str, str] = ("id", "text")) -> bytes:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns)
    writer.writeheader()
    writer.writerows({"id": n, "text": text} for n, text in enumerate(texts))
    return buffer.getvalue().encode()


def train_tokenizer() -> bytes:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=letters,
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(TRAIN + TEST, trainer)
    return tokenizer.to_str().encode()


def environment(server: HubServer, home: Path) -> dict[str, str]:
    """Variables of a process that knows this Hub alone and is quick to try again."""
    kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and k[:3] != "HF_"}
    return kept | {
        "HF_ENDPOINT": server.url,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "USE_TORCH": "0",  # which `datasets` would import for a second to count workers of a loader
        "PYTHONPATH": os.pathsep.join(filter(None, [HURRIED, os.environ.get("PYTHONPATH")])),
    }
