"""The result of a build: writes the frequency file, prints the summary, chooses the exit code.

`build` and `merge --plan` share it.
"""

import glob
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import typer

from vocabfreq.cli import render
from vocabfreq.corpus.bad_rows import (
    BEYOND_ROWS,
    BROKEN,
    REMARKS,
    SURROGATE,
    TRUNCATED,
    count_bad_rows,
)
from vocabfreq.counting.merging import Report
from vocabfreq.errors import CountError, OverwriteError
from vocabfreq.frequencies.frequency_file import is_frequency_file
from vocabfreq.storage.atomic import remove_leftovers

MAX_BEYOND_ROWS = 0.01  # share of tokens beyond the model's rows that looks like a wrong config


def check_output(output: Path, force: bool) -> None:
    """Refuses to replace a file that is no frequency file.

    Raises:
        OverwriteError: it is a folder, or another kind of file and `force` is off.
    """
    if output.exists() and not output.is_file():
        raise OverwriteError(
            f"{output} is a folder or a device", expected="a file", hint="choose another --output"
        )
    if output.exists() and not force and not is_frequency_file(output):
        raise OverwriteError(
            f"{output} exists and is no frequency file",
            expected="a new file, or a frequency file to replace",
            hint="choose another --output, or replace it with --force",
        )


def save_report(report: Report, output: Path, started: float | None = None) -> "BuildResult":
    """Writes the frequency file of a finished count.

    Args:
        report: the merged counts.
        output: checked by `check_output`.
        started: `time.monotonic()` when counting began, None if other processes counted.

    Raises:
        CountError: no token was counted, or the file cannot be written.
    """
    if not any(source.tokens for source in report.table.sources):
        left = "is left as it was" if output.exists() else "is not written"
        raise CountError(f"not one token was counted, and {output} {left}: {_why_nothing(report)}")
    # Removes what a killed build left half written, not what another build writes now.
    age = 3600 if started is None else time.monotonic() - started
    remove_leftovers(output.parent, glob.escape(output.name), older_than=time.time() - age)
    try:
        report.table.save(output)
    except OSError as error:
        raise CountError(
            f"cannot write {output}: {error.strerror}",
            hint="the counts are kept: make room, and run the same command again",
        ) from None
    return BuildResult(report, output, None if started is None else time.monotonic() - started)


def _why_nothing(report: Report) -> str:
    """What became of the rows of a count without a token."""
    reasons = []
    for source in report.table.sources:
        parts = [f"{source.documents:,} documents without text"] if source.documents else []
        for reason, number in source.skipped.items():
            first = next((e for e in report.examples[source.name] if e.reason == reason), None)
            parts.append(f"{number:,} × {reason}" + (f" ({first})" if first else ""))
        layout = report.layouts.get(source.name)
        counted = f" (counted is {layout})" if layout else ""
        reasons.append(f"{source.name}: {', '.join(parts) or 'no rows'}{counted}")
    return "; ".join(reasons)


