"""Progress on standard error while shards are counted, and how to resume after an interruption."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from vocabfreq.cli import render
from vocabfreq.counting.partial_files import SUFFIX
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.workers import Done, Remark


@contextmanager
def show_progress(plan: Plan, quiet: bool) -> Iterator["ProgressListener"]:
    """Shows finished shards and remarks; an interruption prints the command that resumes."""
    shown = not quiet and sys.stderr.isatty()
    bar: AbstractContextManager[ProgressBar | None] = ProgressBar(plan) if shown else nullcontext()
    try:
        with bar as started:
            yield ProgressListener(started, quiet)
    except (KeyboardInterrupt, SystemExit):
        _print_how_to_resume(plan)
        raise


def _print_how_to_resume(plan: Plan) -> None:
    kept = len(list(plan.options.work_dir.glob(f"*{SUFFIX}"))) if plan.options.work_dir else 0
    print(
        f"\ninterrupted; the counts of {kept} of {len(set(plan.keys))} shards are kept. "
        f"To resume: {render.current_command()}",
        file=sys.stderr,
    )


class ProgressListener:
    """Receives finished shards and remarks: advances the bar, prints each remark once."""

    def __init__(self, bar: "ProgressBar | None", quiet: bool) -> None:
        self.bar, self.quiet, self.printed = bar, quiet, set[str]()

    def __call__(self, event: Done | Remark) -> None:
        """Shows one event."""
        if isinstance(event, Done):
            if self.bar:
                self.bar.advance(event)
        elif event.text not in self.printed:
            self.printed.add(event.text)
            render.note(event.text, quiet=self.quiet)


class ProgressBar:
    """A bar that advances by the bytes of finished shards, with documents, tokens and time left."""

    def __init__(self, plan: Plan) -> None:
        self.documents = self.tokens = 0
        self.progress = Progress(
            TextColumn("counting"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}  {task.fields[counted]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.task = self.progress.add_task("", total=plan.bytes or None, rate="", counted="")

    def __enter__(self) -> "ProgressBar":
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def advance(self, done: Done) -> None:
        """Advances by one shard."""
        self.documents += done.documents
        self.tokens += done.tokens
        speed = self.progress.tasks[0].finished_speed or self.progress.tasks[0].speed
        self.progress.update(
            self.task,
            advance=done.size,
            rate=f"{speed / 1e6:,.0f} MB/s" if speed else "",
            counted=f"{self.documents:,} documents, {self.tokens:,} tokens",
        )
