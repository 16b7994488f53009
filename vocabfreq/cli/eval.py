"""`vocabfreq eval`: acceptance and speed of a drafter, pruned and unpruned, on real models."""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    RUN,
    DtypeChoice,
    JsonOption,
    NoRemarksOption,
    OtherTokenizerOption,
    Panel,
    parse_integers,
    with_options,
)

if TYPE_CHECKING:
    from vocabfreq.measure.eval import Evaluation, Plan, Row
    from vocabfreq.measure.eval.compare import Difference

MEASURED = Panel("What is measured")


class EngineChoice(StrEnum):
    """Engine that runs the models."""

    vllm = "vllm"
    transformers = "transformers"


@dataclass(frozen=True, kw_only=True)
class EvalOptions:
    """Options of `eval`."""

    target: Annotated[str, INPUT.option("T", "Target: folder or Hub repo.")]
    drafter: Annotated[
        str,
        INPUT.option(
            "D|self|none",
            "Drafter: folder or Hub repo; self: the target drafts for itself (transformers); "
            "none: plain decoding only.",
        ),
    ]
    prompts: Annotated[
        Path, INPUT.option("FILE.jsonl", "Lines with turns (MT-Bench), messages, prompt or text.")
    ]
    limit: Annotated[
        int | None, INPUT.option("L", "Use the first L prompts. Default: all.", min=1)
    ] = None
    vocab: Annotated[str | None, INPUT.option("FILE|REPO", "Frequency file, or a file of ids.")] = (
        None
    )
    allow_other_tokenizer: OtherTokenizerOption = False
    sizes: Annotated[
        str,
        MEASURED.option(
            "K,…",
            "Draft vocabulary sizes; full: the unpruned head; ids: the ids of a VOCAB that "
            "is a file of ids.",
        ),
    ] = "full"
    num_spec_tokens: Annotated[str, MEASURED.option("N,…", "Tokens drafted in one step.")] = "3"
    batch_size: Annotated[str, MEASURED.option("B,…", "Concurrent requests.")] = "1"
    max_tokens: Annotated[int, MEASURED.option("M", "Maximum tokens of each answer.", min=1)] = 128
    plot: Annotated[Path | None, OUTPUT.option("OUT.png", "Draw acceptance and speed over K.")] = (
        None
    )
    as_json: JsonOption = False
    quiet: NoRemarksOption = False
    engine: Annotated[EngineChoice, RUN.option("NAME", "vllm or transformers.")] = EngineChoice.vllm
    dtype: Annotated[DtypeChoice, RUN.option("DTYPE", "bfloat16, float16 or float32.")] = (
        DtypeChoice.bfloat16
    )
    option: Annotated[
        list[str] | None,
        RUN.option(
            "NAME=VALUE",
            "Engine option; VALUE may be JSON; repeat for more. method=eagle (eagle3, mtp) is "
            "the kind of drafter in vLLM.",
        ),
    ] = None
    work_dir: Annotated[
        Path | None,
        RUN.option("DIR", "Folder of finished runs. Default: eval.parts, or next to the plot."),
    ] = None

    def make_plan(self) -> "Plan":
        """The sweep over the product of all lists.

        Raises:
            typer.BadParameter: a list or an engine option cannot be parsed.
            VocabfreqError: the prompts cannot be read, or the plan makes no sense.
        """
        lists: dict[str, Any] = {
            "sizes": _parse_sizes(self.sizes),
            "spec_tokens": parse_integers(self.num_spec_tokens, "--num-spec-tokens"),
            "batch_sizes": parse_integers(self.batch_size, "--batch-size"),
            "options": _parse_engine_options(self.option or []),
        }
        from vocabfreq.measure.eval import Plan, read_prompts

        return Plan(
            engine=self.engine.value,
            target=self.target,
            drafter=None if self.drafter == "none" else self.drafter,
            vocab=self.vocab,
            max_tokens=self.max_tokens,
            dtype=self.dtype.value,
            prompts=read_prompts(self.prompts, self.limit),
            allow_other_tokenizer=self.allow_other_tokenizer,
            **lists,
        )


def _parse_sizes(text: str) -> tuple[Any, ...]:
    """Whole numbers, `full` or `ids`, separated by commas."""
    parts = [part.strip() for part in text.split(",")]
    if not all(p in ("full", "ids") or (p.isascii() and p.isdigit() and int(p)) for p in parts):
        raise typer.BadParameter(
            f"{text!r}; expected whole numbers, full or ids, separated by commas: "
            "--sizes 8192,32768,full"
        )
    return tuple(dict.fromkeys(p if p in ("full", "ids") else int(p) for p in parts))


