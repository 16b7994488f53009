"""`vocabfreq eval`: acceptance and speed of a drafter, pruned and not, on real models.

The lists and options that `vocabfreq eval` is given as text.

The table of `vocabfreq eval`, and what stands below it.
"""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption

if TYPE_CHECKING:
    from vocabfreq.measure.eval import Evaluation, Plan, Row
    from vocabfreq.measure.eval.compare import Difference


def numbers_of(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers between commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers from 1, with commas between: {option} 1,3"
        )
    return tuple(dict.fromkeys(int(part) for part in parts))


def sizes_of(text: str) -> tuple[Any, ...]:
    """Whole numbers, `full` or `ids` between commas; each an `eval.plan.Size`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p in ("full", "ids") or (p.isascii() and p.isdigit() and int(p)) for p in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers, full or ids, with commas: --sizes 8192,32768,full"
        )
    return tuple(dict.fromkeys(p if p in ("full", "ids") else int(p) for p in parts))


def options_of(given: list[str]) -> dict[str, Any]:
    """NAME=VALUE, the value as JSON where it is some, else as text."""
    options: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r}; expected --option NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


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


def _run_cells(row: "Row") -> list[str]:
    kept = NONE if not row.spec_tokens else "full" if row.size is None else f"{row.size:,}"
    return [row.method, kept, str(row.spec_tokens), str(row.batch_size)]


def _measured(row: "Row") -> list[str]:
    shape = [str(row.depth), str(row.branching)] if row.spec_tokens else [NONE, NONE]
    return [
        *_run_cells(row),
        *shape,
        _number(row.acceptance_length, 2),
        " ".join(f"{share:.2f}" for share in row.acceptance_per_position) or NONE,
        _number(row.tokens_per_second, 2) + " *" * row.resumed,
        _number(row.seconds, 2),
        _number(row.forward_ratio, 3),
    ]


def _compared(row: "Row") -> list[str]:
    coverage = NONE if row.coverage is None else render.percent(row.coverage)
    ratios = [_number(value, 2) for value in (row.speedup_vs_vanilla, row.speedup_vs_unpruned)]
    return [*_run_cells(row), coverage, _predicted(row), *ratios, _output(row)]


def _predicted(row: "Row") -> str:
    if row.prediction is None:
        return NONE
    return f"{row.prediction.acceptance_length:.2f}{' !' if row.prediction.deviates else ''}"


def _output(row: "Row") -> str:
    if row.error is not None:
        return "FAILED"
    if not row.compared:
        return NONE
    wrong = sum(not difference.near_tie for difference in row.differences)
    if wrong:
        return f"DIFFERS ({wrong})"
    return f"near-ties ({len(row.differences)})" if row.differences else "same"


def _remarks(row: "Row") -> list[str]:
    kept = "full head" if row.size is None else f"K = {row.size:,}"
    name = f"{row.method}, {kept}, {row.spec_tokens} spec tokens, B = {row.batch_size}"
    lines = [f"{name}: {_told(difference)}" for difference in row.differences]
    if row.error is not None:
        lines.append(f"{name}: FAILED: {row.error}")
    if row.prediction is not None and row.prediction.deviates:
        lines.append(
            f"{name}: ! predicted {row.prediction.acceptance_length:.2f}, further from what was "
            f"measured than two standard errors ({row.prediction.two_standard_errors:.2f})"
        )
    return lines


def _told(one: "Difference") -> str:
    at = f"prompt {one.prompt}, token {one.position}: {one.actual} instead of {one.expected}"
    if one.logit_gap is None:
        return f"{at}; DIFFERS, gap not measured ({one.reason})"
    kind = "a near-tie" if one.near_tie else "DIFFERS"
    return (
        f"{at}; {kind}, logit gap {one.logit_gap:.4g} (near-ties: up to {one.near_tie_limit:.4g})"
    )


def _number(value: float | None, digits: int) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


WHAT, HOW = "What", "How"


class EngineChoice(StrEnum):
    """What runs the models."""

    vllm = "vllm"
    transformers = "transformers"


class DtypeOfRun(StrEnum):
    """Of weights and activations."""

    bfloat16 = "bfloat16"
    float16 = "float16"
    float32 = "float32"


def evaluate(
    target: Annotated[
        str,
        typer.Option("--target", metavar="T", help="Folder or repo.", rich_help_panel=WHAT),
    ],
    drafter: Annotated[
        str,
        typer.Option(
            metavar="D|none",
            help="Folder or repo; none for plain decoding alone; self: the target drafts for "
            "itself (transformers).",
            rich_help_panel=WHAT,
        ),
    ],
    prompts: Annotated[
        Path,
        typer.Option(
            metavar="FILE.jsonl",
            help="Lines with turns (mt-bench), messages, prompt or text.",
            rich_help_panel=WHAT,
        ),
    ],
    engine: Annotated[
        EngineChoice, typer.Option(help="What runs them.", rich_help_panel=HOW)
    ] = EngineChoice.vllm,
    vocab: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|REPO", help="Frequency file, or a file of ids.", rich_help_panel=WHAT
        ),
    ] = None,
    sizes: Annotated[
        str,
        typer.Option(
            metavar="K,…",
            help="Numbers; full for the drafter's own head; ids for a VOCAB that is ids.",
            rich_help_panel=WHAT,
        ),
    ] = "full",
    num_spec_tokens: Annotated[
        str, typer.Option(metavar="N,…", help="Drafted in one step.", rich_help_panel=HOW)
    ] = "3",
    batch_size: Annotated[
        str, typer.Option(metavar="B,…", help="Requests at a time.", rich_help_panel=HOW)
    ] = "1",
    max_tokens: Annotated[
        int, typer.Option(min=1, metavar="M", help="Of each answer.", rich_help_panel=HOW)
    ] = 128,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="L", help="Prompts. Default: all.", rich_help_panel=WHAT),
    ] = None,
    dtype: Annotated[
        DtypeOfRun, typer.Option(help="Of the models.", rich_help_panel=HOW)
    ] = DtypeOfRun.bfloat16,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="For the engine; VALUE may be JSON. method=eagle (eagle3, mtp) says what kind of "
            "drafter vLLM has.",
            rich_help_panel=HOW,
        ),
    ] = None,
    allow_other_tokenizer: Annotated[
        bool,
        typer.Option(
            "--allow-other-tokenizer",
            help="Take ids counted with another tokenizer.json than the target's.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.png", help="Draw acceptance and speed over K.", rich_help_panel=OUTPUT
        ),
    ] = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where finished runs are kept. Default: eval.parts, or beside the plot.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Generate with and without drafting, at every size, and compare speed, acceptance, output.

    Each run is a process of its own; plain decoding is run too. Output that is not that of plain
    decoding, near-ties apart, is a failure: exit code 1. Finished runs are kept, and not repeated
    when the command is typed again.
    """
    lists = numbers_of(num_spec_tokens, "--num-spec-tokens"), numbers_of(batch_size, "--batch-size")
    wanted, options = sizes_of(sizes), options_of(option or [])
    from vocabfreq.measure.eval import Plan, read_prompts

    plan = Plan(
        engine=engine.value,
        target=target,
        drafter=None if drafter == "none" else drafter,
        vocab=vocab,
        sizes=wanted,
        spec_tokens=lists[0],
        batch_sizes=lists[1],
        max_tokens=max_tokens,
        dtype=dtype.value,
        prompts=read_prompts(prompts, limit),
        options=options,
        allow_other_tokenizer=allow_other_tokenizer,
    )
    found = _run(plan, work_dir or (plot or Path("eval")).with_suffix(".parts"), plot, quiet)
    _show(found, as_json, plot, quiet)
    raise typer.Exit(0 if found.ok else 1)


def _run(plan: "Plan", work_dir: Path, plot: Path | None, quiet: bool) -> "Evaluation":
    from vocabfreq.cli import command_line
    from vocabfreq.measure.eval import Interrupted
    from vocabfreq.measure.eval import evaluate as evaluate_plan
    from vocabfreq.measure.eval.plot import check_plot_path

    if plot is not None:
        check_plot_path(plot)
    try:
        return evaluate_plan(plan, work_dir, lambda text: render.note(text, quiet=quiet))
    except Interrupted as stop:
        render.note(f"\ninterrupted; {stop}. To go on: {command_line()}", quiet=quiet)
        raise


def _show(found: "Evaluation", as_json: bool, plot: Path | None, quiet: bool) -> None:
    from vocabfreq.measure.eval.plot import save_plot

    if as_json:
        render.print_json(found.as_dict())
    else:
        print_evaluation(found)
    if plot is not None:
        save_plot(found.rows, plot)
        render.note(f"Drew {plot}.", quiet=quiet)
