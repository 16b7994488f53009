"""`vocabfreq build`: corpora in, one ranked frequency file out.

What `build` does and shows once its options are parsed.
"""

import glob
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.build_options import (
    COUNT,
    OUTPUT,
    AddressOption,
    ColumnOption,
    EncoderChoice,
    EncoderOption,
    EngineChoice,
    EngineOption,
    HoldoutOption,
    MaxDocumentsOption,
    ModelConfigOption,
    RolesChoice,
    RolesOption,
    SeparatorOption,
    SourceOption,
    TokenizerOption,
    WeightOption,
    WorkersOption,
    asked_sources,
    asked_weights,
    planned,
)
from vocabfreq.corpus.bad_rows import (
    BEYOND_ROWS,
    BROKEN,
    REMARKS,
    SURROGATE,
    TRUNCATED,
    count_bad_rows,
)
from vocabfreq.counting.build import run_plan
from vocabfreq.counting.merging import Report
from vocabfreq.counting.partial_files import SUFFIX, remove_work_dir
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.workers import Notice, ShardDone
from vocabfreq.errors import CountError, OverwriteError
from vocabfreq.frequencies.file import is_frequency_file
from vocabfreq.storage.atomic import remove_leftovers

BEYOND_SHARE = 0.01


def show_plan(plan: Plan, as_json: bool) -> None:
    """What a build would read."""
    found: list[dict[str, Any]] = []
    for index, source in enumerate(plan.sources):
        shards = [shard for shard in plan.shards if shard.source == index]
        layout = shards[0].layout
        found.append(
            {
                "source": source.name,
                "files": len(plan.files(index)),
                "shards": len(shards),
                "bytes": sum(shard.size for shard in shards),
                "column": layout.column,
                "kind": layout.kind,
            }
        )
    if as_json:
        total = {"shards": len(plan.shards), "bytes": plan.bytes, "rows": plan.tokenizer.rows}
        render.print_json({"plan": found, **total})
        return
    rows = [
        [
            row["source"],
            f"{row['kind']} in {row['column']!r}",
            *(f"{row[k]:,}" for k in ("files", "shards")),
            render.megabytes(row["bytes"]),
        ]
        for row in found
    ]
    header = ["source", "what", "files", "shards", "size"]
    render.print_table("Plan (nothing was counted)", header, rows, left=2)


