"""What people see: results on standard output, progress and remarks on standard error."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabfreq.frequencies.table import FrequencyTable

SIZES = (8192, 16384, 32768, 65536)


def note(message: str, *, quiet: bool = False) -> None:
    """A remark on standard error."""
    if not quiet:
        print(clean(message), file=sys.stderr)


def print_json(value: Any) -> None:
    """A result for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def clean(text: str) -> str:
    """Text from elsewhere without what could steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else f"\\x{ord(c):02x}" for c in text)


def print_table(
    title: str, header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1
) -> None:
    """A table of which the first `left` columns are text and the others numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(
        title=title or None, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold"
    )
    for place, name in enumerate(header):
        table.add_column(
            clean(name),
            justify="left" if place < left else "right",
            overflow="fold",
            min_width=len(max(name.split() or [""], key=len)),
        )
    for row in rows:
        table.add_row(*(clean(cell) for cell in row))
    Console(markup=False, highlight=False, width=_width()).print(table)


def _width() -> int | None:
    """The terminal's own width; wide enough not to fold where there is no terminal."""
    return None if sys.stdout is not None and sys.stdout.isatty() else 160


def percent(share: float) -> str:
    """A share as people write it."""
    return f"{100 * share:.2f} %"


def megabytes(size: float) -> str:
    """A size as people write it."""
    return f"{size / 1e6:,.1f} MB"


def sizes_of(table: "FrequencyTable") -> list[int]:
    """The usual sizes that make sense for a table."""
    return [size for size in SIZES if size < table.rows] or [table.rows]


def coverage(table: "FrequencyTable") -> dict[str, dict[int, float]]:
    """Coverage per source and size; `all` is every source together."""
    names: list[str | None] = [source.name for source in table.sources]
    lines = [*names, None] if len(names) > 1 else names
    return {
        "all sources" if name is None else name: {
            k: table.coverage(k, name) for k in sizes_of(table)
        }
        for name in lines
    }


def print_coverage(table: "FrequencyTable") -> None:
    """The coverage table."""
    kind = "held-out" if table.heldout.any() else "counted"
    print_table(
        f"Coverage of {kind} tokens by the top K ids",
        ["source", *(f"K = {size:,}" for size in sizes_of(table))],
        [[name, *map(percent, by_size.values())] for name, by_size in coverage(table).items()],
    )
