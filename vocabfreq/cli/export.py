"""`vocabfreq export`: a frequency file in, the file of any tool out.

What `export` and `convert` do and show once their options are parsed.
"""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    INPUT,
    OUTPUT,
    WHICH,
    CoverageOption,
    FormatChoice,
    JsonOption,
    KindChoice,
    MinCountOption,
    MultipleOfOption,
    PinsOption,
    QuietOption,
    SizeOption,
)
from vocabfreq.errors import MismatchError, RefusedError, SelectionError
from vocabfreq.formats import COUNT_FORMATS, Counts, read, write
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.selection import pinned_ids
from vocabfreq.frequencies.table import FrequencyTable

Note = Callable[[str], None]


@dataclass(frozen=True)
class Export:
    """What was asked for.

    Attributes:
        form: format to write.
        kind: what the input is.
        rows: V, where the input does not say it.
        pins: what is kept whatever its count.
        keep: more ids, or texts of tokens.
        tokenizer: where those texts are looked up.
        wish: the other arguments of `FrequencyTable.select`.
    """

    form: Any
    kind: Any = "auto"
    rows: int | None = None
    pins: Any = "default"
    keep: tuple[str, ...] = ()
    tokenizer: str | None = None
    wish: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        what: the ids or counts.
        form: the format.
        output: the file.
        pinned: how many ids were kept whatever their count; None if nothing was selected.
        asked: K without the floors, where these raised it.
    """

    what: DraftVocab | Counts | FrequencyTable
    form: str
    output: Path
    pinned: int | None = None
    asked: int | None = None

    def show(self, *, as_json: bool, quiet: bool) -> None:
        """The summary."""
        if as_json:
            render.print_json(self.as_dict())
        elif not quiet:
            self._print()

    def as_dict(self) -> dict[str, Any]:
        """The summary for programs."""
        told: dict[str, Any] = {"file": str(self.output), "format": self.form}
        what = self.what
        if isinstance(what, Counts):
            return told | {"rows": what.rows, "ids": len(what), "exact": what.exact}
        if isinstance(what, FrequencyTable):
            return told | {"rows": what.rows, "tokenizer": what.tokenizer.sha256}
        told |= {"rows": what.rows, "size": len(what), "fingerprint": what.fingerprint}
        told |= {"tokenizer": what.tokenizer, "coverage": dict(what.coverage)}
        told |= {"filled": what.filled}
        if self.asked is not None:
            told |= {"size_without_floors": self.asked}
        return told if self.pinned is None else told | {"pinned": self.pinned}

    def _print(self) -> None:
        if isinstance(self.what, DraftVocab):
            self._print_vocab(self.what)
        else:
            print(_counted(self.what))
        print(f"Wrote {self.output} ({self.form}).")

    def _print_vocab(self, vocab: DraftVocab) -> None:
        share = render.percent(len(vocab) / vocab.rows)
        pinned = "" if self.pinned is None else f", {self.pinned:,} of them pinned"
        filled = f", {vocab.filled:,} never seen and filled in" if vocab.filled else ""
        print(f"K = {len(vocab):,} of V = {vocab.rows:,} rows ({share}){pinned}{filled}")
        if self.asked is not None:
            print(f"A floor raised K from {self.asked:,}.")
        if vocab.coverage:
            rows = [[name, render.percent(share)] for name, share in vocab.coverage.items()]
            rows = rows[len(rows) == 2 :]  # of one source, all sources are the same
            render.print_table("", ["source", "share of tokens kept"], rows)


def _counted(held: Counts | FrequencyTable) -> str:
    """How many ids have counts, in words."""
    if isinstance(held, Counts):
        rows = "" if held.rows is None else f" of V = {held.rows:,} rows"
        return f"{len(held):,} ids with {held.description}{rows}"
    seen = held.emittable & (held.counts.sum(axis=0) > 0)
    return f"{int(seen.sum()):,} ids with counts of V = {held.rows:,} rows"


def run_export(file: str, output: Path, asked: Export, *, force: bool, note: Note) -> Written:
    """Selects from a table or from counts, and writes.

    Raises:
        VocabfreqError: the file holds ids already, the wish cannot be met, or writing is refused.
    """
    rows = asked.rows
    held = read(file, asked.kind, rows=rows, note=note)
    if isinstance(held, DraftVocab):
        raise RefusedError(
            f"{file} holds ids that were chosen already, and no counts",
            expected="a frequency file, or counts of another tool",
            hint=_command(
                "convert", file, output, "--format", asked.form, *_told(asked.kind, rows)
            ),
        )
    if asked.form in COUNT_FORMATS:
        write(held, output, asked.form, force=force)
        return Written(held, asked.form, output)
    if isinstance(held, Counts):
        extra = _checked_keep(held, file, asked)
        select, pinned = partial(held.select, rows=rows, extra_ids=extra), len(extra)
    else:
        extra = _ids(asked.keep, held, asked.tokenizer)
        pinned = len(pinned_ids(held.meta, held.emittable, asked.pins, extra))
        select = partial(held.select, pins=asked.pins, extra_ids=extra)
    vocab = select(**asked.wish)
    write(vocab, output, asked.form, force=force)
    return Written(vocab, asked.form, output, pinned, _without_floors(select, asked.wish, vocab))


def _without_floors(
    select: Callable[..., DraftVocab], wish: dict[str, Any], vocab: DraftVocab
) -> int | None:
    """K as it would be without floors, None where that is what it is."""
    if not wish.get("floors"):
        return None
    try:
        size = len(select(**wish | {"floors": None}))
    except SelectionError:  # such as a size below the pins, which only a floor lifts above them
        return None
    return size if size < len(vocab) else None


def run_convert(file: str, output: Path, form: Any, *, force: bool, **how: Any) -> Written:
    """Reads anything and writes it in another format; says what is not known.

    Raises:
        VocabfreqError: the input is not what it should be, or something would be lost or invented.
    """
    held = read(file, force=force, **how)
    if not isinstance(held, DraftVocab) and form not in COUNT_FORMATS:
        pins = ("--pins", "none") if isinstance(held, Counts) else ()
        told = (*_told(how["kind"], how["rows"]), "--size", "K", "--format", form, *pins)
        raise RefusedError(
            f"{file} says how often ids occur, not which to keep",
            expected=f"a size, to make a {form} file of it",
            hint=_command("export", file, *told, "-o", output) + " for some number K",
        )
    write(held, output, form, force=force)
    if form == "token-map" and isinstance(held, DraftVocab) and _has_no_rank(held):
        how["note"](f"{file} has no ranking; the ids in {output} ascend")
    return Written(held, form, output)


def _has_no_rank(vocab: DraftVocab) -> bool:
    return bool((vocab.ranked == vocab.target_ids).all()) and len(vocab) > 1


def _command(name: str, *arguments: object) -> str:
    return shlex.join(["vocabfreq", name, *map(str, arguments)])


def _told(kind: str, rows: int | None) -> list[str]:
    """The options that say what the input is, as they were given."""
    told = [] if kind == "auto" else ["--kind", kind]
    return told if rows is None else [*told, "--rows", str(rows)]


def _checked_keep(counts: Counts, file: str, asked: Export) -> list[int]:
    if asked.pins != "none":
        raise SelectionError(
            f"{file} holds counts alone: it does not say which ids are special",
            expected="--pins none",
            hint="name the ids that must stay, such as EOS, with --keep ID",
        )
    return _ids(asked.keep, counts, asked.tokenizer)


def _ids(keep: Iterable[str], held: FrequencyTable | Counts, spec: str | None) -> list[int]:
    """Ids as given, texts of tokens through the tokenizer."""
    texts = [text for text in keep if not (text.isascii() and text.isdecimal())]
    found = _looked_up(texts, held, spec) if texts else {}
    return sorted({found[text] if text in found else int(text) for text in keep})


def _looked_up(texts: list[str], held: Any, spec: str | None) -> dict[str, int]:
    from vocabfreq.tokenizer.encoders import load_reference
    from vocabfreq.tokenizer.info import load_tokenizer

    if spec is None:
        raise SelectionError(
            f"--keep {texts[0]!r} is no id",
            expected="a number, or the text of a token and --tokenizer TOK",
        )
    info = load_tokenizer(spec)
    known = held.tokenizer.sha256 if isinstance(held, FrequencyTable) else info.sha256
    if info.sha256 != known:
        raise MismatchError(
            f"{spec} has tokenizer.json {info.sha256}, the table was counted with {known}",
            expected=f"the tokenizer {held.tokenizer.name!r}",
        )
    tokenizer = load_reference(info.path)
    return {text: _id_of(text, tokenizer, spec) for text in texts}


def _id_of(text: str, tokenizer: Any, spec: str) -> int:
    """The id of a token by its name in the tokenizer, or of text that encodes to it alone."""
    by_name = tokenizer.token_to_id(text)
    ids = tokenizer.encode(text, add_special_tokens=False).ids if by_name is None else [by_name]
    if len(ids) != 1:
        raise SelectionError(
            f"--keep {text!r} is {len(ids)} tokens of {spec}: {', '.join(map(str, ids[:8]))}",
            expected="one token",
            hint="name the ids, each with --keep",
        )
    return int(ids[0])


def export(
    file: Annotated[
        str,
        typer.Argument(help="A frequency file, or counts of another tool; or owner/repo/file."),
    ],
    form: Annotated[
        FormatChoice,
        typer.Option(
            "--format", "-f", help="What to write: docs/formats.md.", rich_help_panel=OUTPUT
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="OUT", help="For npy a folder.", rich_help_panel=OUTPUT
        ),
    ],
    size: SizeOption = None,
    coverage: CoverageOption = None,
    min_count: MinCountOption = None,
    pins: PinsOption = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID|TOKEN",
            help="One more id to keep (digits are an id); a token's text needs --tokenizer. "
            "Repeat for more.",
            rich_help_panel=WHICH,
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=W",
            help="Rank by the sources' shares times these weights (others weigh 1).",
            rich_help_panel=WHICH,
        ),
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=C",
            help="Grow until so much of a source is covered. Repeat for more.",
            rich_help_panel=WHICH,
        ),
    ] = None,
    multiple_of: MultipleOfOption = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            "-t",
            metavar="TOK",
            help="The tokenizer that counted, for --keep TOKEN.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    kind: Annotated[
        KindChoice,
        typer.Option(help="What FILE is, where it does not say.", rich_help_panel=INPUT),
    ] = KindChoice.auto,
    rows: Annotated[
        int | None,
        typer.Option(metavar="V", help="Rows, where FILE does not say.", rich_help_panel=INPUT),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Replace OUT, a file, whatever it is; take freq_K.pt for another number of ids.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Choose which ids to keep, and write them as the file that a tool expects.

    token-freq and vocab-freq hold the counts of all ids and take no size.
    """
    asked = Export(
        form=form.value,
        kind=kind.value,
        rows=rows,
        pins=pins.value if pins else "default",
        keep=tuple(keep or ()),
        tokenizer=tokenizer,
        wish={
            "size": size,
            "coverage": coverage,
            "min_count": min_count,
            "floors": _numbers(floor, "--floor"),
            "weights": _numbers(weight, "--weight"),
            "multiple_of": multiple_of or 1,
        },
    )
    if form in (FormatChoice.token_freq, FormatChoice.vocab_freq):
        _check_nothing_chosen(asked.wish | {"keep": keep, "pins": pins}, form)
    written = run_export(
        file, output, asked, force=force, note=lambda text: render.note(text, quiet=quiet)
    )
    written.show(as_json=as_json, quiet=quiet)


def _check_nothing_chosen(wish: dict[str, Any], form: str) -> None:
    """The formats of counts hold all ids: who reads them chooses."""
    unset = {"multiple_of": 1}
    given = [name for name, value in wish.items() if value != unset.get(name)]
    if given:
        names = {"floors": "floor", "weights": "weight"}
        option = names.get(given[0], given[0].replace("_", "-"))
        raise typer.BadParameter(
            f"--{option} with --format {form}, which holds the raw counts of all ids: the tool "
            "that reads it chooses among them; leave it out"
        )


def _numbers(texts: list[str] | None, option: str) -> dict[str, float] | None:
    """NAME=NUMBER, repeated; what numbers make sense is for the library to say."""
    numbers: dict[str, float] = {}
    for text in texts or []:
        name, _, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            name = ""
        if not name:
            raise typer.BadParameter(f"{option} {text!r}; expected NAME=NUMBER")
        if name in numbers:
            raise typer.BadParameter(f"{option} {name!r} twice; expected one number for it")
        numbers[name] = value
    return numbers or None
