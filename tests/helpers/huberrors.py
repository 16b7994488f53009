"""Error messages of the readers, for processes that evaluate expressions."""


def error_of(name: str, how: str) -> str:
    """The message of the error, "" without one."""
    from vocabfreq import FrequencyTable
    from vocabfreq.errors import VocabfreqError
    from vocabfreq.formats import read

    try:
        FrequencyTable.load(name) if how == "load" else read(name, "token-map", rows=265)
    except VocabfreqError as error:
        return str(error)
    return ""
