"""Renders the numbers of a benchmark as a table: medians, ranges, budgets and verdicts."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """The limit that a number has to meet.

    Attributes:
        sign: "≥" or "≤".
        limit: the number.
        unit: printed after it.
    """

    sign: str
    limit: float
    unit: str

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}{self.unit}"

    def verdict(self, value: float | None) -> str:
        """Whether a measured number is within it; nothing is said of one that was not measured."""
        if value is None:
            return ""
        met = value >= self.limit if self.sign == "≥" else value <= self.limit
        return "met" if met else "MISSED"


@dataclass(frozen=True)
class Row:
    """A line of the table: a measured value, or a ratio of ours to a peer, or both.

    Attributes:
        name: what was measured.
        values: one per run.
        unit: of the values.
        ratios: ours to this peer, one per run, each from neighbours in time.
        per_cpu: the same per CPU second, one per run; other programs affect it less.
        budget: for the ratio if there is one, else for the value.
        digits: decimals of the values.
    """

    name: str
    values: Sequence[float] = ()
    unit: str = ""
    ratios: Sequence[float] = ()
    per_cpu: Sequence[float] = ()
    budget: Budget | None = None
    digits: int = 1

    @property
    def judged(self) -> float | None:
        """The number that the budget is for."""
        numbers = self.ratios or self.values
        return statistics.median(numbers) if numbers else None

    @property
    def verdict(self) -> str:
        """Whether the budget is met, empty where there is none or nothing was measured."""
        return self.budget.verdict(self.judged) if self.budget else ""

    def cells(self) -> list[str]:
        """The cells of the line."""
        return [
            self.name,
            _median(self.values, self.digits, f" {self.unit}") or "not measured",
            _range(self.values, self.digits),
            _median(self.per_cpu, self.digits, ""),
            _median(self.ratios, 2, "×"),
            _range(self.ratios, 2),
            str(self.budget or ""),
            self.verdict,
        ]


HEADER = ["", "median", "min to max", "a CPU s", "ours / it", "min to max", "budget", ""]


def table(rows: Sequence[Row]) -> str:
    """Rows with aligned columns."""
    lines = [HEADER, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(cells, widths) for cells in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    shown = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
    shown[0], shown[-1] = f"{cells[0]:<{widths[0]}}", cells[-1]
    return "  ".join(shown).rstrip()


def _median(values: Sequence[float], digits: int, unit: str) -> str:
    return f"{statistics.median(values):,.{digits}f}{unit}" if values else ""


def _range(values: Sequence[float], digits: int) -> str:
    if len(values) < 2:
        return ""
    return f"{min(values):,.{digits}f} to {max(values):,.{digits}f}"
