"""The summary of `export` and `convert`: which ids or counts were written, and where."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.cli import render
from vocabfreq.formats import Counts
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.table import FrequencyTable


@dataclass(frozen=True)
class WrittenFile:
    """A written file.

    Attributes:
        content: the ids or counts in it.
        format: as `vocabfreq.formats.write` calls it.
        path: the file, or the folder of an npy pair.
        pinned: number of pinned ids; None if nothing was selected.
        size_without_floors: K without the floors, if they raised it.
    """

    content: DraftVocab | Counts | FrequencyTable
    format: str
    path: Path
    pinned: int | None = None
    size_without_floors: int | None = None

    def show(self, *, as_json: bool, quiet: bool) -> None:
        """Prints the summary."""
        if as_json:
            render.print_json(self.as_dict())
            return
        if quiet:
            return
        if isinstance(self.content, DraftVocab):
            self._print_vocab(self.content)
        else:
            _print_counts(self.content)
        print(f"Wrote {self.path} ({self.format}).")

    def as_dict(self) -> dict[str, Any]:
        """The summary for `--json`."""
        content = self.content
        summary: dict[str, Any] = {"file": str(self.path), "format": self.format}
        summary["rows"] = content.rows
        if isinstance(content, Counts):
            return summary | {"ids": len(content), "exact": content.exact}
        if isinstance(content, FrequencyTable):
            return summary | {"tokenizer": content.tokenizer.sha256}
        summary |= {"size": len(content), "fingerprint": content.fingerprint}
        summary |= {"tokenizer": content.tokenizer, "coverage": dict(content.coverage)}
        summary |= {"filled": content.filled}
        if self.size_without_floors is not None:
            summary |= {"size_without_floors": self.size_without_floors}
        return summary if self.pinned is None else summary | {"pinned": self.pinned}

    def _print_vocab(self, vocab: DraftVocab) -> None:
        share = render.percent(len(vocab) / vocab.rows)
        pinned = "" if self.pinned is None else f", {self.pinned:,} of them pinned"
        filled = f", {vocab.filled:,} never seen and filled in" if vocab.filled else ""
        print(f"K = {len(vocab):,} of V = {vocab.rows:,} rows ({share}){pinned}{filled}")
        if self.size_without_floors is not None:
            print(f"A floor raised K from {self.size_without_floors:,}.")
        if vocab.coverage:
            rows = [[name, render.percent(share)] for name, share in vocab.coverage.items()]
            rows = rows[len(rows) == 2 :]  # one source has the coverage of all sources
            render.print_table("", ["source", "coverage"], rows)


def _print_counts(content: Counts | FrequencyTable) -> None:
    if isinstance(content, Counts):
        rows = "" if content.rows is None else f" of V = {content.rows:,} rows"
        print(f"{len(content):,} ids with {content.description}{rows}")
        return
    seen = int((content.emittable & (content.counts.sum(axis=0) > 0)).sum())
    print(f"{seen:,} ids with counts of V = {content.rows:,} rows")
