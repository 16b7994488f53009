"""`vocabfreq build`: corpora in, one ranked frequency file out."""

from pathlib import Path
from typing import Annotated

import typer

from vocabfreq.cli.build_options import (
    COUNT,
    OUTPUT,
    AddressOption,
    ColumnOption,
    EncoderChoice,
    EncoderOption,
    EngineChoice,
    EngineOption,
    HoldoutOption,
    MaxDocumentsOption,
    ModelConfigOption,
    RolesChoice,
    RolesOption,
    SeparatorOption,
    SourceOption,
    TokenizerOption,
    WeightOption,
    WorkersOption,
    asked_sources,
    asked_weights,
    planned,
)


def build(
    tokenizer: TokenizerOption,
    source: SourceOption,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", rich_help_panel=OUTPUT)
    ] = Path("vocab_freq.safetensors"),
    model_config: ModelConfigOption = None,
    column: ColumnOption = None,
    roles: RolesOption = RolesChoice.assistant,
    separator: SeparatorOption = None,
    max_documents: MaxDocumentsOption = None,
    weight: WeightOption = None,
    holdout: HoldoutOption = 50,
    max_bad_rows: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Above so many skipped rows the exit code is 3 (the file is written).",
            rich_help_panel=COUNT,
        ),
    ] = 1000,
    encoder: EncoderOption = EncoderChoice.auto,
    workers: WorkersOption = None,
    engine: EngineOption = EngineChoice.local,
    address: AddressOption = None,
    work_dir: Annotated[
        Path | None,
        typer.Option(
            help="Where partial files go, to be kept. Default: FILE.parts, removed when done.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace FILE even if it is no frequency file.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Show the plan (shards, bytes) and stop.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print the result as JSON.", rich_help_panel=OUTPUT),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="No progress, no remarks.", rich_help_panel=OUTPUT),
    ] = False,
) -> None:
    """Count how often each token id occurs in text, and rank the ids.

    Every document is encoded as plain text, without BOS or EOS. The same command again continues
    where an interrupted one stopped.
    """
    from vocabfreq.cli.buildrun import run_build, show_plan

    plan = planned(
        tokenizer,
        model_config,
        asked_sources(source, column, roles, separator, max_documents),
        holdout=holdout,
        encoder=encoder.value,
        workers=workers,
        engine=engine.value,
        address=address,
        weights=asked_weights(weight),
        work_dir=work_dir or Path(f"{output}.parts"),
    )
    if dry_run:
        show_plan(plan, as_json)
        return
    keep = work_dir is not None
    outcome = run_build(plan, output, force=force, keep=keep, quiet=quiet or as_json)
    outcome.show(as_json=as_json, max_bad_rows=max_bad_rows, quiet=quiet)
    raise typer.Exit(outcome.exit_code(max_bad_rows))
