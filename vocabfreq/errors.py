"""Every error that vocabfreq raises on purpose, and helpers that word error messages.

    VocabfreqError
    ├── SourceError          a corpus cannot be found, read or understood
    │   └── IdRangeError         a token id has no row in the model's head
    ├── TokenizerError       a tokenizer or a model config cannot be used
    ├── FileFormatError      a file breaks its own format
    ├── CountError           a count could not be finished
    │   └── WorkDirError         a partial file cannot be written
    ├── SelectionError       a frequency table cannot select or measure as requested
    ├── HeadError            a head cannot be pruned or run, or a tensor does not fit it
    ├── WrongResultError     a benchmarked implementation differs from the reference
    ├── EvaluationError      a run of an engine cannot be planned, or failed
    ├── HubError             the Hub refuses a request or does not answer
    ├── MissingExtraError    an optional package is not installed
    └── RefusedError         the operation would lose or mix up data
        ├── MismatchError        two tokenizers that must be the same differ
        └── OverwriteError       another file or folder is in the way

A message has up to three parts: what was wrong (with the value), what was expected, and what to
do. `exit_code` is the exit code of the command line.
"""

import reprlib
from importlib import import_module
from typing import Any


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
        message = f"{wrong}; expected {expected}" if expected else wrong
        super().__init__(f"{message}\n{hint}" if hint else message)

    def __reduce__(self) -> tuple[object, ...]:
        """Keeps the three parts when the error crosses a process border."""
        return _rebuild, (type(self), self.wrong, self.expected, self.hint)


def _rebuild(kind: type[VocabfreqError], wrong: str, expected: str, hint: str) -> VocabfreqError:
    return kind(wrong, expected=expected, hint=hint)


class SourceError(VocabfreqError):
    """A corpus cannot be found, read or understood."""


class IdRangeError(SourceError):
    """A corpus of token ids holds one that has no row in the model's head; the build stops."""


class TokenizerError(VocabfreqError):
    """A tokenizer or a model config cannot be used."""


class FileFormatError(VocabfreqError):
    """A file does not hold what its format promises."""


class CountError(VocabfreqError):
    """A count could not be finished; the work directory keeps the finished shards."""


class WorkDirError(CountError):
    """A partial file cannot be written; the build stops, the finished shards stay."""


class SelectionError(VocabfreqError):
    """A frequency table cannot select or measure as requested."""


class HeadError(VocabfreqError):
    """A head cannot be pruned or run as requested, or a tensor does not fit it."""


class WrongResultError(VocabfreqError):
    """A benchmarked implementation differs from the reference; no speed is reported."""


class EvaluationError(VocabfreqError):
    """A run of an engine cannot be planned, or failed; finished runs are kept."""


class HubError(VocabfreqError):
    """The Hub refuses a request or does not answer."""


class MissingExtraError(VocabfreqError):
    """An optional package is not installed."""


class RefusedError(VocabfreqError):
    """The operation would lose or mix up data."""

    exit_code = 4


class MismatchError(RefusedError):
    """Two tokenizers that must be the same differ."""


class OverwriteError(RefusedError):
    """Another file or folder is in the way of an output."""


def require(module: str, extra: str) -> Any:
    """Imports a module that an extra of vocabfreq installs.

    Raises:
        MissingExtraError: its package is not installed; the hint is the pip command.
    """
    package = module.partition(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingExtraError(
            f"{package} is not installed", hint=f"pip install 'vocabfreq[{extra}]'"
        ) from None
    return import_module(module)


def first_line(error: BaseException) -> str:
    """Type and first line of another library's error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # huggingface_hub puts the HTTP status on the first line and the reason on the second.
    text = " ".join(lines[:2]) if lines and "Client Error" in lines[0] else "".join(lines[:1])
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def short_repr(value: object) -> str:
    """`repr` of a value from a file, shortened however long or deep the value is."""
    try:
        return reprlib.repr(value)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__}"
