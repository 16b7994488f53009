"""The progress bar of `build`: documents, tokens, MB/s, time left."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from vocabfreq.counting.plan import Plan
from vocabfreq.counting.workers import ShardDone


class Bar:
    """A bar that advances by the bytes of finished shards."""

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
        self.bar = self.progress.add_task("", total=plan.bytes or None, rate="", counted="")

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.progress.stop()

    def __call__(self, done: ShardDone) -> None:
        """Advances by one shard."""
        self.documents += done.documents
        self.tokens += done.tokens
        speed = self.progress.tasks[0].finished_speed or self.progress.tasks[0].speed
        self.progress.update(
            self.bar,
            advance=done.size,
            rate=f"{speed / 1e6:,.0f} MB/s" if speed else "",
            counted=f"{self.documents:,} documents, {self.tokens:,} tokens",
        )