@dataclass
class Outcome:
    """A finished build."""

    report: Report
    output: Path
    seconds: float | None

    def exit_code(self, max_bad_rows: int) -> int:
        """0, or 3 when more was lost than allowed."""
        return 3 if self._too_bad(max_bad_rows) else 0

    def _too_bad(self, max_bad_rows: int) -> str | None:
        skipped = [source.skipped for source in self.report.table.sources]
        bad = sum(map(count_bad_rows, skipped))
        if bad > max_bad_rows:
            return f"{bad:,} rows were skipped, more than --max-bad-rows {max_bad_rows:,}"
        if any(TRUNCATED in reasons for reasons in skipped):
            return "a file ends in the middle: how much was lost is not known"
        if any(BROKEN in reasons for reasons in skipped):
            return "a file is broken as a whole"
        if not any(source.documents for source in self.report.table.sources):
            return "not one document was counted"
        beyond = sum(reasons.get(BEYOND_ROWS, 0) for reasons in skipped)
        if beyond > BEYOND_SHARE * sum(source.tokens for source in self.report.table.sources):
            return f"{beyond:,} tokens are beyond the model's rows: another model's config?"
        return None

    def show(self, *, as_json: bool, max_bad_rows: int, quiet: bool) -> None:
        """The summary."""
        if as_json:
            render.print_json(self.as_dict())
        elif not quiet:
            self._print()
        for remark in self._doubts():
            render.note(f"warning: {remark}", quiet=quiet)
        if trouble := self._too_bad(max_bad_rows):
            render.note(f"warning: {trouble}; the file is written, the exit code is 3")

    def _doubts(self) -> Iterator[str]:
        """What a person should look at, though nothing is lost."""
        for source in self.report.table.sources:
            if source.documents and not source.tokens:
                yield f"{source.name}: {source.documents:,} documents without a single token"
            elif self.report.table.meta.options["holdout"] and not source.heldout_documents:
                yield f"{source.name}: too few documents to hold one out; coverage is of all"

    def as_dict(self) -> dict[str, Any]:
        """The summary for programs."""
        table, report = self.report.table, self.report
        return {
            "file": str(self.output),
            "tokenizer": table.tokenizer.sha256,
            "rows": table.rows,
            "tokens": sum(s.tokens for s in table.sources),
            "documents": sum(s.documents for s in table.sources),
            "distinct_ids": int((table.counts + table.heldout).any(axis=0).sum()),
            "coverage": render.coverage(table),
            "skipped": {s.name: s.skipped for s in table.sources},
            "examples": {
                name: [f"{e.reason}: {e}" for e in found] for name, found in report.examples.items()
            },
            "encoder": {
                "name": table.meta.encoder.name,
                "version": table.meta.encoder.version,
                "cross_checked_documents": table.meta.encoder.cross_checked_documents,
                "mismatched_documents": table.meta.encoder.mismatched_documents,
                "code_points": list(table.meta.encoder.code_points),
            },
            "shards": report.shards,
            "resumed_shards": report.resumed,
            "seconds": None if self.seconds is None else round(self.seconds, 3),
        }

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
        render.print_coverage(table)
        self._print_skipped()
        self._print_engine()
        print(f"Wrote {self.output} ({self._speed()}).")
        print(f"Next: vocabfreq show {self.output}")

    def _print_skipped(self) -> None:
        for source in self.report.table.sources:
            for reason, number in source.skipped.items():
                places = [e for e in self.report.examples[source.name] if e.reason == reason]
                shown = "; ".join(map(str, places[:3]))
                what = {SURROGATE: "mended", BEYOND_ROWS: "left out"}.get(reason, "skipped")
                what = "remark" if reason in REMARKS else what
                where = f" ({shown})" if shown else ""
                print(render.clean(f"{what} in {source.name}: {number:,} × {reason}{where}"))

    def _print_engine(self) -> None:
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
            print(f"The fast engine was caught{at}; those shards were counted by tokenizers.")

    def _speed(self) -> str:
        distinct = int((self.report.table.counts + self.report.table.heldout).any(axis=0).sum())
        size = sum(s.bytes for s in self.report.table.sources)
        told = f"{distinct:,} distinct ids of {self.report.table.rows:,}"
        if not self.seconds:
            return told
        rate = f", {size / 1e6 / self.seconds:,.0f} MB/s" if size else ""
        return f"{told}, {self.seconds:.1f} s{rate}"


def run_build(plan: Plan, output: Path, *, force: bool, keep: bool, quiet: bool) -> Outcome:
    """Counts and writes the file; Ctrl-C and SIGTERM keep what is done and say how to go on.

    Raises:
        OverwriteError: something else is in the way of the output.
    """
    check_output(output, force)
    started = time.monotonic()
    with listening(plan, quiet) as heard:
        report = run_plan(plan, progress=heard)
        outcome = save_report(report, output, started)
    if report.resumed:
        render.note(f"{report.resumed} of {report.shards} shards were counted before", quiet=quiet)
    if not keep and plan.options.work_dir:
        remove_work_dir(plan.options.work_dir)
    return outcome


@contextmanager
def listening(plan: Plan, quiet: bool) -> Iterator["Listener"]:
    """Shows progress while shards are counted; when stopped, says what is kept and how to go on."""
    try:
        with _progress(plan, quiet) as bar:
            yield Listener(bar, quiet)
    except (KeyboardInterrupt, SystemExit):
        _say_how_to_go_on(plan)
        raise


