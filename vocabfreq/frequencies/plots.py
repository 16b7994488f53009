"""Plots coverage: the share of tokens that the K most frequent ids cover."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vocabfreq.errors import SelectionError, require
from vocabfreq.frequencies.table import FrequencyTable

PICTURES = (".png", ".svg", ".pdf", ".jpg", ".webp")
SIZES = (8192, 16384, 32768, 65536)
_MAX_NAME = 80  # characters
_FIRST = 64
_POINTS = 400


def save_coverage_plot(
    table: FrequencyTable, path: str | Path, sizes: Sequence[int] = SIZES
) -> None:
    """Draws coverage against K on a log axis, one line a source.

    Where there are several sources, a dotted line shows what each would get from its own ranking:
    the gap is what the others cost it.

    Args:
        table: the counts to plot.
        path: file to write; its suffix decides the format.
        sizes: values of K to mark; those above V are left out.

    Raises:
        MissingExtraError: matplotlib is not installed.
        SelectionError: the suffix is not one of `PICTURES`.
    """
    if Path(path).suffix.lower() not in PICTURES:
        raise SelectionError(f"picture {str(path)!r}", expected=f"a name in {', '.join(PICTURES)}")
    figure_class = require("matplotlib.figure", "plots").Figure
    figure = figure_class(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.subplots()
    _draw_curves(axes, table)
    _mark_sizes(axes, [size for size in sizes if size <= table.rows])
    _label(axes, table)
    figure.savefig(str(path))


def _draw_curves(axes: Any, table: FrequencyTable) -> None:
    ks = np.unique(np.geomspace(min(_FIRST, table.rows), table.rows, _POINTS).astype(int))
    for source in table.sources:
        curve, label = table.coverage_curve(source.name), _escape(source.name)
        (line,) = axes.plot(ks, 100 * curve[ks - 1], lw=2, label=label)
        if len(table.sources) > 1:
            own = table.only(source.name).coverage_curve()
            style = {"ls": ":", "color": line.get_color(), "label": f"{label}, ranked by itself"}
            axes.plot(ks, 100 * own[ks - 1], lw=1.5, **style)


def _mark_sizes(axes: Any, sizes: Sequence[int]) -> None:
    for size in sizes:
        axes.axvline(size, color="0.75", lw=0.8, zorder=0)
        axes.annotate(
            f"{size:,}",
            (size, 0),
            xycoords=("data", "axes fraction"),
            xytext=(3, 4),
            textcoords="offset points",
            rotation=90,
            fontsize=8,
            color="0.35",
        )


def _label(axes: Any, table: FrequencyTable) -> None:
    held = "held-out tokens" if table.heldout.any() else "counted tokens"
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda k, _: f"{k:,.0f}")
    axes.set_xlabel(f"K, draft rows kept of V = {table.rows:,} (log scale)")
    axes.set_ylabel(f"coverage of {held}, %")
    axes.set_title(f"Coverage by size of the draft vocabulary — {_escape(table.tokenizer.name)}")
    axes.set_ylim(top=100.5)
    axes.grid(axis="y", color="0.9")
    axes.legend(loc="upper left", frameon=False)
    axes.spines[["top", "right"]].set_visible(False)


def _escape(text: str) -> str:
    """A name for matplotlib: `$` starts no formula, control characters become spaces."""
    shown = "".join(c if c.isprintable() else " " for c in text[:_MAX_NAME])
    return shown.replace("$", r"\$")
