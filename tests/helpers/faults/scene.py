"""A small corpus, builds of it in processes of their own, and what an undisturbed one writes."""

import gzip
import json
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from tiny import save_tokenizer, tiny_tokenizer

from faults.processes import Command, Result

SHIM = Path(__file__).parent / "shim"
NAMES = ("a.jsonl", "b.jsonl.gz", "c.parquet")
RECORD = 120  # as in the shim


@dataclass
class Row:
    """What came of some faults; rows add up."""

    tried: int = 0
    struck: int = 0
    resumes: int = 0
    differences: int = 0
    children: int = 0
    litter: int = 0
    wrong: list[str] = field(default_factory=list)

    def __add__(self, other: "Row") -> "Row":
        return Row(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    @property
    def good(self) -> bool:
        """Some faults struck, and nothing came of them."""
        bad = self.differences or self.children or self.litter or self.wrong
        return self.struck > 0 and not bad

    def expect(self, right: bool, told: str) -> None:
        """Notes an outcome that is not as it should be."""
        if not right:
            self.wrong.append(told)


class Scene:
    """A folder with a corpus of a shard per file, and the bytes that a build of it must give."""

    def __init__(self, folder: Path, rows: int = 200, names: tuple[str, ...] = NAMES) -> None:
        self.folder, self.names, self.number = folder, names, 0
        save_tokenizer(tiny_tokenizer(), folder / "tok")
        (folder / "data").mkdir()
        for name in names:
            _write(folder / "data" / name, [f"abc {name} the hello {n} é" * 3 for n in range(rows)])
        for _ in range(2):  # the second is not slowed by files that were never read before
            undisturbed = self.attempt()
            started = time.monotonic()
            done = undisturbed.build()
            assert done.code == 0, done.errors
            self.seconds = time.monotonic() - started
        self.want = undisturbed.output.read_bytes()
        self.steps = undisturbed.steps()
        self.opened = {name: undisturbed.opened(name) for name in names}

    def attempt(self) -> "Attempt":
        """A fresh copy of the corpus, and no output yet."""
        self.number += 1
        return Attempt(self, self.folder / f"run-{self.number}")


def _write(path: Path, texts: list[str]) -> None:
    data = "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"text": texts}), path, compression="none")
    else:
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


class Attempt:
    """One folder in which builds are disturbed and gone on with."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene, self.folder = scene, folder
        shutil.copytree(scene.folder / "data", folder / "data")
        self.output, self.log = folder / "out", folder / "steps.log"
        self.extra: list[str] = []

    @property
    def parts(self) -> list[Path]:
        """Partial files that are kept."""
        return sorted((self.folder / "out.parts").glob("*.part.safetensors"))

    @property
    def sources(self) -> list[str]:
        """The options that name the corpus."""
        return [f"-s{self.folder / 'data' / name}" for name in self.scene.names]

    def start(self, faults: Mapping[str, object] | None = None, workers: int = 0) -> Command:
        """Starts a build."""
        words = ["build", "-q", "--workers", workers, "-t", self.scene.folder / "tok"]
        told = {f"FAULTS_{name.upper()}": str(value) for name, value in (faults or {}).items()}
        path = os.pathsep.join(filter(None, [str(SHIM), os.environ.get("PYTHONPATH", "")]))
        shim = {"PYTHONPATH": path, "FAULTS_ROOT": str(self.folder), "FAULTS_LOG": str(self.log)}
        return Command([*words, "-o", self.output, *self.sources, *self.extra], shim | told)

    def build(self, faults: Mapping[str, object] | None = None, workers: int = 0) -> Result:
        """Builds to whatever end."""
        return self.start(faults, workers).finish()

    def steps(self) -> list[tuple[str, str]]:
        """Kind and path of each step that was begun so far."""
        if not self.log.exists():
            return []
        records = [line.split("\t") for line in self.log.read_text().splitlines()]
        return [(kind, name.strip()) for kind, _, name in records]

    def opened(self, name: str) -> int:
        """How often a file of the corpus was opened so far."""
        return Path(f"{self.log}.open.{name}").stat().st_size // RECORD

    def struck(self) -> int:
        """1 if the shim did its work."""
        return int(Path(f"{self.log}.struck").exists())

    def go_on(self, row: Row, workers: int = 0) -> Row:
        """The same command twice; the file must be the undisturbed one, and nothing else left."""
        row.differences += self.output.exists() and not self._is_right()
        for _ in range(2):
            done = self.build(workers=workers)
            row.resumes += 1
            row.children += done.children
            row.expect(done.code == 0, f"a resume ended with {done.code}: {done.errors[-300:]}")
            row.differences += not self._is_right()
        row.litter += len(self.litter())
        return row

    def _is_right(self) -> bool:
        return self.output.exists() and self.output.read_bytes() == self.scene.want

    def litter(self) -> list[str]:
        """What should not be there at the end: temporary files, and FILE.parts."""
        kept = self.extra[:1] == ["--work-dir"]
        found = [p.name for p in self.folder.iterdir() if p.name.startswith(".") or not kept]
        found = [n for n in found if n not in ("data", "out") and not n.startswith("steps.log")]
        inside = self.folder.rglob(".*.tmp") if kept else ()
        return [*found, *(path.name for path in inside)]
