"""`vocabfreq eval`: acceptance and speed of a drafter, pruned and not, on real models."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.evallists import numbers_of, options_of, sizes_of
from vocabfreq.cli.options import OUTPUT, JsonOption

if TYPE_CHECKING:
    from vocabfreq.measure.eval import Evaluation, Plan

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
    from vocabfreq.measure.eval.picture import check_picture

    if plot is not None:
        check_picture(plot)
    try:
        return evaluate_plan(plan, work_dir, lambda text: render.note(text, quiet=quiet))
    except Interrupted as stop:
        render.note(f"\ninterrupted; {stop}. To go on: {command_line()}", quiet=quiet)
        raise


def _show(found: "Evaluation", as_json: bool, plot: Path | None, quiet: bool) -> None:
    from vocabfreq.cli.evaltable import print_evaluation
    from vocabfreq.measure.eval.picture import save_picture

    if as_json:
        render.print_json(found.as_dict())
    else:
        print_evaluation(found)
    if plot is not None:
        save_picture(found.rows, plot)
        render.note(f"Drew {plot}.", quiet=quiet)
