"""`vocabfreq advise`: the K that is expected to give the most tokens per second."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import JsonOption

if TYPE_CHECKING:
    from vocabfreq.measure.advise import Advice, Point

ROWS = 12


def advise(
    file: Annotated[Path, typer.Argument(help="A frequency file.")],
    bench: Annotated[
        Path, typer.Option("--bench", help="Head times: output of bench --json, this V.")
    ],
    evaluation: Annotated[
        Path | None,
        typer.Option("--eval", help="Acceptance and step times: output of eval --json."),
    ] = None,
    target_ms: Annotated[
        float | None, typer.Option(min=0.0, help="Without --eval: a forward of the target.")
    ] = None,
    draft_ms: Annotated[
        float | None,
        typer.Option(min=0.0, help="Without --eval: a drafted token, the head left out."),
    ] = None,
    acceptance: Annotated[
        float | None,
        typer.Option(
            min=0.0, max=1.0, help="Without --eval: share of the full head's drafts accepted."
        ),
    ] = None,
    num_spec_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="A step drafts.")] = 3,
    batch_size: Annotated[int, typer.Option(min=1, metavar="B", help="Of both files.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Tell the best K from a frequency file, measured head times, and measured acceptance.

    Expected, not measured: tokens of a step over its seconds (one target forward, N times the
    drafter's body and head). Between measured sizes, head times are linear in K and acceptance is
    linear in coverage; sizes outside of those of the bench are not judged.
    """
    import numpy as np

    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.measure.advise import (
        Costs,
        lengths_by_coverage,
        read_acceptance,
        read_head_times,
    )
    from vocabfreq.measure.advise import advise as advise_on

    table = FrequencyTable.load(file)
    coverage = np.concatenate([[0.0], table.coverage_curve()])
    heads = read_head_times(bench, table.rows, batch_size)
    if evaluation is not None:
        found = read_acceptance(evaluation, table.rows, num_spec_tokens, batch_size)
        lengths, costs = found.lengths, found.costs(heads[table.rows])
    elif target_ms is None or draft_ms is None or acceptance is None:
        raise typer.BadParameter("give --eval, or --target-ms, --draft-ms and --acceptance")
    else:
        lengths = lengths_by_coverage(coverage, acceptance, num_spec_tokens)
        costs = Costs(target_ms / 1e3, draft_ms / 1e3, num_spec_tokens)
    advice = advise_on(coverage, heads, lengths, costs)
    if as_json:
        render.print_json(asdict(advice))
    else:
        _print(advice, batch_size)


def _print(advice: "Advice", batch_size: int) -> None:
    costs, best = advice.costs, advice.best
    shown = [*advice.curve[:: max(1, len(advice.curve) // ROWS)], best, advice.full_head]
    rows = sorted({point.size: point for point in shown}.items())
    header = ["K", "coverage", "head, ms", "acceptance length", "expected tok/s", "× full head"]
    title = (
        f"N = {costs.spec_tokens}, B = {batch_size}: target {costs.target_seconds * 1e3:.3f} ms, "
    )
    title += f"a drafted token {costs.body_seconds * 1e3:.3f} ms and its head"
    render.print_table(title, header, [_row(point, advice) for _, point in rows], left=0)
    low, high = advice.near_best
    gain = best.tokens_per_second / advice.full_head.tokens_per_second
    print(f"Best: K = {best.size:,}, expected {gain:.2f} × the full head.")
    print(f"K = {low:,} to {high:,} are within 1 % of it." if low < high else "No other is near.")
    print(
        "Expected for one request's tokens, from what was measured; check it with vocabfreq eval."
    )


def _row(point: "Point", advice: "Advice") -> list[str]:
    return [
        f"{point.size:,}{' *' if point == advice.best else ''}",
        render.percent(point.coverage),
        f"{point.head_seconds * 1e3:.3f}",
        f"{point.acceptance_length:.3f}",
        f"{point.tokens_per_second:.2f}",
        f"{point.tokens_per_second / advice.full_head.tokens_per_second:.3f}",
    ]
