"""`vocabfreq compare`: how alike two frequency files are."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render

if TYPE_CHECKING:
    from vocabfreq.frequencies.comparing import Difference, Overlap
    from vocabfreq.tokenizer.decoder import TokenDecoder


def compare(
    a: Annotated[Path, typer.Argument(help="A frequency file.")],
    b: Annotated[Path, typer.Argument(help="Another one of the same tokenizer.")],
    size: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="K", help="Sizes to compare. Default: the usual ones."),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option("--tokenizer", "-t", metavar="TOK", help="To write tokens as text."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many differing ids.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare the most frequent ids of two files, and what each covers of the other's text."""
    from vocabfreq.frequencies.comparing import differences, overlap
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.tokenizer.decoder import load_decoder

    first, second = FrequencyTable.load(a), FrequencyTable.load(b)
    overlaps = [overlap(first, second, k) for k in size or render.sizes_of(first)]
    found = differences(first, second, top)
    text = load_decoder(
        tokenizer, a.parent, sha256=first.tokenizer.sha256, name=first.tokenizer.name
    )
    if as_json:
        listed = [{**asdict(one), "text": text(one.id)} for one in found]
        render.print_json({"overlap": [asdict(o) for o in overlaps], "differences": listed})
        return
    print(render.clean(f"A  {a}: {first!r}\nB  {b}: {second!r}\n"))
    _print_overlaps(overlaps)
    _print_differences(found, text)


def _print_overlaps(overlaps: "list[Overlap]") -> None:
    header = ["K", "ids in both", "", "B by A", "B by B", "A by B", "A by A"]
    rows = [
        [
            f"{o.size:,}",
            f"{o.shared:,}",
            render.percent(o.shared / o.size),
            *map(render.percent, (o.a_covers_b, o.b_covers_b, o.b_covers_a, o.a_covers_a)),
        ]
        for o in overlaps
    ]
    title = "The K most frequent ids ('B by A': share of B's tokens that A's ids cover)"
    render.print_table(title, header, rows, left=0)


def _print_differences(found: "list[Difference]", text: "TokenDecoder") -> None:
    if not found:
        return
    rows = [
        [text(d.id), f"{d.id}", *(render.percent(s) for s in (d.share_a, d.share_b))] for d in found
    ]
    header = ["token", "id", "share in A", "share in B"]
    render.print_table("The ids whose shares differ most", header, rows)
    if not text.has_tokenizer:
        print("To see them as text: --tokenizer TOK")
