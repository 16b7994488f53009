"""The engines of `eval`: which module runs a spec, and which packages it needs.

A new engine is a module with `run(spec: RunSpec) -> RunResult` and an entry in `ENGINES`.
"""

from importlib.util import find_spec
from typing import NamedTuple

from vocabfreq.errors import EvaluationError, MissingExtraError


class Engine(NamedTuple):
    """A module that runs specs.

    Attributes:
        module: has `run(spec: RunSpec) -> RunResult`.
        packages: that must be installed.
        hint: how to install them.
        max_batch_size: most requests at a time, None for any.
        self_drafting: whether a target can draft for itself.
    """

    module: str
    packages: tuple[str, ...]
    hint: str
    max_batch_size: int | None = None
    self_drafting: bool = False


ENGINES = {
    "transformers": Engine(
        "vocabfreq.measure.eval.transformers_engine",
        ("torch", "transformers"),
        "pip install 'vocabfreq[eval]'",
        max_batch_size=1,
        self_drafting=True,
    ),
    "vllm": Engine(
        "vocabfreq.measure.eval.vllm_engine", ("vllm",), "pip install vllm, or see docs/vllm.md"
    ),
}


def find_engine(name: str) -> Engine:
    """An engine by its name; nothing is imported.

    Raises:
        EvaluationError: there is none of that name.
        MissingExtraError: one of its packages is not installed.
    """
    if name not in ENGINES:
        raise EvaluationError(f"engine {name!r}", expected=f"one of {', '.join(ENGINES)}")
    missing = [package for package in ENGINES[name].packages if find_spec(package) is None]
    if missing:
        raise MissingExtraError(f"{missing[0]} is not installed", hint=ENGINES[name].hint)
    return ENGINES[name]
