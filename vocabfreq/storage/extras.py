"""Optional packages: imported when needed, with a one-line hint when they are missing."""

from importlib import import_module
from typing import Any

from vocabfreq.errors import MissingExtraError


def require(module: str, extra: str) -> Any:
    """Imports a module of an extra.

    Raises:
        MissingExtraError: it is not installed.
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
