"""The picture of a sweep: acceptance and speed over K."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vocabfreq.errors import SelectionError
from vocabfreq.frequencies.plots import PICTURES
from vocabfreq.measure.eval.evaluation import Row
from vocabfreq.storage.extras import require


def check_picture(path: Path) -> None:
    """Refuses a picture that could not be drawn, before anything is run.

    Raises:
        MissingExtraError: matplotlib is not installed.
        SelectionError: the ending is none of a picture.
    """
    require("matplotlib.figure", "plots")
    if path.suffix.lower() not in PICTURES:
        raise SelectionError(f"picture {str(path)!r}", expected=f"a name in {', '.join(PICTURES)}")


def save_picture(rows: Sequence[Row], path: Path) -> None:
    """Draws mean acceptance length and tokens per second over K, a line for each N and B.

    The full head stands at V; dotted lines are what was predicted, and plain decoding.

    Args:
        rows: of one sweep.
        path: picture to write; its ending decides the format.
    """
    check_picture(path)
    figure = require("matplotlib.figure", "plots").Figure(
        figsize=(10, 4.5), dpi=150, layout="constrained"
    )
    left, right = figure.subplots(1, 2)
    drawn = [row for row in rows if row.error is None]
    _draw(left, drawn, "acceptance_length")
    _draw(right, drawn, "tokens_per_second")
    _label(left, "mean acceptance length, tokens per target step")
    _label(right, "tokens per second")
    figure.savefig(str(path))


def _draw(axes: Any, rows: Sequence[Row], name: str) -> None:
    width = max((row.rows or 0 for row in rows), default=0) or 1
    for tokens, batch in sorted({(r.spec_tokens, r.batch_size) for r in rows if r.spec_tokens}):
        line = [r for r in rows if (r.spec_tokens, r.batch_size) == (tokens, batch)]
        points = sorted(((r.size or width, getattr(r, name), r) for r in line), key=lambda p: p[0])
        ks, values = [p[0] for p in points], [p[1] for p in points]
        (shown,) = axes.plot(ks, values, "o-", label=f"{tokens} spec tokens, B = {batch}")
        guessed = [(k, r.prediction.length) for k, _, r in points if r.prediction]
        if name == "acceptance_length" and guessed:
            style = {"color": shown.get_color(), "label": "predicted from the full head"}
            axes.plot(*zip(*guessed, strict=True), ":", **style)
    for row in rows:
        if not row.spec_tokens:
            label = f"plain decoding, B = {row.batch_size}"
            axes.axhline(getattr(row, name), color="0.6", ls="--", lw=1, label=label)


def _label(axes: Any, what: str) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda k, _: f"{k:,.0f}")
    axes.set_xlabel("K, draft rows kept (log scale; the full head last)")
    axes.set_ylabel(what)
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", color="0.9")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
