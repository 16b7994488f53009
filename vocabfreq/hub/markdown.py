"""Text of strangers in Markdown, and tables."""

from collections.abc import Sequence

LONGEST = 200
_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "\\|", "`": "'"}
_SPECIAL |= {c: f"\\{c}" for c in "\\*_[]#!"}


def plain(text: str | None) -> str:
    """A name as it is, whatever it holds: no markup, no control characters, no line ends."""
    shown = "".join(c if c.isprintable() else " " for c in text or "")
    cut = shown if len(shown) <= LONGEST else shown[:LONGEST] + "…"
    return "".join(_SPECIAL.get(c, c) for c in cut)


def table_of(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
