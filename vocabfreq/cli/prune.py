"""`vocabfreq prune`: a drafter and the ids to keep in, a drafter that servers load out."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    JsonOption,
    KindChoice,
    KindOption,
    OtherTokenizerOption,
    QuietOption,
    argument,
    with_options,
)
from vocabfreq.cli.selection_options import SelectionOptions

if TYPE_CHECKING:
    from vocabfreq.checkpoints.pruning import Pruned


@dataclass(frozen=True, kw_only=True)
class PruneOptions(SelectionOptions):
    """Options of `prune`."""

    drafter: Annotated[
        Path, argument("DRAFTER", "Folder of an EAGLE-3, EAGLE-1, EAGLE-2 or MTP drafter.")
    ]
    vocab: Annotated[
        str,
        argument(
            "VOCAB",
            "Frequency file (with --size, --coverage or --min-count), or a file of ids of any "
            "tool.",
        ),
    ]
    target: Annotated[
        Path | None,
        INPUT.option("TARGET", "Folder of the target; its head is used if the drafter has none."),
    ] = None
    kind: KindOption = KindChoice.auto
    allow_other_tokenizer: OtherTokenizerOption = False
    output: Annotated[Path, OUTPUT.option("OUT", "New folder.", "--output", "-o")]
    force: Annotated[bool, OUTPUT.flag("Replace a pruned folder at OUT.", "--force")] = False
    as_json: JsonOption = False
    quiet: QuietOption = False


@with_options(PruneOptions)
def prune(options: PruneOptions) -> None:
    """Write a drafter folder whose head holds only selected ids.

    Servers load the folder as it is. EAGLE-1, EAGLE-2 and MTP folders have no place for the ids:
    for these a token map is written.
    """
    from vocabfreq.checkpoints.pruning import prune_drafter

    pruned = prune_drafter(
        options.drafter,
        _read_vocab(options),
        options.output,
        options.target,
        force=options.force,
        allow_other_tokenizer=options.allow_other_tokenizer,
        **options.criteria(),
    )
    for remark in pruned.remarks:
        render.note(f"note: {remark}", quiet=options.quiet)
    if options.as_json:
        render.print_json(_as_dict(pruned))
    elif not options.quiet:
        _print(pruned, options.target)


def _read_vocab(options: PruneOptions) -> Any:
    """The ids or counts; V comes from the drafter's config.json if their file does not say it."""
    from vocabfreq.checkpoints.config import read_config
    from vocabfreq.errors import FileFormatError
    from vocabfreq.formats import read

    kind: Any = options.kind.value
    rows = read_config(options.drafter).size("vocab_size")
    notes: list[str] = []
    try:  # a file that says V is read as it is; prune_drafter compares
        content = read(options.vocab, kind, note=notes.append)
    except FileFormatError as error:
        if rows is None and "--rows" not in error.hint:
            raise
        if rows is None:
            hint = f"no vocab_size in {options.drafter}/config.json either: write it there"
            raise FileFormatError(error.wrong, expected=error.expected, hint=hint) from None
        notes.clear()
        content = read(options.vocab, kind, rows=rows, note=notes.append)
    for text in notes:
        render.note(text, quiet=options.quiet)
    return content


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
    coverage = pruned.vocab.coverage.get("all sources")
    share = f", which cover {render.percent(coverage)} of the tokens" if coverage else ""
    print(f"Kept {size:,} of {rows:,} ids{share}.")
    if pruned.source is None:
        print(f"Wrote {pruned.path}, a token map.")
        return
    before, after = map(render.megabytes, pruned.head_bytes)
    print(
        f"The head has {after} instead of {before}: rows of {pruned.source}, read back and equal."
    )
    arguments = ["check", pruned.path, *(["--target", target] if target else [])]
    print(f"Wrote {pruned.path}. Next: {render.command(*arguments)}")
