"""Progress on standard error while shards are counted, and how to resume after an interruption."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from vocabfreq.cli import render
from vocabfreq.counting.partial_files import SUFFIX
from vocabfreq.counting.plan import Plan
from vocabfreq.counting.workers import Notice, ShardDone


@contextmanager
def show_progress(plan: Plan, quiet: bool) -> Iterator["ProgressListener"]:
    """Shows finished shards and notices; an interruption prints the command that resumes."""
    bar = None if quiet or not sys.stderr.isatty() else _progress_bar()
    try:
        with bar or nullcontext():
            yield ProgressListener(bar, plan.bytes, quiet)
    except (KeyboardInterrupt, SystemExit):
        _print_how_to_resume(plan)
        raise


def _progress_bar() -> Progress:
    return Progress(
        TextColumn("counting"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %  {task.fields[rate]}  {task.fields[counted]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def _print_how_to_resume(plan: Plan) -> None:
    kept = len(list(plan.options.work_dir.glob(f"*{SUFFIX}"))) if plan.options.work_dir else 0
    print(
        f"\ninterrupted; the counts of {kept} of {len(set(plan.keys))} shards are kept. "
        f"To resume: {render.current_command()}",
        file=sys.stderr,
    )


class ProgressListener:
    """Receives finished shards and notices: advances the bar, prints each notice once."""

    def __init__(self, bar: Progress | None, size: int, quiet: bool) -> None:
        self.bar, self.quiet, self.printed = bar, quiet, set[str]()
        self.documents = self.tokens = 0
        if bar:
            self.task = bar.add_task("", total=size or None, rate="", counted="")

    def __call__(self, event: ShardDone | Notice) -> None:
        """Shows one event."""
        if isinstance(event, Notice):
            if event.text not in self.printed:
                self.printed.add(event.text)
                render.note(event.text, quiet=self.quiet)
        elif self.bar:
            self._advance(self.bar, event)

    def _advance(self, bar: Progress, done: ShardDone) -> None:
        """Advances the bar by the bytes of one shard."""
        self.documents += done.documents
        self.tokens += done.tokens
        speed = bar.tasks[0].finished_speed or bar.tasks[0].speed
        bar.update(
            self.task,
            advance=done.size,
            rate=f"{speed / 1e6:,.0f} MB/s" if speed else "",
            counted=f"{self.documents:,} documents, {self.tokens:,} tokens",
        )
