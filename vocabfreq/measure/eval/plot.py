"""A plot of a sweep: acceptance and speed over K."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vocabfreq.errors import SelectionError, require
from vocabfreq.frequencies.plots import PICTURES
from vocabfreq.measure.eval.evaluation import Row


def check_plot_path(path: Path) -> None:
    """Checks that a plot can be drawn, before anything is run.

    Raises:
        MissingExtraError: matplotlib is not installed.
        SelectionError: the file name does not end as that of a picture.
    """
    require("matplotlib.figure", "plots")
    if path.suffix.lower() not in PICTURES:
        raise SelectionError(f"picture {str(path)!r}", expected=f"a name in {', '.join(PICTURES)}")


def save_plot(rows: Sequence[Row], path: Path) -> None:
    """Draws mean acceptance length and tokens per second over K, a line for each N and B.

    The full head stands at V; a dotted line is a prediction, a dashed one plain decoding.

    Args:
        rows: of one sweep.
        path: file to write; its ending decides the format.
    """
    check_plot_path(path)
    figure = require("matplotlib.figure", "plots").Figure(
        figsize=(10, 4.5), dpi=150, layout="constrained"
    )
    left, right = figure.subplots(1, 2)
    finished = [row for row in rows if row.error is None]
    _draw(left, finished, "acceptance_length", "mean acceptance length, tokens per target step")
    _draw(right, finished, "tokens_per_second", "tokens per second")
    figure.savefig(str(path))


def _draw(axes: Any, rows: Sequence[Row], field: str, label: str) -> None:
    full_size = max((row.vocab_size or 0 for row in rows), default=0) or 1
    for tokens, batch in sorted({(r.spec_tokens, r.batch_size) for r in rows if r.spec_tokens}):
        line = [r for r in rows if (r.spec_tokens, r.batch_size) == (tokens, batch)]
        line.sort(key=lambda row: row.size or full_size)
        sizes, values = [r.size or full_size for r in line], [getattr(r, field) for r in line]
        (drawn,) = axes.plot(sizes, values, "o-", label=f"{tokens} spec tokens, B = {batch}")
        predicted = [(r.size, r.prediction.acceptance_length) for r in line if r.prediction]
        if field == "acceptance_length" and predicted:
            style = {"color": drawn.get_color(), "label": "predicted from the full head"}
            axes.plot(*zip(*predicted, strict=True), ":", **style)
    for row in rows:
        if not row.spec_tokens:
            name = f"plain decoding, B = {row.batch_size}"
            axes.axhline(getattr(row, field), color="0.6", ls="--", lw=1, label=name)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda k, _: f"{k:,.0f}")
    axes.set_xlabel("K, draft rows kept (log scale; the full head last)")
    axes.set_ylabel(label)
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="0.9")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
