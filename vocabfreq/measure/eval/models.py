"""Causal language models of transformers, with a cache that follows a growing list of ids."""

import inspect
import os
from typing import Any

import torch
from torch import Tensor

from vocabfreq.errors import EvaluationError, MismatchError, require
from vocabfreq.measure.eval.plan import Prompt

DTYPES = ("bfloat16", "float16", "float32")


def device_of(options: dict[str, Any]) -> str:
    """Where models run: the option `device`, else a GPU where there is one."""
    return str(options.get("device") or ("cuda" if torch.cuda.is_available() else "cpu"))


def load_model(name: str, dtype: str, device: str) -> Any:
    """A causal LM, ready to run. No code of a repo runs.

    Raises:
        EvaluationError: it cannot be loaded, or the dtype is none of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise EvaluationError(f"dtype {dtype!r}", expected=f"one of {', '.join(DTYPES)}")
    auto = require("transformers", "eval").AutoModelForCausalLM
    require("transformers.utils.logging", "eval").disable_progress_bar()
    with _worded(name):
        return auto.from_pretrained(_local(name), **_revision(name), dtype=dtype).to(device).eval()


def load_tokenizer(name: str) -> Any:
    """The tokenizer beside a model.

    Raises:
        EvaluationError: it cannot be loaded.
    """
    with _worded(name):
        auto = require("transformers", "eval").AutoTokenizer
        return auto.from_pretrained(_local(name), **_revision(name))


def check_same_tokenizer(target: Any, drafter: Any) -> None:
    """Drafted ids have to mean the same to both.

    Raises:
        MismatchError: they do not.
    """
    ours, theirs = target.get_vocab(), drafter.get_vocab()
    if ours != theirs:
        different = sum(theirs.get(token) != i for token, i in ours.items())
        raise MismatchError(
            f"the drafter's tokenizer has {len(theirs):,} tokens; {different:,} of the target's "
            f"{len(ours):,} are missing there or have another id",
            expected="one tokenizer for both",
        )


def encode(tokenizer: Any, prompt: Prompt) -> list[int]:
    """The ids of a prompt; a chat without a template is its contents, line after line."""
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    if getattr(tokenizer, "chat_template", None):
        text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])
    return list(tokenizer("\n".join(message["content"] for message in prompt) + "\n")["input_ids"])


def stop_ids(model: Any) -> frozenset[int]:
    """The ids that end a text, as the generation config says."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    return frozenset(ids if isinstance(ids, list) else [] if ids is None else [ids])


class Cached:
    """A model and the keys and values of what it has read.

    Every layer keeps all positions, those with a sliding window too, so that the cache can be cut
    back at any place; masks keep what a window leaves out from being seen.
    """

    def __init__(self, model: Any) -> None:
        """Starts with nothing read."""
        self.model = model
        self.cache = require("transformers", "eval").DynamicCache()
        takes = inspect.signature(model.forward).parameters
        self._name = "cache" if "cache" in takes else "past_key_values"  # newer and older ones

    @property
    def length(self) -> int:
        """How many ids have been read."""
        return int(self.cache.get_seq_length())

    def logits(self, ids: list[int], last: int) -> Tensor:
        """Reads what is new of a list of ids; logits of its last places, [last, V]."""
        given = self._new(ids)
        logits: Tensor = self.model(**given, logits_to_keep=last).logits
        return logits[0]

    def hidden(self, ids: list[int]) -> Tensor:
        """Reads what is new; the hidden state of the last place, [1, H]."""
        states: Tensor = self.model.base_model(**self._new(ids)).last_hidden_state
        return states[:, -1]

    def crop(self, length: int) -> None:
        """Forgets all but the first ids."""
        if self.length > length:
            self.cache.crop(length - self.length)  # how many go, negative

    def _new(self, ids: list[int]) -> dict[str, Any]:
        new = torch.tensor([ids[self.length :]], device=self.model.device)
        return {"input_ids": new, self._name: self.cache, "use_cache": True}


class _worded:  # noqa: N801 (read as a phrase: with _worded(name))
    """Errors of loading, of whatever kind, in one line."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, OSError | ValueError | KeyError | ImportError):
            first = next(iter(str(error).strip().splitlines()), "")
            raise EvaluationError(
                f"{self.name} cannot be loaded: {type(error).__name__}: {first}",
                expected="a folder or Hub repo of a causal LM that transformers knows",
            ) from error


def _local(name: str) -> str:
    return name.partition("@")[0] if _revision(name) else name


def _revision(name: str) -> dict[str, str]:
    """The revision of `owner/name@revision`."""
    _, at, revision = name.partition("@")
    return {"revision": revision} if at and not os.path.isdir(name) else {}
