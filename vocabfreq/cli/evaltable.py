"""The table of `vocabfreq eval`, and what stands below it."""

from typing import TYPE_CHECKING

from vocabfreq.cli import render

if TYPE_CHECKING:
    from vocabfreq.measure.eval import Evaluation, Row
    from vocabfreq.measure.eval.compare import Difference

RUN = ["method", "K", "spec tokens", "B"]
MEASURED = ["depth", "branching", "mean acceptance length", "per position", "tok/s", "total s"]
COMPARED = ["coverage", "predicted length", "× vanilla", "× unpruned", "output"]
NONE = "–"


def print_evaluation(found: "Evaluation") -> None:
    """The table, then differences, failures, notes and versions."""
    plan = found.plan
    title = f"{plan.engine}, {plan.dtype}, {len(plan.prompts)} prompts, up to {plan.max_tokens} "
    header = [*RUN, *MEASURED, "forward ratio"]
    render.print_table(f"{title}tokens each", header, map(_measured, found.rows))
    render.print_table("Compared", [*RUN, *COMPARED], map(_compared, found.rows))
    for row in found.rows:
        for line in _remarks(row):
            print(render.clean(line))
    for text in found.notes:
        print(render.clean(f"Note: {text}."))
    print(render.clean(", ".join(f"{name} {value}" for name, value in found.versions.items())))


def _run(row: "Row") -> list[str]:
    kept = NONE if not row.spec_tokens else "full" if row.size is None else f"{row.size:,}"
    return [row.method, kept, str(row.spec_tokens), str(row.batch_size)]


def _measured(row: "Row") -> list[str]:
    shape = [str(row.depth), str(row.branching)] if row.spec_tokens else [NONE, NONE]
    return [
        *_run(row),
        *shape,
        _number(row.acceptance_length, 2),
        " ".join(f"{share:.2f}" for share in row.acceptance_per_position) or NONE,
        _number(row.tokens_per_second, 2) + " *" * row.resumed,
        _number(row.seconds, 2),
        _number(row.forward_ratio, 3),
    ]


def _compared(row: "Row") -> list[str]:
    coverage = NONE if row.coverage is None else render.percent(row.coverage)
    ratios = [_number(value, 2) for value in (row.to_vanilla, row.to_unpruned)]
    return [*_run(row), coverage, _predicted(row), *ratios, _output(row)]


def _predicted(row: "Row") -> str:
    if row.prediction is None:
        return NONE
    return f"{row.prediction.length:.2f}{' !' if row.prediction.off else ''}"


def _output(row: "Row") -> str:
    if row.error is not None:
        return "FAILED"
    if not row.compared:
        return NONE
    wrong = sum(not difference.innocent for difference in row.differences)
    if wrong:
        return f"DIFFERS ({wrong})"
    return f"near-ties ({len(row.differences)})" if row.differences else "same"


def _remarks(row: "Row") -> list[str]:
    kept = "full head" if row.size is None else f"K = {row.size:,}"
    name = f"{row.method}, {kept}, {row.spec_tokens} spec tokens, B = {row.batch_size}"
    lines = [f"{name}: {_told(difference)}" for difference in row.differences]
    if row.error is not None:
        lines.append(f"{name}: FAILED: {row.error}")
    if row.prediction is not None and row.prediction.off:
        lines.append(
            f"{name}: ! predicted {row.prediction.length:.2f}, further from what was measured "
            f"than two standard errors ({row.prediction.two_errors:.2f})"
        )
    return lines


def _told(one: "Difference") -> str:
    at = f"prompt {one.prompt}, token {one.position}: {one.ours} instead of {one.vanilla}"
    if one.gap is None:
        return f"{at}; DIFFERS, gap not measured ({one.why})"
    kind = "a near-tie" if one.innocent else "DIFFERS"
    return f"{at}; {kind}, logit gap {one.gap:.4g} (near-ties: up to {one.bound:.4g})"


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"
