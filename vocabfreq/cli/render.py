"""Printing: results on standard output, remarks on standard error."""

import json
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable

SIZES = (8192, 16384, 32768, 65536)


def note(message: str, *, quiet: bool = False) -> None:
    """Prints a remark on standard error."""
    if not quiet:
        print(clean(message), file=sys.stderr)


def print_json(value: Any) -> None:
    """Prints a result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def clean(text: str) -> str:
    """Text from elsewhere, with escapes in place of what could control a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def command(*arguments: object) -> str:
    """A `vocabfreq` command, quoted for a shell."""
    return shlex.join(["vocabfreq", *map(str, arguments)])


def current_command() -> str:
    """The command that runs now, quoted for a shell."""
    return command(*sys.argv[1:])


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> None:
    """Prints a table.

    Args:
        title: above the table, or "".
        header: names of the columns.
        rows: cells as text.
        left: number of leading columns that hold text; the others hold numbers.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold"
    )
    for column, name in enumerate(header):
        table.add_column(
            clean(name),
            justify="left" if column < left else "right",
            overflow="fold",
            min_width=len(max(name.split() or [""], key=len)),
        )
    for row in rows:
        table.add_row(*(clean(cell) for cell in row))
    # Without a terminal the table is wide enough not to fold.
    width = None if sys.stdout is not None and sys.stdout.isatty() else 160
    Console(markup=False, highlight=False, width=width).print(table)


def percent(share: float) -> str:
    """A share as percent."""
    return f"{100 * share:.2f} %"


def megabytes(size: float) -> str:
    """Bytes as megabytes."""
    return f"{size / 1e6:,.1f} MB"


def default_sizes(table: "FrequencyTable") -> list[int]:
    """The usual sizes below V, or V."""
    return [size for size in SIZES if size < table.rows] or [table.rows]


def coverage(table: "FrequencyTable") -> dict[str, dict[int, float]]:
    """Coverage by source and size, and that of all sources if there are several."""
    names: list[str | None] = [source.name for source in table.sources]
    if len(names) > 1:
        names.append(None)
    sizes = default_sizes(table)
    return {
        "all sources" if name is None else name: {k: table.coverage(k, name) for k in sizes}
        for name in names
    }


def print_coverage(table: "FrequencyTable") -> None:
    """Prints the coverage table."""
    kind = "held-out" if table.heldout.any() else "counted"
    print_table(
        f"Coverage of {kind} tokens by the top K ids",
        ["source", *(f"K = {size:,}" for size in default_sizes(table))],
        [[name, *map(percent, by_size.values())] for name, by_size in coverage(table).items()],
    )
