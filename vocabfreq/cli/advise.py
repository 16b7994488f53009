"""`vocabfreq advise`: the K with the highest expected tokens per second."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import INPUT, FileArgument, JsonOption, Panel, with_options

if TYPE_CHECKING:
    from vocabfreq.measure.advise import Advice, Point

CURVE_ROWS = 12
NO_EVAL = Panel("Without --eval")


@dataclass(frozen=True, kw_only=True)
class AdviseOptions:
    """Options of `advise`."""

    file: FileArgument
    bench: Annotated[
        Path, INPUT.option("BENCH.json", "Output of bench --json for this V: times of the head.")
    ]
    evaluation: Annotated[
        Path | None,
        INPUT.option(
            "EVAL.json", "Output of eval --json: acceptance, and times of a step.", "--eval"
        ),
    ] = None
    num_spec_tokens: Annotated[int, INPUT.option("N", "Tokens drafted in one step.", min=1)] = 3
    batch_size: Annotated[int, INPUT.option("B", "Batch size to read in both files.", min=1)] = 1
    target_ms: Annotated[
        float | None, NO_EVAL.option("MS", "Time of a target forward.", min=0.0)
    ] = None
    draft_ms: Annotated[
        float | None, NO_EVAL.option("MS", "Time of a drafted token without the head.", min=0.0)
    ] = None
    acceptance: Annotated[
        float | None,
        NO_EVAL.option(
            "A", "Share of the full head's drafted tokens that are accepted.", min=0.0, max=1.0
        ),
    ] = None
    as_json: JsonOption = False


@with_options(AdviseOptions)
def advise(options: AdviseOptions) -> None:
    """Find the K with the highest expected tokens per second.

    Expected, not measured: the tokens of a step over its seconds (one target forward, N times the
    drafter's body and head). Between measured sizes, the time of the head is linear in K and
    acceptance is linear in coverage; no K outside the sizes of the bench is considered.
    """
    advice = _advise(options)
    if options.as_json:
        render.print_json(asdict(advice))
    else:
        _print(advice, options.batch_size)


def _advise(options: AdviseOptions) -> "Advice":
    import numpy as np

    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.measure.advise import (
        Costs,
        advise,
        lengths_by_coverage,
        read_acceptance,
        read_head_times,
    )

    spec_tokens, batch_size = options.num_spec_tokens, options.batch_size
    table = FrequencyTable.load(options.file)
    coverage = np.concatenate([[0.0], table.coverage_curve()])
    heads = read_head_times(options.bench, table.rows, batch_size)
    if options.evaluation is not None:
        measured = read_acceptance(options.evaluation, table.rows, spec_tokens, batch_size)
        return advise(coverage, heads, measured.lengths, measured.costs(heads[table.rows]))
    target, draft, acceptance = options.target_ms, options.draft_ms, options.acceptance
    if target is None or draft is None or acceptance is None:
        raise typer.BadParameter("give --eval, or --target-ms, --draft-ms and --acceptance")
    lengths = lengths_by_coverage(coverage, acceptance, spec_tokens)
    return advise(coverage, heads, lengths, Costs(target / 1e3, draft / 1e3, spec_tokens))


def _print(advice: "Advice", batch_size: int) -> None:
    costs, best = advice.costs, advice.best
    points = [*advice.curve[:: max(1, len(advice.curve) // CURVE_ROWS)], best, advice.full_head]
    rows = sorted({point.size: point for point in points}.items())
    header = ["K", "coverage", "head, ms", "acceptance length", "expected tok/s", "× full head"]
    title = (
        f"N = {costs.spec_tokens}, B = {batch_size}: target {costs.target_seconds * 1e3:.3f} ms, "
        f"drafted token {costs.body_seconds * 1e3:.3f} ms and its head"
    )
    render.print_table(title, header, [_row(point, advice) for _, point in rows], left=0)
    low, high = advice.near_best
    gain = best.tokens_per_second / advice.full_head.tokens_per_second
    print(f"Best: K = {best.size:,}, expected {gain:.2f} × the full head.")
    if low < high:
        print(f"K = {low:,} to {high:,} are within 1 % of it.")
    else:
        print("No other K is within 1 % of it.")
    print("Expected for one request, from measured times; check it with vocabfreq eval.")


def _row(point: "Point", advice: "Advice") -> list[str]:
    return [
        f"{point.size:,}{' *' if point == advice.best else ''}",
        render.percent(point.coverage),
        f"{point.head_seconds * 1e3:.3f}",
        f"{point.acceptance_length:.3f}",
        f"{point.tokens_per_second:.2f}",
        f"{point.tokens_per_second / advice.full_head.tokens_per_second:.3f}",
    ]
