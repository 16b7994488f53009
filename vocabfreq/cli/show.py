"""`vocabfreq show`: prints the contents of a frequency file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    GENERAL,
    FileArgument,
    JsonOption,
    NoRemarksOption,
    TokenTextOption,
)

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.tokenizer.decoder import TokenDecoder


def show(
    file: FileArgument,
    tokenizer: TokenTextOption = None,
    top: Annotated[
        int, GENERAL.option("N", "Number of most frequent tokens to print.", min=0)
    ] = 20,
    plot: Annotated[Path | None, GENERAL.option("OUT.png", "Draw the coverage curves.")] = None,
    as_json: JsonOption = False,
    quiet: NoRemarksOption = False,
) -> None:
    """Print the sources, the coverage and the top tokens of a file."""
    from vocabfreq.frequencies.table import FrequencyTable
    from vocabfreq.tokenizer.decoder import load_decoder

    table = FrequencyTable.load(file)
    text = load_decoder(
        tokenizer, file.parent, sha256=table.tokenizer.sha256, name=table.tokenizer.name
    )
    if as_json:
        render.print_json(_as_dict(table, text, top))
    else:
        _print(table, text, top)
    if plot is not None:
        from vocabfreq.frequencies.plots import save_coverage_plot

        save_coverage_plot(table, plot)
        render.note(f"Drew {plot}.", quiet=quiet)


def _as_dict(table: "FrequencyTable", text: "TokenDecoder", top: int) -> dict[str, Any]:
    import json

    from vocabfreq.frequencies.metadata import canonical_json

    return {
        **json.loads(canonical_json(table.meta)),
        "coverage": render.coverage(table),
        "top": [
            {"rank": rank, "id": i, "count": n, "text": text(i)}
            for rank, (i, n) in enumerate(_top(table, top))
        ],
    }


def _top(table: "FrequencyTable", number: int) -> list[tuple[int, int]]:
    counts = table.counts.sum(axis=0)
    return [(int(i), int(counts[i])) for i in table.ranked_ids[:number]]


def _print(table: "FrequencyTable", text: "TokenDecoder", top: int) -> None:
    tokenizer, meta = table.tokenizer, table.meta
    revision = f" at {tokenizer.revision}" if tokenizer.revision else ""
    print(render.clean(f"Tokenizer  {tokenizer.name}{revision}"))
    print(f"           sha256 {tokenizer.sha256}")
    print(f"           V = {tokenizer.rows:,} rows, {tokenizer.size:,} ids can be emitted")
    special = f"{_ids('special', meta.special_ids)}, {_ids('stop', meta.stop_ids)}"
    print(f"Special    {special}, {len(meta.byte_ids)} byte tokens")
    encoder = f"{meta.encoder.name} {meta.encoder.version}, {_cross_check(table)}"
    print(render.clean(f"Encoded    by {encoder}"))
    print(render.clean(f"Options    {', '.join(f'{k} {v}' for k, v in meta.options.items())}"))
    print(f"Written    by vocabfreq {meta.vocabfreq}, format {meta.format}\n")
    _print_sources(table)
    render.print_coverage(table)
    if top:
        _print_top(table, text, top)


def _ids(kind: str, ids: tuple[int, ...]) -> str:
    listed = f" ({', '.join(map(str, ids))})" if 0 < len(ids) <= 8 else ""
    return f"{len(ids)} {kind}{listed}"


def _cross_check(table: "FrequencyTable") -> str:
    encoder = table.meta.encoder
    points = f" at {', '.join(encoder.code_points)}" if encoder.code_points else ""
    return (
        f"{encoder.cross_checked_documents:,} texts cross-checked, "
        f"{encoder.mismatched_documents:,} differed{points}"
    )


def _print_sources(table: "FrequencyTable") -> None:
    rows = [
        [
            source.name,
            _files(source.files),
            "raw" if source.weight is None else f"{source.weight:g}",
            f"{source.documents:,}",
            f"{source.heldout_documents:,}",
            f"{source.tokens:,}",
            render.megabytes(source.bytes),
            "; ".join(f"{n:,} × {reason}" for reason, n in source.skipped.items()) or "none",
        ]
        for source in table.sources
    ]
    header = ["source", "files", "weight", "documents", "held out", "tokens", "text", "skipped"]
    render.print_table("Sources", header, rows, left=2)


def _files(files: tuple[str, ...]) -> str:
    more = f" and {len(files) - 2:,} more" if len(files) > 2 else ""
    return ", ".join(files[:2]) + more


def _print_top(table: "FrequencyTable", text: "TokenDecoder", top: int) -> None:
    total = max(int(table.counts.sum()), 1)
    rows = [
        [text(i), f"{rank}", f"{i}", f"{n:,}", render.percent(n / total)]
        for rank, (i, n) in enumerate(_top(table, top))
    ]
    if not text.has_tokenizer:
        rows = [row[1:] for row in rows]
    header = ["token", "rank", "id", "count", "share"][int(not text.has_tokenizer) :]
    render.print_table("Most frequent tokens", header, rows, left=int(text.has_tokenizer))
    if not text.has_tokenizer:
        print("Give --tokenizer TOK to see them as text.")
