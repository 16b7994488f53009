"""`vocabfreq compare`: two frequency files of one tokenizer."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vocabfreq.cli import render
from vocabfreq.cli.options import GENERAL, JsonOption, TokenTextOption, argument

if TYPE_CHECKING:
    from vocabfreq.frequencies.comparing import Difference, Overlap
    from vocabfreq.tokenizer.decoder import TokenDecoder


def compare(
    a: Annotated[Path, argument("A", "Frequency file.")],
    b: Annotated[Path, argument("B", "Frequency file of the same tokenizer.")],
    size: Annotated[
        list[int] | None,
        GENERAL.option("K", "Size to compare; repeat for more. Default: 8192 to 65536.", min=1),
    ] = None,
    tokenizer: TokenTextOption = None,
    top: Annotated[
        int, GENERAL.option("N", "Number of ids with the largest differences.", min=0)
    ] = 20,
    as_json: JsonOption = False,
) -> None:
    """Compare the top ids of two files, and their coverage of each other."""
    from vocabfreq.frequencies.comparing import differences, overlap
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.tokenizer.decoder import load_decoder

    first, second = FrequencyTable.load(a), FrequencyTable.load(b)
    overlaps = [overlap(first, second, k) for k in size or render.default_sizes(first)]
    largest = differences(first, second, top)
    text = load_decoder(
        tokenizer, a.parent, sha256=first.tokenizer.sha256, name=first.tokenizer.name
    )
    if as_json:
        listed = [{**asdict(one), "text": text(one.id)} for one in largest]
        render.print_json({"overlap": [asdict(o) for o in overlaps], "differences": listed})
        return
    print(render.clean(f"A  {a}: {first!r}\nB  {b}: {second!r}\n"))
    _print_overlaps(overlaps)
    _print_differences(largest, text)


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


def _print_differences(largest: "list[Difference]", text: "TokenDecoder") -> None:
    if not largest:
        return
    rows = [
        [text(d.id), f"{d.id}", *(render.percent(s) for s in (d.share_a, d.share_b))]
        for d in largest
    ]
    header = ["token", "id", "share in A", "share in B"]
    render.print_table("The ids whose shares differ most", header, rows)
    if not text.has_tokenizer:
        print("Give --tokenizer TOK to see them as text.")
