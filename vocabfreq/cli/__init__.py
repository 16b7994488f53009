"""The command line. Each verb has a module: parse, call one library function, render."""

import os
import shlex
import signal
import sys
from types import FrameType

import typer

from vocabfreq.cli.advise import advise
from vocabfreq.cli.bench import bench
from vocabfreq.cli.build import build
from vocabfreq.cli.check import check
from vocabfreq.cli.compare import compare
from vocabfreq.cli.convert import convert
from vocabfreq.cli.count import count
from vocabfreq.cli.eval import evaluate
from vocabfreq.cli.export import export
from vocabfreq.cli.merge import merge
from vocabfreq.cli.plan import plan
from vocabfreq.cli.prune import prune
from vocabfreq.cli.pull import pull
from vocabfreq.cli.push import push
from vocabfreq.cli.show import show
from vocabfreq.cli.status import status
from vocabfreq.cli.verify import verify

app = typer.Typer(
    name="vocabfreq",
    help="Count token frequencies, exactly and fast, for drafting with a pruned vocabulary.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COUNTING = (build, plan, count, status, merge)
USING = (show, compare, export, convert, prune, check, bench, push, pull, verify)
for verb in (*COUNTING, *USING):
    app.command()(verb)
app.command("eval")(evaluate)
app.command()(advise)


@app.callback(invoke_without_command=True)
def _version(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        from importlib.metadata import version as version_of

        print(version_of("vocabfreq"))
        raise typer.Exit


def main() -> None:
    """Entry point: errors become one or two lines and an exit code, never a traceback."""
    from vocabfreq.errors import VocabfreqError

    os.environ.setdefault("DATASETS_VERBOSITY", "error")  # our errors say what went wrong
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except VocabfreqError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read standard output has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Ends like Ctrl-C: workers are ended, temporary files removed, what is counted is kept."""
    sys.exit(128 + number)


def command_line() -> str:
    """This command as it can be typed again."""
    return shlex.join(["vocabfreq", *sys.argv[1:]])
