"""`vocabfreq convert`: from one tool's file to another's."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    FormatOption,
    JsonOption,
    KindChoice,
    KindOption,
    QuietOption,
    RowsOption,
    argument,
    input_arguments,
    with_options,
)

if TYPE_CHECKING:
    from vocabfreq.frequencies.draft_vocab import DraftVocab


@dataclass(frozen=True, kw_only=True)
class ConvertOptions:
    """Options of `convert`."""

    file: Annotated[
        str,
        argument(
            "IN", r"File or folder of ids or counts, or owner/repo/file\[@revision] on the Hub."
        ),
    ]
    output: Annotated[Path, argument("OUT", "File to write; for npy a folder.")]
    kind: KindOption = KindChoice.auto
    rows: RowsOption = None
    repair: Annotated[
        bool, INPUT.flag("Drop repeated ids of a list, with a remark.", "--repair")
    ] = False
    form: FormatOption
    force: Annotated[
        bool,
        OUTPUT.flag(
            "Replace any file at OUT; accept offsets that are all zero, and freq_K.pt with "
            "another number of ids.",
            "--force",
        ),
    ] = False
    as_json: JsonOption = False
    quiet: QuietOption = False


@with_options(ConvertOptions)
def convert(options: ConvertOptions) -> None:
    """Write the ids or counts of one tool in the format of another.

    Counts become ids only by a selection (vocabfreq export); ids never become counts.
    """
    from vocabfreq.cli.written_file import WrittenFile
    from vocabfreq.errors import RefusedError
    from vocabfreq.formats import COUNT_FORMATS, Counts, read, write
    from vocabfreq.frequencies.draft_vocab import DraftVocab

    def note(text: str) -> None:
        render.note(text, quiet=options.quiet)

    file, output = options.file, options.output
    form: Any = options.form.value
    kind: Any = options.kind.value
    content = read(
        file, kind, rows=options.rows, repair=options.repair, force=options.force, note=note
    )
    if not isinstance(content, DraftVocab) and form not in COUNT_FORMATS:
        pins = ("--pins", "none") if isinstance(content, Counts) else ()
        arguments = (*input_arguments(options.kind, options.rows), "--size", "K")
        raise RefusedError(
            f"{file} holds counts and no selected ids",
            expected=f"a size, to make a {form} file of it",
            hint=render.command("export", file, *arguments, "--format", form, *pins, "-o", output)
            + " for some number K",
        )
    write(content, output, form, force=options.force)
    if form == "token-map" and isinstance(content, DraftVocab) and _is_ascending(content):
        note(f"{file} has no ranking; the ids in {output} ascend")
    WrittenFile(content, form, output).show(as_json=options.as_json, quiet=options.quiet)


def _is_ascending(vocab: "DraftVocab") -> bool:
    return len(vocab) > 1 and bool((vocab.ranked == vocab.target_ids).all())
