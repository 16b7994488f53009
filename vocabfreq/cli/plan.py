"""`vocabfreq plan`: cut corpora into shards that other processes count."""

from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.build_options import (
    COUNT,
    OUTPUT,
    ColumnOption,
    EncoderChoice,
    EncoderOption,
    HoldoutOption,
    MaxDocumentsOption,
    ModelConfigOption,
    RolesChoice,
    RolesOption,
    SeparatorOption,
    SourceOption,
    TokenizerOption,
    WeightOption,
    asked_sources,
    asked_weights,
    planned,
)
from vocabfreq.cli.options import JsonOption, QuietOption


def plan(
    tokenizer: TokenizerOption,
    source: SourceOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="PLAN", rich_help_panel=OUTPUT)
    ] = Path("plan.json"),
    model_config: ModelConfigOption = None,
    column: ColumnOption = None,
    roles: RolesOption = RolesChoice.assistant,
    separator: SeparatorOption = None,
    max_documents: MaxDocumentsOption = None,
    weight: WeightOption = None,
    holdout: HoldoutOption = 50,
    encoder: EncoderOption = EncoderChoice.auto,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where partial files go; all who count must see it. Default: PLAN.parts.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List the shards of a build in a file, for other processes to count: a Slurm array, say.

    Then: vocabfreq count --plan PLAN in as many processes as you like, vocabfreq status, and
    vocabfreq merge --plan PLAN -o FILE, which gives the bytes that one build would give.
    """
    from vocabfreq.cli.build import show_plan
    from vocabfreq.counting.plan import absolute_sources, check_plan_path, save_plan

    check_plan_path(output)
    made = planned(
        tokenizer,
        model_config,
        absolute_sources(asked_sources(source, column, roles, separator, max_documents)),
        holdout=holdout,
        encoder=encoder.value,
        weights=asked_weights(weight),
        work_dir=work_dir or Path(f"{output}.parts"),
    )
    save_plan(made, output)
    if not quiet or as_json:
        show_plan(made, as_json)
    if not as_json:
        render.note(
            f"Wrote {output}. Next, in each of N processes: "
            f"vocabfreq count --plan {output} --shard-index I --num-shards N",
            quiet=quiet,
        )
