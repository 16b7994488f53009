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
    """A causal LM in eval mode. No code of a repo runs.

    Raises:
        EvaluationError: it cannot be loaded, or the dtype is none of `DTYPES`.
    """
    if dtype not in DTYPES:
        raise EvaluationError(f"dtype {dtype!r}", expected=f"one of {', '.join(DTYPES)}")
    require("transformers.utils.logging", "eval").disable_progress_bar()
    return _from_pretrained("AutoModelForCausalLM", name, dtype=dtype).to(device).eval()


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model.

    Raises:
        EvaluationError: it cannot be loaded.
    """
    return _from_pretrained("AutoTokenizer", name)


def _from_pretrained(kind: str, name: str, **options: Any) -> Any:
    """Loads from a folder, or from a repo given as `owner/name[@revision]`."""
    auto_class = getattr(require("transformers", "eval"), kind)
    repo, at, revision = name.partition("@")
    if at and not os.path.isdir(name):
        options["revision"] = revision
    else:
        repo = name
    try:
        return auto_class.from_pretrained(repo, **options)
    except (OSError, ValueError, KeyError, ImportError) as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise EvaluationError(
            f"{name} cannot be loaded: {type(error).__name__}: {first}",
            expected="a folder or Hub repo of a causal LM that transformers knows",
        ) from error


def check_same_tokenizer(target: Any, drafter: Any) -> None:
    """Checks that an id is the same token for both.

    Raises:
        MismatchError: it is not.
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
    """The ids that end a text, by the generation config."""
    ids = getattr(model.generation_config, "eos_token_id", None)
    return frozenset(ids if isinstance(ids, list) else [] if ids is None else [ids])


class CachedModel:
    """A model and the keys and values of the ids that it has read.

    Every layer keeps all positions, those with a sliding window too, so that the cache can be
    cropped anywhere; masks hide what lies outside a window.
    """

    def __init__(self, model: Any) -> None:
        """Starts with an empty cache."""
        self.model = model
        self.cache = require("transformers", "eval").DynamicCache()
        parameters = inspect.signature(model.forward).parameters
        self._name = "cache" if "cache" in parameters else "past_key_values"  # newer, older ones

    def logits(self, ids: list[int], last: int) -> Tensor:
        """Reads the ids that are not in the cache; logits of the last positions, [last, V]."""
        logits: Tensor = self.model(**self._new(ids), logits_to_keep=last).logits
        return logits[0]

    def hidden(self, ids: list[int]) -> Tensor:
        """Reads the ids that are not in the cache; hidden state of the last position, [1, H]."""
        states: Tensor = self.model.base_model(**self._new(ids)).last_hidden_state
        return states[:, -1]

    def crop(self, length: int) -> None:
        """Removes all but the first ids from the cache."""
        known = int(self.cache.get_seq_length())
        if known > length:
            self.cache.crop(length - known)  # how many go, negative

    def _new(self, ids: list[int]) -> dict[str, Any]:
        known = int(self.cache.get_seq_length())
        new = torch.tensor([ids[known:]], device=self.model.device)
        return {"input_ids": new, self._name: self.cache, "use_cache": True}
