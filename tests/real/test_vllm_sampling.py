"""Sampled outputs of a real vLLM with a pruned drafter are distributed as vanilla's.

Runs where vllm is importable. The models are made here, of 64 ids. A fault of vLLM's CPU build is
mended first (`vllmhanded.mend`): with it, no drafter gives vanilla's distribution.
"""

from importlib.util import find_spec
from itertools import combinations
from typing import Any, NamedTuple

import pytest

from vocabfreq.frequencies.draft_vocab import DraftVocab

if find_spec("vllm") is not None:  # torch, which the helpers need, comes with it
    import torch
    from real import tinydrafters
    from real.vllmsampling import LENGTH, Sampled, sampled
    from rejection import same

V, D, HEAT, DRAWS = 64, 2, 0.8, 6_000
KEPT = list(range(1, V, 3))
PROBABLE, IMPOSSIBLE = 1e-3, 1e-9

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]


class Runs(NamedTuple):
    """At one temperature, if not said otherwise.

    Attributes:
        vanilla: without a drafter.
        hot: the same at temperature 1.
        greedy: the pruned drafter says its most likely id, as vLLM does by default.
        probabilistic: the pruned drafter draws.
        peak: it does not, but hands over what it should have drawn from.
        flat: it draws, but hands over other distributions.
    """

    vanilla: "Sampled"
    hot: "Sampled"
    greedy: "Sampled"
    probabilistic: "Sampled"
    peak: "Sampled"
    flat: "Sampled"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("sampling")
    target = tinydrafters.write_llama(folder / "target", V)
    drafter = tinydrafters.write_eagle1(folder / "drafter", target)
    DraftVocab.from_ids(KEPT, rows=V).save(folder / "kept.safetensors")
    drafting = {"method": "eagle", "model": str(drafter), "num_speculative_tokens": D}
    pruned: dict[str, Any] = {
        "model": str(target),
        "additional_config": {"vocabfreq": {"vocab": str(folder / "kept.safetensors")}},
    }
    warm = {"draws": DRAWS, "heat": HEAT, "kept": KEPT}
    vanilla = sampled(folder / "vanilla", [warm, warm | {"heat": 1.0}], model=str(target))
    greedy = sampled(folder / "greedy", [warm], **pruned, speculative_config=drafting)
    drawing = drafting | {"draft_sample_method": "probabilistic"}
    faults = [warm | {"fault": fault} for fault in ("", "peak", "flat")]
    drawn = sampled(folder / "drawn", faults, **pruned, speculative_config=drawing)
    return Runs(*vanilla, *greedy, *drawn)


@pytest.mark.parametrize("name", ["greedy", "probabilistic"])
def test_outputs_are_distributed_as_vanillas(runs: Runs, name: str) -> None:
    values = p_values(runs.vanilla, getattr(runs, name))
    assert min(values) * len(values) > PROBABLE, values


@pytest.mark.parametrize("name", ["hot", "peak", "flat"])
def test_another_distribution_would_be_found(runs: Runs, name: str) -> None:
    assert min(p_values(runs.vanilla, getattr(runs, name))) < IMPOSSIBLE


def test_greedy_requests_in_the_same_batches_are_vanillas(runs: Runs) -> None:
    assert runs.greedy.greedy == runs.probabilistic.greedy == runs.vanilla.greedy
    assert len({tuple(ids) for ids in runs.vanilla.greedy}) > 1


def test_drafts_are_drawn_from_kept_ids_and_some_are_accepted(runs: Runs) -> None:
    seen = runs.probabilistic
    assert 0.1 < seen.accepted / seen.drafted < 0.9
    assert seen.handed > DRAWS * D and seen.shape[1:] == [D, V]
    assert seen.outside == 0 and max(abs(one - 1) for one in seen.sums) < 1e-5
    found, wanted = seen.peaks
    assert abs(found - wanted) < 4 * wanted**0.5 and wanted < seen.handed * 0.8
    assert runs.vanilla.drafted == 0


def test_ids_alone_are_used_only_where_drafting_is_greedy(runs: Runs) -> None:
    assert runs.probabilistic.ids_only == 0
    assert runs.greedy.ids_only > 0 and runs.greedy.handed == 0
    assert 0.05 < runs.greedy.accepted / runs.greedy.drafted < 0.9


def p_values(one: "Sampled", other: "Sampled") -> list[float]:
    """Of each position's ids, of each pair's, and of all that were sampled after each other."""
    places = range(LENGTH)
    sets = [(place,) for place in places] + list(combinations(places, 2)) + [tuple(range(3))]
    return [same(cells(one, chosen), cells(other, chosen)) for chosen in sets]


def cells(run: "Sampled", places: tuple[int, ...]) -> "torch.Tensor":
    """Counts [V ** len(places)]."""
    ids = torch.tensor(run.outputs)[:, list(places)]
    weights = torch.tensor([V**power for power in range(len(places))])
    return torch.bincount((ids * weights).sum(1), minlength=V ** len(places))
