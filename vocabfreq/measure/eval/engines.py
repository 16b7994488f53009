"""The engines: which module runs a spec, and what has to be installed for it."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import NamedTuple

from vocabfreq.errors import EvaluationError, MissingExtraError
from vocabfreq.measure.eval.spec import RunResult, RunSpec


class Engine(NamedTuple):
    """One way to run a spec.

    Attributes:
        module: has `run(spec: RunSpec) -> RunResult`.
        needs: the packages that must be there.
        hint: how to get them.
        largest_batch: most requests at a time, None for any.
        takes_self: whether a target can draft for itself.
    """

    module: str
    needs: tuple[str, ...]
    hint: str
    largest_batch: int | None = None
    takes_self: bool = False


ENGINES = {
    "transformers": Engine(
        "vocabfreq.measure.eval.transformers_engine",
        ("torch", "transformers"),
        "pip install 'vocabfreq[eval]'",
        largest_batch=1,
        takes_self=True,
    ),
    "vllm": Engine(
        "vocabfreq.measure.eval.vllm_engine", ("vllm",), "pip install vllm, or see docs/vllm.md"
    ),
}


def engine_of(name: str) -> Engine:
    """An engine by its name; nothing is imported.

    Raises:
        EvaluationError: there is none of that name.
        MissingExtraError: what it needs is not installed.
    """
    if name not in ENGINES:
        raise EvaluationError(f"engine {name!r}", expected=f"one of {', '.join(ENGINES)}")
    missing = [package for package in ENGINES[name].needs if find_spec(package) is None]
    if missing:
        raise MissingExtraError(f"{missing[0]} is not installed", hint=ENGINES[name].hint)
    return ENGINES[name]


def runner_of(name: str) -> Callable[[RunSpec], RunResult]:
    """The function that runs a spec, its module imported."""
    run: Callable[[RunSpec], RunResult] = import_module(engine_of(name).module).run
    return run
