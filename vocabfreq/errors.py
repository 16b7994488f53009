"""Every error that vocabfreq raises on purpose.

    VocabfreqError
    ├── SourceError          a corpus cannot be found, read or understood
    │   └── IdRangeError         it holds an id that the model has no row for
    ├── TokenizerError       a tokenizer or model config cannot be used
    ├── FileFormatError      a file of ours breaks its own format
    ├── CountError           a count could not be finished
    │   └── WorkDirError         a partial file cannot be written
    ├── SelectionError       a question to a table that it cannot answer
    ├── HeadError            a head cannot be pruned or used so, or a tensor does not fit it
    ├── WrongResultError     a measured way gave another result than the reference
    ├── EvaluationError      a run cannot be planned, or did not end well
    ├── HubError             the Hub refuses, or does not answer
    ├── MissingExtraError    an optional package is not installed
    └── RefusedError         doing it would lose or mix up something
        ├── MismatchError        two tokenizers that should be one
        └── OverwriteError       something else is in the way

Each message has up to three parts: what was wrong (with the value), what was expected,
and what to do. `exit_code` is what the command line ends with.
"""


class VocabfreqError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1

    def __init__(self, wrong: str, *, expected: str = "", hint: str = "") -> None:
        """Joins the three parts into one message.

        Args:
            wrong: what was wrong, with the value.
            expected: what was expected instead.
            hint: what to do.
        """
        self.wrong, self.expected, self.hint = wrong, expected, hint
        parts = [wrong, f"expected {expected}" if expected else ""]
        message = "; ".join(part for part in parts if part)
        super().__init__(f"{message}\n{hint}" if hint else message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keeps the three parts when the error crosses a process border."""
        return _rebuild, (type(self), self.wrong, self.expected, self.hint)


def _rebuild(kind: type[VocabfreqError], wrong: str, expected: str, hint: str) -> VocabfreqError:
    return kind(wrong, expected=expected, hint=hint)


class SourceError(VocabfreqError):
    """A corpus cannot be found, read or understood."""


class IdRangeError(SourceError):
    """A corpus of ids holds one that the model has no row for; the whole build ends."""


class TokenizerError(VocabfreqError):
    """A tokenizer or a model config cannot be used."""


class FileFormatError(VocabfreqError):
    """A file does not hold what its format promises."""


class CountError(VocabfreqError):
    """A count could not be finished; what was counted is kept in the work directory."""


class WorkDirError(CountError):
    """A partial file cannot be written; the whole build ends, what was counted is kept."""


class SelectionError(VocabfreqError):
    """A table was asked for something that it cannot answer."""


class HeadError(VocabfreqError):
    """A head cannot be pruned or used in this way, or a tensor given to it does not fit."""


class WrongResultError(VocabfreqError):
    """A measured way gave another result than the reference; no speed is shown."""


class EvaluationError(VocabfreqError):
    """A run of an engine cannot be planned or did not end well; finished runs are kept."""


class HubError(VocabfreqError):
    """The Hub refuses what was asked for, or does not answer."""


class MissingExtraError(VocabfreqError):
    """An optional package is not installed."""


class RefusedError(VocabfreqError):
    """Doing it would lose or mix up something."""

    exit_code = 4


class MismatchError(RefusedError):
    """Two tokenizers that should be one are not."""


class OverwriteError(RefusedError):
    """Something else is in the way of an output."""
