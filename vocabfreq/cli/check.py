"""`vocabfreq check`: errors in a drafter folder, and their effect in each engine."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import INPUT, JsonOption, argument

if TYPE_CHECKING:
    from vocabfreq.checkpoints.findings import Finding


def check(
    drafter: Annotated[Path, argument("DRAFTER", "Folder of a drafter.")],
    target: Annotated[
        Path | None, INPUT.option("TARGET", "Folder of its target, to compare with.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find errors in a drafter folder, and their effect in each engine.

    No weights are loaded. The exit code is 1 if there is an error, 0 if there are only warnings or
    nothing.
    """
    from vocabfreq.checkpoints.checks import check_drafter

    findings = check_drafter(drafter, target)
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        render.print_json({"errors": errors, "findings": [asdict(one) for one in findings]})
    else:
        for finding in findings:
            _print(finding)
        print(_summary(drafter, errors, len(findings) - errors))
    raise typer.Exit(1 if errors else 0)


def _print(finding: "Finding") -> None:
    print(render.clean(f"{finding.level}: {finding.problem} [{finding.code}]"))
    effects = dict(finding.engines)
    if len(set(effects.values())) == 1:
        effects = {"every engine": next(iter(effects.values()))}
    for engine, effect in effects.items():
        print(f"  {engine}: {effect}")
    print(f"  to do: {finding.fix}")


def _summary(drafter: Path, errors: int, warnings: int) -> str:
    if not errors and not warnings:
        return render.clean(f"{drafter}: nothing found")
    return render.clean(f"{drafter}: {_plural(errors, 'error')}, {_plural(warnings, 'warning')}")


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
