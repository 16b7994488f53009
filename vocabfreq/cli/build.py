"""`vocabfreq build`: corpora in, one ranked frequency file out."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vocabfreq.cli import render
from vocabfreq.cli.build_options import CountingOptions
from vocabfreq.cli.options import OUTPUT, RUN, WorkersOption, with_options

if TYPE_CHECKING:
    from vocabfreq.cli.build_result import BuildResult
    from vocabfreq.counting.plan import Plan


class EngineChoice(StrEnum):
    """Where shards are counted."""

    local = "local"
    ray = "ray"


@dataclass(frozen=True, kw_only=True)
class BuildOptions(CountingOptions):
    """Options of `build`."""

    workers: WorkersOption = None
    engine: Annotated[
        EngineChoice, RUN.option(None, "Worker processes, or tasks of a Ray cluster.")
    ] = EngineChoice.local
    address: Annotated[
        str | None,
        RUN.option("ADDR", "Ray cluster: auto or HOST:6379. Default: one on this machine."),
    ] = None
    work_dir: Annotated[
        Path | None,
        RUN.option("DIR", "Keep partial files here. Default: FILE.parts, removed when done."),
    ] = None
    max_bad_rows: Annotated[
        int,
        RUN.option("N", "Exit code 3 if more than N rows were skipped; FILE is written.", min=0),
    ] = 1000
    output: Annotated[Path, OUTPUT.option("FILE", "File to write.", "--output", "-o")] = Path(
        "vocab_freq.safetensors"
    )
    force: Annotated[
        bool, OUTPUT.flag("Replace FILE even if it is no frequency file.", "--force")
    ] = False
    dry_run: Annotated[
        bool, OUTPUT.flag("Print the plan (shards, bytes) and stop.", "--dry-run")
    ] = False


@with_options(BuildOptions)
def build(options: BuildOptions) -> None:
    """Count how often each token id occurs in text, and rank the ids.

    Every document is encoded as plain text, without BOS or EOS. After an interruption, the same
    command counts only what is missing.
    """
    plan = options.make_plan(
        workers=options.workers,
        engine=options.engine.value,
        address=options.address,
        work_dir=options.work_dir or Path(f"{options.output}.parts"),
    )
    if options.dry_run:
        from vocabfreq.cli.plan import print_plan

        print_plan(plan, options.as_json)
        return
    result = _run(plan, options)
    result.finish(as_json=options.as_json, max_bad_rows=options.max_bad_rows, quiet=options.quiet)


def _run(plan: "Plan", options: BuildOptions) -> "BuildResult":
    import time

    from vocabfreq.cli.build_result import check_output, save_report
    from vocabfreq.cli.progress import show_progress
    from vocabfreq.counting.build import run_plan
    from vocabfreq.counting.partial_files import remove_work_dir

    check_output(options.output, options.force)
    quiet = options.quiet or options.as_json
    started = time.monotonic()
    with show_progress(plan, quiet) as listener:
        report = run_plan(plan, progress=listener)
        result = save_report(report, options.output, started)
    if report.resumed:
        render.note(
            f"{report.resumed} of {report.shards} shards were counted by an earlier run",
            quiet=quiet,
        )
    if options.work_dir is None and plan.options.work_dir:
        remove_work_dir(plan.options.work_dir)
    return result
