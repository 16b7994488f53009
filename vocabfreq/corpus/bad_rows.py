"""What a reader skipped or mended, by reason, with the first few places."""

from dataclasses import dataclass, field

NOT_JSON = "not JSON"
NOT_UTF8 = "not UTF-8"
NOT_OBJECT = "not an object"
NO_COLUMN = "column missing"
NULL = "column is null"
WRONG_TYPE = "column is a{}"
TRUNCATED = "truncated file"
BROKEN = "broken file"

SURROGATE = "lone surrogate replaced"
BEYOND_ROWS = "id beyond the model's rows"
TRIVIAL_MASK = "loss mask all {}"

UNKNOWN_ROLE = "turn of an unknown role"
NO_MASK = "row without a loss mask beside rows with one"

EXAMPLES_PER_REASON = 3
REMARKS = (UNKNOWN_ROLE, NO_MASK, TRIVIAL_MASK.format("ones"), TRIVIAL_MASK.format("zeros"))
NOT_BAD_ROWS = (SURROGATE, BEYOND_ROWS, *REMARKS)


@dataclass
class Example:
    """One place where a reason was met.

    Attributes:
        reason: a key of `Tally.skipped`.
        file: base name of the file.
        unit: `line`, `row` or `byte`.
        number: 1-based within the piece of the file that was read (for `byte`: of the file).
        detail: a word more, or "".
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
class Tally:
    """Running account of one shard.

    Attributes:
        skipped: reason → how often.
        examples: the first few places of each reason.
        lines: rows or lines read so far in the current piece.
    """

    skipped: dict[str, int] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)
    lines: int = 0

    def add(self, reason: str, number: int) -> None:
        """Adds to a reason without naming a place."""
        self.skipped[reason] = self.skipped.get(reason, 0) + number

    def skip(self, reason: str, file: str, unit: str, number: int, detail: str = "") -> None:
        """Notes one skipped or mended row."""
        self.add(reason, 1)
        if self.skipped[reason] <= EXAMPLES_PER_REASON:
            self.examples.append(Example(reason, file, unit, number, detail))


def bad_rows(skipped: dict[str, int]) -> int:
    """How many rows of `skipped` were lost (mended ones and mere remarks left out)."""
    return sum(n for reason, n in skipped.items() if reason not in NOT_BAD_ROWS)