def _parse_engine_options(texts: list[str]) -> dict[str, Any]:
    """NAME=VALUE; a value that is no JSON is text."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"{text!r}; expected --option NAME=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


@with_options(EvalOptions)
def evaluate(options: EvalOptions) -> None:
    """Measure acceptance, speed and output of a drafter at several sizes.

    Each run is a process of its own; plain decoding runs too. The exit code is 1 if an output
    differs from that of plain decoding by more than near-ties. Finished runs are kept: the same
    command does not repeat them.
    """
    evaluation = _evaluate(options)
    if options.as_json:
        render.print_json(evaluation.as_dict())
    else:
        print_evaluation(evaluation)
    if options.plot is not None:
        from vocabfreq.measure.eval.plot import save_plot

        save_plot(evaluation.rows, options.plot)
        render.note(f"Drew {options.plot}.", quiet=options.quiet)
    raise typer.Exit(0 if evaluation.ok else 1)


def _evaluate(options: EvalOptions) -> "Evaluation":
    plan = options.make_plan()
    from vocabfreq.measure.eval import Interrupted
    from vocabfreq.measure.eval import evaluate as evaluate_plan
    from vocabfreq.measure.eval.plot import check_plot_path

    if options.plot is not None:
        check_plot_path(options.plot)
    work_dir = options.work_dir or (options.plot or Path("eval")).with_suffix(".parts")
    try:
        return evaluate_plan(plan, work_dir, lambda text: render.note(text, quiet=options.quiet))
    except Interrupted as stop:
        resume = f"To resume: {render.current_command()}"
        render.note(f"\ninterrupted; {stop}. {resume}", quiet=options.quiet)
        raise


RUN_COLUMNS = ["method", "K", "spec tokens", "B"]
MEASURED_COLUMNS = [
    "depth",
    "branching",
    "mean acceptance length",
    "per position",
    "tok/s",
    "total s",
    "forward ratio",
]
COMPARED_COLUMNS = ["coverage", "predicted length", "× vanilla", "× unpruned", "output"]
UNKNOWN = "–"


def print_evaluation(evaluation: "Evaluation") -> None:
    """Prints the tables, then differences, failures, notes and versions."""
    plan, rows = evaluation.plan, evaluation.rows
    title = (
        f"{plan.engine}, {plan.dtype}, {len(plan.prompts)} prompts, "
        f"up to {plan.max_tokens} tokens each"
    )
    measured = [[*_run_cells(row), *_measured_cells(row)] for row in rows]
    render.print_table(title, [*RUN_COLUMNS, *MEASURED_COLUMNS], measured)
    compared = [[*_run_cells(row), *_compared_cells(row)] for row in rows]
    render.print_table("Compared", [*RUN_COLUMNS, *COMPARED_COLUMNS], compared)
    for row in rows:
        for line in _remarks(row):
            print(render.clean(line))
    for note in evaluation.notes:
        print(render.clean(f"Note: {note}."))
    versions = [f"{name} {version}" for name, version in evaluation.versions.items()]
    print(render.clean(", ".join(versions)))


def _run_cells(row: "Row") -> list[str]:
    size = UNKNOWN if not row.spec_tokens else "full" if row.size is None else f"{row.size:,}"
    return [row.method, size, str(row.spec_tokens), str(row.batch_size)]


def _measured_cells(row: "Row") -> list[str]:
    tree = [str(row.depth), str(row.branching)] if row.spec_tokens else [UNKNOWN, UNKNOWN]
    return [
        *tree,
        _number(row.acceptance_length, 2),
        " ".join(f"{share:.2f}" for share in row.acceptance_per_position) or UNKNOWN,
        _number(row.tokens_per_second, 2) + " *" * row.resumed,
        _number(row.seconds, 2),
        _number(row.forward_ratio, 3),
    ]


def _compared_cells(row: "Row") -> list[str]:
    predicted = UNKNOWN
    if row.prediction is not None:
        predicted = (
            f"{row.prediction.acceptance_length:.2f}{' !' if row.prediction.deviates else ''}"
        )
    return [
        UNKNOWN if row.coverage is None else render.percent(row.coverage),
        predicted,
        _number(row.speedup_vs_vanilla, 2),
        _number(row.speedup_vs_unpruned, 2),
        _output_cell(row),
    ]


def _output_cell(row: "Row") -> str:
    if row.error is not None:
        return "FAILED"
    if not row.compared:
        return UNKNOWN
    wrong = sum(not difference.near_tie for difference in row.differences)
    if wrong:
        return f"DIFFERS ({wrong})"
    return f"near-ties ({len(row.differences)})" if row.differences else "same"


def _remarks(row: "Row") -> list[str]:
    head = "full head" if row.size is None else f"K = {row.size:,}"
    name = f"{row.method}, {head}, {row.spec_tokens} spec tokens, B = {row.batch_size}"
    lines = [f"{name}: {_describe(difference)}" for difference in row.differences]
    if row.error is not None:
        lines.append(f"{name}: FAILED: {row.error}")
    if row.prediction is not None and row.prediction.deviates:
        lines.append(
            f"{name}: ! predicted {row.prediction.acceptance_length:.2f}, which differs from the "
            f"measured length by more than two standard errors "
            f"({row.prediction.two_standard_errors:.2f})"
        )
    return lines


def _describe(difference: "Difference") -> str:
    ids = f"{difference.actual} instead of {difference.expected}"
    at = f"prompt {difference.prompt}, token {difference.position}: {ids}"
    if difference.logit_gap is None:
        return f"{at}; DIFFERS, logit gap not measured ({difference.reason})"
    kind = "a near-tie" if difference.near_tie else "DIFFERS"
    gap, bound = difference.logit_gap, difference.near_tie_limit
    return f"{at}; {kind}, logit gap {gap:.4g} (near-ties: up to {bound:.4g})"


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:,.{digits}f}"
