"""`vocabfreq check`: what is wrong with a drafter, and what each engine would make of it."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render

if TYPE_CHECKING:
    from vocabfreq.checkpoints.findings import Finding


def check(
    drafter: Annotated[Path, typer.Argument(help="Folder of a drafter.")],
    target: Annotated[
        Path | None,
        typer.Option(metavar="TARGET", help="Folder of its target, to compare with."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Look for what is wrong with a drafter folder, without loading it.

    The exit code is 1 when there is an error, 0 when there are only warnings or nothing.
    """
    from vocabfreq.checkpoints.checks import check_drafter

    found = check_drafter(drafter, target)
    errors = sum(one.level == "error" for one in found)
    if as_json:
        render.print_json({"errors": errors, "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            _print(one)
        print(_summary(drafter, errors, len(found) - errors))
    raise typer.Exit(1 if errors else 0)


def _print(finding: "Finding") -> None:
    print(render.clean(f"{finding.level}: {finding.problem} [{finding.code}]"))
    told = list(finding.engines.items())
    if len({text for _, text in told}) == 1:
        told = [("every engine", told[0][1])]
    for engine, text in told:
        print(f"  {engine}: {text}")
    print(f"  to do: {finding.fix}")


def _summary(drafter: Path, errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return render.clean(f"{drafter}: nothing found")
    return render.clean(f"{drafter}: {_number(errors, 'error')}, {_number(warnings, 'warning')}")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