def save_report(report: Report, output: Path, started: float | None = None) -> Outcome:
    """Writes the file of a finished count.

    Args:
        report: what was counted.
        output: checked before.
        started: `time.monotonic` when counting began, None when that was another process.

    Raises:
        CountError: nothing was counted, and a file is there already; or it cannot be written.
    """
    if output.exists() and not any(source.tokens for source in report.table.sources):
        raise CountError(f"not one token was counted; {output} is left as it was")
    seconds = None if started is None else time.monotonic() - started
    # What a killed build left half written; whatever writes there now is younger.
    oldest = time.time() - (seconds or 3600)
    remove_leftovers(output.parent, glob.escape(output.name), older_than=oldest)
    try:
        report.table.save(output)
    except OSError as error:
        raise CountError(
            f"cannot write {output}: {error.strerror}",
            hint="what is counted is kept: make room, and run the same command again",
        ) from None
    return Outcome(report, output, time.monotonic() - started if started is not None else None)


def _say_how_to_go_on(plan: Plan) -> None:
    from vocabfreq.cli import command_line

    kept = len(list(plan.options.work_dir.glob(f"*{SUFFIX}"))) if plan.options.work_dir else 0
    total = len(set(plan.keys))
    print(
        f"\ninterrupted; {kept} of {total} shards are counted and kept. To go on: {command_line()}",
        file=sys.stderr,
    )


def check_output(output: Path, force: bool) -> None:
    """Refuses to replace what is not ours.

    Raises:
        OverwriteError: it is a folder, or another kind of file and `force` is off.
    """
    if output.exists() and not output.is_file():
        raise OverwriteError(f"{output} is a folder or a device", hint="name a file with --output")
    if output.exists() and not force and not is_frequency_file(output):
        raise OverwriteError(
            f"{output} is in the way, and no frequency file",
            hint="choose another --output, or replace it with --force",
        )


class Listener:
    """Hears of finished shards and remarks: moves the bar, and says each remark once."""

    def __init__(self, bar: Any, quiet: bool) -> None:
        self.bar, self.quiet, self.said = bar, quiet, set[str]()

    def __call__(self, heard: ShardDone | Notice) -> None:
        """Passes on what was heard."""
        if isinstance(heard, ShardDone):
            if self.bar:
                self.bar(heard)
        elif heard.text not in self.said:
            self.said.add(heard.text)
            render.note(heard.text, quiet=self.quiet)


def _progress(plan: Plan, quiet: bool) -> AbstractContextManager[Any]:
    """A bar on a terminal, nothing elsewhere."""
    if quiet or not sys.stderr.isatty():
        return nullcontext()
    from vocabfreq.cli.progress import Bar

    return Bar(plan)


def build(
    tokenizer: TokenizerOption,
    source: SourceOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", rich_help_panel=OUTPUT)
    ] = Path("vocab_freq.safetensors"),
    model_config: ModelConfigOption = None,
    column: ColumnOption = None,
    roles: RolesOption = RolesChoice.assistant,
    separator: SeparatorOption = None,
    max_documents: MaxDocumentsOption = None,
    weight: WeightOption = None,
    holdout: HoldoutOption = 50,
    max_bad_rows: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Above so many skipped rows the exit code is 3 (the file is written).",
            rich_help_panel=COUNT,
        ),
    ] = 1000,
    encoder: EncoderOption = EncoderChoice.auto,
    workers: WorkersOption = None,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where partial files go, to be kept. Default: FILE.parts, removed when done.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace FILE even if it is no frequency file.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan (shards, bytes) and stop.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress, no remarks.", rich_help_panel=OUTPUT),
    ] = False,
) -> None:
    """Count how often each token id occurs in text, and rank the ids.

    Every document is encoded as plain text, without BOS or EOS. The same command again continues
    where an interrupted one stopped.
    """
    plan = planned(
        tokenizer,
        model_config,
        asked_sources(source, column, roles, separator, max_documents),
        holdout=holdout,
        encoder=encoder.value,
        workers=workers,
        engine=engine.value,
        address=address,
        weights=asked_weights(weight),
        work_dir=work_dir or Path(f"{output}.parts"),
    )
    if dry_run:
        show_plan(plan, as_json)
        return
    keep = work_dir is not None
    outcome = run_build(plan, output, force=force, keep=keep, quiet=quiet or as_json)
    outcome.show(as_json=as_json, max_bad_rows=max_bad_rows, quiet=quiet)
    raise typer.Exit(outcome.exit_code(max_bad_rows))
