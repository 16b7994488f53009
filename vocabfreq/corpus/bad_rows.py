"""Rows that a reader skips or repairs, counted by reason, with the first examples of each."""

from dataclasses import dataclass, field

NOT_JSON = "not JSON"
NOT_UTF8 = "not UTF-8"
NOT_OBJECT = "not an object"
NO_COLUMN = "column missing"
NULL = "column is null"
WRONG_TYPE = "column is a{}"
WRONG_ITEMS = "{} do not fit"
NO_TEXT = "no text in the column"
ERROR_ROW = "an error instead of an answer"
TEMPLATE = "chat template: {}"
WRONG_MASK = "loss mask of another length"
TRUNCATED = "truncated file"
BROKEN = "broken file"
TRAILING = "trailing bytes ignored"

SURROGATE = "lone surrogate replaced"
BEYOND_ROWS = "id beyond the model's rows"
TRIVIAL_MASK = "loss mask all {}"

UNKNOWN_ROLE = "tokens of the unknown role {!r}"
NO_MASK = "row without a loss mask beside rows with one"

EXAMPLES_PER_REASON = 3
REMARKS = (TRAILING, NO_MASK, TRIVIAL_MASK.format("ones"), TRIVIAL_MASK.format("zeros"))
NOT_BAD_ROWS = (SURROGATE, BEYOND_ROWS, *REMARKS)


@dataclass
class Example:
    """One row that was skipped or repaired.

    Attributes:
        reason: a key of `BadRows.skipped`.
        file: base name of the file.
        unit: what `number` counts: `line`, `row`, `document` or `byte`.
        number: 1-based within the piece of the file that was read (for `byte`: of the file).
        detail: further explanation, or "".
    """

    reason: str
    file: str
    unit: str
    number: int
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.file}, {self.unit} {self.number}{detail}"


@dataclass
class BadRows:
    """The bad rows of one shard.

    Attributes:
        skipped: reason → number of rows.
        examples: the first few of each reason.
        lines: rows or lines read so far in the current piece.
    """

    skipped: dict[str, int] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    lines: int = 0

    def add(self, reason: str, number: int) -> None:
        """Counts a reason without an example."""
        self.skipped[reason] = self.skipped.get(reason, 0) + number

    def add_row(self, reason: str, file: str, unit: str, number: int, detail: str = "") -> None:
        """Counts one row that was skipped or repaired."""
        self.add(reason, 1)
        if self.skipped[reason] <= EXAMPLES_PER_REASON:
            self.examples.append(Example(reason, file, unit, number, detail))


def count_bad_rows(skipped: dict[str, int]) -> int:
    """Number of rows in `skipped` that were lost; repaired rows and remarks do not count."""
    return sum(n for reason, n in skipped.items() if is_bad_row(reason))


def is_bad_row(reason: str) -> bool:
    """Whether rows were lost for this reason; repaired rows and remarks were not."""
    return reason not in NOT_BAD_ROWS and not is_unknown_role(reason)


def is_unknown_role(reason: str) -> bool:
    """Whether the reason is the remark about the turns of an unknown role."""
    return reason.startswith(UNKNOWN_ROLE.partition("{")[0])
