"""`vocabfreq prune`: a drafter and the ids to keep in, a drafter that servers load out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    CoverageOption,
    JsonOption,
    KindChoice,
    MinCountOption,
    MultipleOfOption,
    PinsOption,
    QuietOption,
    SizeOption,
)

if TYPE_CHECKING:
    from vocabfreq.checkpoints.pruning import Pruned


def prune(
    drafter: Annotated[
        Path, typer.Argument(help="Folder of a drafter: EAGLE-3, or EAGLE-1, EAGLE-2, MTP.")
    ],
    vocab: Annotated[
        str,
        typer.Argument(
            help="A frequency file (with --size, --coverage or --min-count), or a file of ids that "
            "any tool wrote."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="The new folder.", rich_help_panel=OUTPUT
        ),
    ],
    size: SizeOption = None,
    coverage: CoverageOption = None,
    min_count: MinCountOption = None,
    pins: PinsOption = None,
    multiple_of: MultipleOfOption = None,
    target: Annotated[
        Path | None,
        typer.Option(
            metavar="TARGET",
            help="Folder of the target, whose head is taken where the drafter has none.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    kind: Annotated[
        KindChoice,
        typer.Option(help="What VOCAB is, where it does not say.", rich_help_panel=INPUT),
    ] = KindChoice.auto,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace a pruned folder at OUT.", rich_help_panel=OUTPUT),
    ] = False,
    allow_other_tokenizer: Annotated[
        bool,
        typer.Option(
            "--allow-other-tokenizer",
            help="Take ids counted with another tokenizer.json than that of a folder.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Keep only some rows of a drafter's head, and write a folder that servers load as it is.

    EAGLE-1, EAGLE-2 and MTP drafters have no place for a map: for them the token map is written.
    """
    from vocabfreq.checkpoints.pruning import prune_drafter

    wish = {
        "size": size,
        "coverage": coverage,
        "min_count": min_count,
        "pins": pins.value if pins else None,
        "multiple_of": multiple_of,
    }
    given: dict[str, Any] = {name: value for name, value in wish.items() if value is not None}
    kept = _read(vocab, kind.value, drafter, quiet)
    given |= {"force": force, "allow_other_tokenizer": allow_other_tokenizer}
    pruned = prune_drafter(drafter, kept, output, target, **given)
    for remark in pruned.remarks:
        render.note(f"note: {remark}", quiet=quiet)
    if as_json:
        render.print_json(_as_dict(pruned))
    elif not quiet:
        _print(pruned, target)


def _read(vocab: str, kind: Any, drafter: Path, quiet: bool) -> Any:
    """The ids or counts; where their file does not say V, the drafter's config.json does."""
    from vocabfreq.checkpoints.config import read_config
    from vocabfreq.errors import FileFormatError
    from vocabfreq.formats import read

    rows = read_config(drafter).size("vocab_size")
    notes: list[str] = []
    try:  # a file that says V is read as it is, and prune compares
        kept = read(vocab, kind, note=notes.append)
    except FileFormatError as error:
        if rows is None and "--rows" not in error.hint:
            raise
        if rows is None:
            hint = f"no vocab_size in {drafter}/config.json either: write it there"
            raise FileFormatError(error.wrong, expected=error.expected, hint=hint) from None
        notes.clear()
        kept = read(vocab, kind, rows=rows, note=notes.append)
    for text in notes:
        render.note(text, quiet=quiet)
    return kept


def _as_dict(pruned: "Pruned") -> dict[str, Any]:
    return {
        "path": str(pruned.path),
        "kind": pruned.kind,
        "source": pruned.source,
        "rows": pruned.vocab.rows,
        "size": len(pruned.vocab),
        "fingerprint": pruned.vocab.fingerprint,
        "coverage": dict(pruned.vocab.coverage),
        "head_bytes": {"before": pruned.head_bytes[0], "after": pruned.head_bytes[1]},
        "remarks": list(pruned.remarks),
    }


def _print(pruned: "Pruned", target: Path | None) -> None:
    size, rows = len(pruned.vocab), pruned.vocab.rows
    covered = pruned.vocab.coverage.get("all sources")
    known = f", which cover {render.percent(covered)} of the tokens" if covered else ""
    print(f"Kept {size:,} of {rows:,} ids{known}.")
    if pruned.source is None:
        print(f"Wrote {pruned.path}, a token map.")
        return
    before, after = map(render.megabytes, pruned.head_bytes)
    print(
        f"The head has {after} instead of {before}: rows of {pruned.source}, read back and equal."
    )
    named = f" --target {target}" if target else ""
    print(f"Wrote {pruned.path}. Next: vocabfreq check {pruned.path}{named}")
