"""Errors of loaders, for processes that evaluate expressions."""


def error_of(name: str, reader: str) -> str:
    """The message of the error, "" without one."""
    from vocabfreq import FrequencyTable
    from vocabfreq.errors import VocabfreqError
    from vocabfreq.formats import read

    try:
        FrequencyTable.load(name) if reader == "load" else read(name, "token-map", rows=265)
    except VocabfreqError as error:
        return str(error)
    return ""
