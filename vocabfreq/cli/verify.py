"""`vocabfreq verify`: what was checked of a file or a published repo, and what came out."""

from dataclasses import asdict
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import JsonOption


def verify(
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE|REPO", help="A frequency file, a pulled folder, or OWNER/NAME[@REVISION]."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Check everything that can be checked. The exit code is 1 when something is wrong."""
    from vocabfreq.hub import verify as look

    checks = look(source)
    good = all(check.ok for check in checks)
    if as_json:
        render.print_json({"ok": good, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            word = "ok " if check.ok else "BAD"
            print(render.clean(f"{word}  {check.name}: {check.detail}"))
        print(render.clean(f"{source}: {'all is as it should be' if good else 'do not use it'}"))
    raise typer.Exit(0 if good else 1)
