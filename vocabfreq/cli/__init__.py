"""The command line: one module per verb, which parses options, calls the library and prints.

Arguments come in; results go to standard output, remarks and progress to standard error, errors
become one or two lines and an exit code. Everything that is computed is left to the other rooms.
Verbs import the library inside their functions, so that `vocabfreq --help` loads none of it.
"""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

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
from vocabfreq.cli.options import GENERAL
from vocabfreq.cli.plan import plan
from vocabfreq.cli.prune import prune
from vocabfreq.cli.pull import pull
from vocabfreq.cli.push import push
from vocabfreq.cli.show import show
from vocabfreq.cli.status import status
from vocabfreq.cli.verify import verify

PANELS: dict[str, dict[str, Callable[..., None]]] = {
    "Count": {
        "build": build,
        "plan": plan,
        "count": count,
        "status": status,
        "merge": merge,
        "show": show,
        "compare": compare,
    },
    "Serve": {"export": export, "convert": convert, "prune": prune, "check": check},
    "Publish": {"push": push, "pull": pull, "verify": verify},
    "Measure": {"bench": bench, "eval": evaluate, "advise": advise},
}

app = typer.Typer(
    name="vocabfreq",
    help="Count token frequencies, and prune draft vocabularies for speculative decoding.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _help_text(verb: Callable[..., Any]) -> str:
    """The docstring with one line per paragraph: Typer keeps the line breaks of the source."""
    paragraphs = (verb.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for panel, verbs in PANELS.items():
    for name, verb in verbs.items():
        app.command(name, help=_help_text(verb), rich_help_panel=panel)(verb)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, GENERAL.flag("Print the version and stop.", "--version")] = False,
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
        # The reader of standard output has gone: nothing can be printed any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _terminate(number: int, frame: FrameType | None) -> None:
    """Ends like Ctrl-C: workers end, temporary files are removed, finished counts are kept."""
    sys.exit(128 + number)
