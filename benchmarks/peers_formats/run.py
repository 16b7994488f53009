"""Runs other tools' own code on the files that `vocabfreq export` writes, and compares.

    python benchmarks/peers_formats/run.py

makes an environment for each tool under /tmp/peers (`--envs`; kept and used again, 1 to 2 GB each),
counts data/chat.jsonl with the tokenizer of data/smollm2, exports it at two sizes, runs each tool
on the files and prints a table; it exits with 1 if anything disagrees. `--only sglang` runs one.

It needs Python 3.11 and PyPI. Of a tool only what its mapping code imports is installed, and torch
goes in first, so that the tools don't bring another. Where pip would take torch with CUDA, point
PIP_FIND_LINKS or PIP_EXTRA_INDEX_URL at its CPU builds to save some gigabytes.

The functions called are the wheels' own; each check_*.py describes its calls, and that of SGLang
the stubs for the parts that it does not need. All run on one torch, whichever they pin.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
TORCH = "torch==2.13.0"
SIZES = (8_192, 16_384)
COUNTS = {"token-freq": "token_freq.pt"}  # format → file
IDS = {"token-map": "freq_{size}.pt", "npy": "npy", "mapping": "vocab_mapping.pt"}


@dataclass(frozen=True)
class Peer:
    """A tool.

    Attributes:
        name: of its package.
        version: the one that is run.
        needs: what its mapping code imports besides torch.
        bare: packages that are installed without what they depend on.
    """

    name: str
    version: str
    needs: str
    bare: str = ""

    def installs(self) -> list[list[str]]:
        """Arguments of `pip install`, one call after the other."""
        bare = [f"{self.name}=={self.version}", *self.bare.split()]
        return [[TORCH], [TORCH, *self.needs.split()], ["--no-deps", *bare]]


PEERS = (
    Peer(
        "speculators",
        "0.9.0",
        "numpy tqdm psutil httpx pydantic-settings datasets<=5.1.0 loguru<=0.7.3 openai>=2 "
        "transformers==5.19.0",
        bare="hs-connectors==0.9.0",
    ),
    Peer("specforge", "0.2.0", "numpy tqdm datasets transformers==5.8.1"),
    Peer("sglang", "0.5.23", "numpy huggingface_hub"),
)


@dataclass(frozen=True)
class Row:
    """A line of the table; `good` is what the exit code goes by."""

    peer: str
    function: str
    files: str
    size: int
    rows: int
    good: bool
    outcome: str


def environment(folder: Path, packages: Sequence[Sequence[str]]) -> Path:
    """An environment, made once; returns its Python.

    Args:
        folder: where it is.
        packages: arguments of `pip install`, one call after the other.
    """
    python = folder / "bin" / "python"
    done = folder / "installed.json"
    wanted = json.dumps([list(call) for call in packages])
    if not (done.is_file() and done.read_text() == wanted):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        for call in packages:
            print(f"{folder.name}: pip install {' '.join(call)}", file=sys.stderr)
            subprocess.run([str(python), "-m", "pip", "install", "-qq", *call], check=True)
        done.write_text(wanted)
    return python


def export(python: Path, folder: Path) -> None:
    """Counts and exports: one folder a size under `folder`, files named as the tools want them."""

    def vocabfreq(*arguments: object) -> None:
        program = "from vocabfreq.cli import main; main()"
        command = [str(python), "-c", program, *map(str, arguments)]
        subprocess.run(command, check=True, cwd=REPO, stdout=subprocess.DEVNULL)

    table = folder / "vocab_freq.safetensors"
    source = ("--tokenizer", "data/smollm2", "--source", "chat=data/chat.jsonl")
    vocabfreq("build", *source, "--workers", 0, "-o", table)
    for size in SIZES:
        (folder / str(size)).mkdir()
        for form, name in (COUNTS | IDS).items():
            which = ("--size", size, "--pins", "none") if form in IDS else ()
            output = folder / str(size) / name.format(size=size)
            vocabfreq("export", table, *which, "--format", form, "-o", output)


def check(peer: Peer, python: Path, folder: Path) -> list[Row]:
    """Runs a tool on the files of one size; one that ends with an error disagrees."""
    script = HERE / f"check_{peer.name}.py"
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(
        [str(python), str(script), str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | quiet,
    )
    name = f"{peer.name} {peer.version}"
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"function"')]
    rows = [Row(name, **json.loads(line)) for line in lines]
    if done.returncode or not rows:
        print(done.stderr, file=sys.stderr)
        message = (done.stderr.strip().splitlines() or ["no output"])[-1]
        rows.append(Row(name, script.name, "", int(folder.name), 0, False, message))
    return rows


def show(rows: Sequence[Row]) -> None:
    """Prints the table as Markdown."""
    print("| peer | its function | our files | K | V | outcome |\n|---|---|---|--:|--:|---|")
    for row in rows:
        sizes = f"{row.size:,} | {row.rows:,}"
        verdict = "" if row.good else "**DISAGREES** "
        print(f"| {row.peer} | {row.function} | {row.files} | {sizes} | {verdict}{row.outcome} |")


def main() -> None:
    """Makes environments and files, runs every tool, prints, and exits with 1 on disagreement."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--envs", type=Path, default=Path("/tmp/peers"))  # noqa: S108 (documented)
    parser.add_argument("--only", choices=[peer.name for peer in PEERS])
    arguments = parser.parse_args()
    ours = environment(arguments.envs / "vocabfreq", [[TORCH], ["-e", str(REPO)]])
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="vocabfreq-peers-") as name:
        export(ours, Path(name))
        for peer in PEERS:
            if arguments.only in (None, peer.name):
                python = environment(arguments.envs / peer.name, peer.installs())
                for size in SIZES:
                    rows += check(peer, python, Path(name) / str(size))
    show(rows)
    sys.exit(any(not row.good for row in rows))


if __name__ == "__main__":
    main()
