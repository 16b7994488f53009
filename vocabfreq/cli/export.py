"""`vocabfreq export`: a frequency file in, the file of any tool out."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    SELECTION,
    FormatChoice,
    FormatOption,
    JsonOption,
    KindChoice,
    KindOption,
    QuietOption,
    RowsOption,
    argument,
    input_arguments,
    parse_named_numbers,
    with_options,
)
from vocabfreq.cli.selection_options import PinsChoice, SelectionOptions

if TYPE_CHECKING:
    from vocabfreq.cli.written_file import WrittenFile
    from vocabfreq.formats import Counts
    from vocabfreq.frequencies.draft_vocab import DraftVocab
    from vocabfreq.frequencies.table import FrequencyTable


@dataclass(frozen=True, kw_only=True)
class ExportOptions(SelectionOptions):
    """Options of `export`."""

    file: Annotated[
        str,
        argument(
            "FILE", "Frequency file, or counts of another tool; or owner/repo/file on the Hub."
        ),
    ]
    keep: Annotated[
        list[str] | None,
        SELECTION.option(
            "ID|TOKEN",
            "One more id to keep, or the text of a token (needs --tokenizer); repeat for more.",
        ),
    ] = None
    weight: Annotated[
        list[str] | None,
        SELECTION.option(
            "NAME=W", "Rank by the shares of each source times its weight; unnamed sources weigh 1."
        ),
    ] = None
    floor: Annotated[
        list[str] | None,
        SELECTION.option(
            "NAME=C", "Raise K until the coverage of the source NAME is C; repeat for more."
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        INPUT.option("TOK", "Tokenizer of the counts, for --keep TOKEN.", "--tokenizer", "-t"),
    ] = None
    kind: KindOption = KindChoice.auto
    rows: RowsOption = None
    form: FormatOption
    output: Annotated[
        Path, OUTPUT.option("OUT", "File to write; for npy a folder.", "--output", "-o")
    ]
    force: Annotated[
        bool,
        OUTPUT.flag(
            "Replace any file at OUT; allow freq_K.pt with another number of ids.", "--force"
        ),
    ] = False
    as_json: JsonOption = False
    quiet: QuietOption = False

    def criteria(self) -> dict[str, Any]:
        """The arguments of `select` that were given.

        Raises:
            typer.BadParameter: a floor or weight cannot be parsed.
        """
        numbers = {
            "floors": parse_named_numbers(self.floor, "--floor"),
            "weights": parse_named_numbers(self.weight, "--weight"),
        }
        return super().criteria() | {name: value for name, value in numbers.items() if value}


@with_options(ExportOptions)
def export(options: ExportOptions) -> None:
    """Select ids, and write them in the format of a serving engine.

    token-freq and vocab-freq hold the counts of all ids and take no selection.
    """
    criteria = options.criteria()
    if options.form in (FormatChoice.token_freq, FormatChoice.vocab_freq):
        _check_nothing_selected(options, criteria)
    written = _export(options, criteria)
    written.show(as_json=options.as_json, quiet=options.quiet)


def _check_nothing_selected(options: ExportOptions, criteria: dict[str, Any]) -> None:
    given = [*criteria, *(["keep"] if options.keep else [])]
    if given:
        names = {"floors": "floor", "weights": "weight"}
        option = names.get(given[0], given[0].replace("_", "-"))
        raise typer.BadParameter(
            f"--{option} with --format {options.form.value}, which holds the raw counts of all "
            "ids: the tool that reads it selects among them; leave it out"
        )


def _export(options: ExportOptions, criteria: dict[str, Any]) -> "WrittenFile":
    from vocabfreq.cli.written_file import WrittenFile
    from vocabfreq.errors import RefusedError
    from vocabfreq.formats import COUNT_FORMATS, read, write
    from vocabfreq.frequencies.draft_vocab import DraftVocab

    form: Any = options.form.value
    kind: Any = options.kind.value
    counts = read(
        options.file,
        kind,
        rows=options.rows,
        note=lambda text: render.note(text, quiet=options.quiet),
    )
    if isinstance(counts, DraftVocab):
        arguments = ("--format", form, *input_arguments(options.kind, options.rows))
        raise RefusedError(
            f"{options.file} holds selected ids and no counts",
            expected="a frequency file, or counts of another tool",
            hint=render.command("convert", options.file, options.output, *arguments),
        )
    if form in COUNT_FORMATS:
        write(counts, options.output, form, force=options.force)
        return WrittenFile(counts, form, options.output)
    pinned = _add_pins(options, counts, criteria)
    vocab = counts.select(**criteria)
    write(vocab, options.output, form, force=options.force)
    size = _size_without_floors(counts, criteria, vocab)
    return WrittenFile(vocab, form, options.output, pinned, size)


def _add_pins(
    options: ExportOptions, counts: "FrequencyTable | Counts", criteria: dict[str, Any]
) -> int:
    """Adds the ids of `--keep` to the criteria; returns the number of all pinned ids."""
    from vocabfreq.cli.keep_ids import ids_to_keep
    from vocabfreq.errors import SelectionError
    from vocabfreq.formats import Counts
    from vocabfreq.frequencies.selection import pinned_ids

    if isinstance(counts, Counts) and options.pins != PinsChoice.none:
        raise SelectionError(
            f"{options.file} holds counts alone: it does not say which ids are special",
            expected="--pins none",
            hint="name the ids that must stay, such as EOS, with --keep ID",
        )
    extra_ids = ids_to_keep(options.keep or [], counts, options.tokenizer)
    criteria["extra_ids"] = extra_ids
    if isinstance(counts, Counts):
        del criteria["pins"]
        criteria["rows"] = options.rows
        return len(extra_ids)
    pins: Any = (options.pins or PinsChoice.default).value
    return len(pinned_ids(counts.meta, counts.emittable, pins, extra_ids))


def _size_without_floors(
    counts: "FrequencyTable | Counts", criteria: dict[str, Any], vocab: "DraftVocab"
) -> int | None:
    """K without the floors, or None if they did not raise it."""
    from vocabfreq.errors import SelectionError

    if "floors" not in criteria:
        return None
    try:
        size = len(counts.select(**criteria | {"floors": None}))
    except SelectionError:  # such as a size below the pins, which only a floor lifts above them
        return None
    return size if size < len(vocab) else None