@dataclass(frozen=True)
class BuildResult:
    """A written frequency file.

    Attributes:
        report: the merged counts.
        output: the file.
        seconds: of counting and writing; None if other processes counted.
    """

    report: Report
    output: Path
    seconds: float | None

    def finish(self, *, as_json: bool, max_bad_rows: int, quiet: bool) -> NoReturn:
        """Prints the summary, and warnings on standard error; exits.

        Raises:
            typer.Exit: with code 0, or 3 if more was lost than `max_bad_rows` allows.
        """
        if as_json:
            render.print_json(self.as_dict())
        elif not quiet:
            self._print()
        for warning in self._warnings():
            render.note(f"warning: {warning}", quiet=quiet)
        if loss := self._loss(max_bad_rows):
            render.note(f"warning: {loss}; the file is written, the exit code is 3")
        raise typer.Exit(3 if loss else 0)

    def as_dict(self) -> dict[str, Any]:
        """The summary for `--json`."""
        table, report = self.report.table, self.report
        return {
            "file": str(self.output),
            "tokenizer": table.tokenizer.sha256,
            "rows": table.rows,
            "tokens": sum(s.tokens for s in table.sources),
            "documents": sum(s.documents for s in table.sources),
            "distinct_ids": self._distinct_ids,
            "coverage": render.coverage(table),
            "skipped": {s.name: s.skipped for s in table.sources},
            "layouts": report.layouts,
            "examples": {
                name: [f"{e.reason}: {e}" for e in examples]
                for name, examples in report.examples.items()
            },
            "encoder": msgspec.structs.asdict(table.meta.encoder),
            "shards": report.shards,
            "resumed_shards": report.resumed,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
        }

    @property
    def _distinct_ids(self) -> int:
        table = self.report.table
        return int((table.counts + table.heldout).any(axis=0).sum())

    def _loss(self, max_bad_rows: int) -> str | None:
        """Why the exit code is 3, or None."""
        sources = self.report.table.sources
        skipped = [source.skipped for source in sources]
        bad = sum(map(count_bad_rows, skipped))
        if bad > max_bad_rows:
            return f"{bad:,} rows were skipped, more than --max-bad-rows {max_bad_rows:,}"
        if any(TRUNCATED in reasons for reasons in skipped):
            return "a file is truncated; the number of lost rows is unknown"
        if any(BROKEN in reasons for reasons in skipped):
            return "a file is broken and was not counted"
        beyond = sum(reasons.get(BEYOND_ROWS, 0) for reasons in skipped)
        if beyond > MAX_BEYOND_ROWS * sum(source.tokens for source in sources):
            return f"{beyond:,} tokens are beyond the model's rows: another model's config?"
        return None

    def _warnings(self) -> Iterator[str]:
        """Sources that look wrong although nothing was lost."""
        for source in self.report.table.sources:
            if source.documents and not source.tokens:
                yield f"{source.name}: {source.documents:,} documents without a single token"
            elif self.report.table.meta.options["holdout"] and not source.heldout_documents:
                yield (
                    f"{source.name}: too few documents to hold one out; its coverage is that of "
                    "the counted tokens"
                )

    def _print(self) -> None:
        table = self.report.table
        rows = [
            [
                s.name,
                f"{s.documents:,}",
                f"{s.heldout_documents:,}",
                f"{s.tokens:,}",
                render.megabytes(s.bytes),
                f"{sum(s.skipped.values()):,}",
            ]
            for s in table.sources
        ]
        header = ["source", "documents", "held out", "tokens", "text", "skipped"]
        render.print_table("Counted", header, rows)
        for name, layout in self.report.layouts.items():
            print(render.clean(f"{name}: {layout}"))
        render.print_coverage(table)
        self._print_skipped()
        self._print_encoder()
        print(f"Wrote {self.output} ({self._speed()}).")
        print(f"Next: vocabfreq show {self.output}")

    def _print_skipped(self) -> None:
        for source in self.report.table.sources:
            for reason, number in source.skipped.items():
                examples = [e for e in self.report.examples[source.name] if e.reason == reason]
                shown = "; ".join(map(str, examples[:3]))
                effect = {SURROGATE: "mended", BEYOND_ROWS: "left out"}.get(reason, "skipped")
                effect = "remark" if reason in REMARKS else effect
                lines = f" ({shown})" if shown else ""
                print(render.clean(f"{effect} in {source.name}: {number:,} × {reason}{lines}"))

    def _print_encoder(self) -> None:
        encoder = self.report.table.meta.encoder
        if encoder.name == "none":
            print("No text was encoded.")
            return
        checked = ""
        if "gigatoken" in encoder.name or encoder.mismatched_documents:
            checked = (
                f"; {encoder.cross_checked_documents:,} texts checked against tokenizers, "
                f"{encoder.mismatched_documents:,} differed"
            )
        print(f"Encoded by {encoder.name} {encoder.version}{checked}.")
        if encoder.mismatched_documents:
            at = f" at {', '.join(encoder.code_points)}" if encoder.code_points else ""
            print(f"gigatoken differed{at}; tokenizers counted those shards again.")

    def _speed(self) -> str:
        size = sum(s.bytes for s in self.report.table.sources)
        ids = f"{self._distinct_ids:,} distinct ids of {self.report.table.rows:,}"
        if not self.seconds:
            return ids
        rate = f", {size / 1e6 / self.seconds:,.1f} MB/s" if size else ""
        return f"{ids}, {self.seconds:.1f} s{rate}"
