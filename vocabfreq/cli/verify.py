"""`vocabfreq verify`: checks a frequency file or a published repo."""

from dataclasses import asdict
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import JsonOption, argument


def verify(
    source: Annotated[
        str,
        argument(
            "FILE|REPO", r"Frequency file, pulled folder, or OWNER/NAME\[@REVISION] on the Hub."
        ),
    ],
    as_json: JsonOption = False,
) -> None:
    """Check the sums, the structure and the ranking of a file or a repo.

    The exit code is 1 if a check fails.
    """
    from vocabfreq.hub import verify as run_checks

    checks = run_checks(source)
    good = all(check.ok for check in checks)
    if as_json:
        render.print_json({"ok": good, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            outcome = "ok " if check.ok else "BAD"
            print(render.clean(f"{outcome}  {check.name}: {check.detail}"))
        print(render.clean(f"{source}: {'all checks passed' if good else 'do not use it'}"))
    raise typer.Exit(0 if good else 1)
