"""The real drafter in ../shared/smollm2-eagle, pruned, checked, and broken in a dozen ways.

The target is the folder in VOCABFREQ_SMOLLM2 (SmolLM2-135M-Instruct in safetensors, tied) when it
is set, else a head of random bits of the same shape, which is as hard to copy.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drafters import Raw, load, random_bits, save, write_folder

from vocabfreq.checkpoints.checks import check_drafter
from vocabfreq.checkpoints.pruning import prune_drafter
from vocabfreq.frequencies.draft_vocab import DraftVocab

V, H = 49_152, 576
DRAFTER = Path(__file__).parents[3] / "shared" / "smollm2-eagle"
SIZES = (8_192, 16_384)

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DRAFTER.is_dir(), reason=f"no folder {DRAFTER}"),
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("VOCABFREQ_SMOLLM2")
    if given:
        return Path(given)
    embedding = {"model.embed_tokens.weight": random_bits("BF16", V, H)}
    settings = {"vocab_size": V, "hidden_size": H, "tie_word_embeddings": True}
    return write_folder(tmp_path_factory.mktemp("target") / "t", embedding, settings)


def vocab(size: int) -> DraftVocab:
    """Ids as frequent ones lie: dense at the start, thin at the end, the last one among them."""
    chance = 1 / (1 + np.arange(V - 1))
    random = np.random.default_rng(size)
    ids = random.choice(V - 1, size - 1, replace=False, p=chance / chance.sum())
    return DraftVocab.from_ids([*ids.tolist(), V - 1], rows=V)


@pytest.fixture(scope="module", params=SIZES)
def pruned(request: pytest.FixtureRequest, target: Path, tmp_path_factory: Any) -> Path:
    """The drafter pruned to each size."""
    out: Path = tmp_path_factory.mktemp("pruned") / str(request.param)
    prune_drafter(DRAFTER, vocab(request.param), out, target)
    return out


def test_rows_are_bit_equal(pruned: Path, target: Path) -> None:
    source, new = load(target / "model.safetensors"), load(pruned / "model.safetensors")
    kept = vocab(int(pruned.name)).target_ids
    rows = np.frombuffer(source["model.embed_tokens.weight"].data, "<u2").reshape(V, H)
    head = np.frombuffer(new["lm_head.weight"].data, "<u2").reshape(len(kept), H)
    assert np.array_equal(head, rows[kept])
    assert np.array_equal(new["d2t"].numbers() + np.arange(len(kept)), kept)
    assert np.array_equal(np.flatnonzero(new["t2d"].numbers()), kept)
    old = load(DRAFTER / "model.safetensors")
    assert {name: new[name] for name in old} == old
    assert set(new) - set(old) == {"lm_head.weight", "d2t", "t2d"}


def test_the_config_is_kept(pruned: Path) -> None:
    before, after = (json.loads((f / "config.json").read_bytes()) for f in (DRAFTER, pruned))
    assert after == before | {"draft_vocab_size": int(pruned.name)}


def test_the_result_is_clean(pruned: Path, target: Path) -> None:
    assert check_drafter(pruned, target) == []


def test_the_drafter_itself_shares_the_head(target: Path) -> None:
    assert [one.code for one in check_drafter(DRAFTER, target)] == ["head-shared"]


def test_pruned_again_as_at_once(pruned: Path, target: Path, tmp_path: Path) -> None:
    fewer = DraftVocab.from_ids(vocab(int(pruned.name)).target_ids[::3], rows=V)
    prune_drafter(pruned, fewer, tmp_path / "two")
    prune_drafter(DRAFTER, fewer, tmp_path / "one", target)
    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert hashlib.sha256(one.read_bytes()).digest() == hashlib.sha256(two.read_bytes()).digest()


PEAK = """
import sys
from pathlib import Path
def peak():
    text = Path("/proc/self/status").read_text()
    return next(int(l.split()[1]) for l in text.splitlines() if l.startswith("VmHWM")) * 1024
from vocabfreq.checkpoints.pruning import prune_drafter
from vocabfreq.frequencies.draft_vocab import DraftVocab
before = peak()
prune_drafter(sys.argv[1], DraftVocab.load(sys.argv[2]), sys.argv[3], sys.argv[4])
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory needs /proc")
def test_memory_is_far_below_the_head(target: Path, tmp_path: Path) -> None:
    vocab(8_192).save(tmp_path / "vocab")
    arguments = [DRAFTER, tmp_path / "vocab", tmp_path / "out", target]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, arguments)], capture_output=True, check=True
    )
    assert int(done.stdout) < 0.35 * V * H * 2


def tensors(change: Callable[[dict[str, Raw]], dict[str, Raw | None]]) -> Callable[[Path], None]:
    """A break of tensors; None removes one."""

    def broken(folder: Path) -> None:
        path = folder / "model.safetensors"
        known = load(path)
        changed = {name: t for name, t in (known | change(known)).items() if t is not None}
        save(path, changed)

    return broken


def settings(**changes: Any) -> Callable[[Path], None]:
    """A break of config.json; None removes a key."""

    def broken(folder: Path) -> None:
        path = folder / "config.json"
        known = json.loads(path.read_bytes()) | changes
        path.write_text(json.dumps({k: v for k, v in known.items() if v is not None}))

    return broken


def numbers(tensor: Raw, values: Any) -> Raw:
    return tensor._replace(data=np.asarray(values, "<i8").tobytes())


def absolute(known: dict[str, Raw]) -> dict[str, Raw | None]:
    offsets = known["d2t"].numbers()
    return {"d2t": numbers(known["d2t"], offsets + np.arange(len(offsets)))}


def ids_changed(change: Callable[[Any], None]) -> Callable[[dict[str, Raw]], dict[str, Raw | None]]:
    """Changes the ids that d2t means."""

    def changed(known: dict[str, Raw]) -> dict[str, Raw | None]:
        offsets = known["d2t"].numbers()
        ids = offsets + np.arange(len(offsets))
        change(ids)
        return {"d2t": numbers(known["d2t"], ids - np.arange(len(ids)))}

    return changed


def repeat(ids: Any) -> None:
    ids[5] = ids[4]


def swap(ids: Any) -> None:
    ids[[4, 5]] = ids[[5, 4]]


def beyond(ids: Any) -> None:
    ids[-1] = V


def zeros(known: dict[str, Raw]) -> dict[str, Raw | None]:
    return {"d2t": numbers(known["d2t"], np.zeros(known["d2t"].shape))}


def flipped(known: dict[str, Raw]) -> dict[str, Raw | None]:
    mask = known["t2d"].numbers().copy()
    mask[[0, 1]] = ~mask[[0, 1]]
    return {"t2d": known["t2d"]._replace(data=mask.tobytes())}


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    os.truncate(path, path.stat().st_size // 2)


BREAKS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "no map": ("d2t-missing", tensors(lambda known: {"d2t": None})),
    "target ids for offsets": ("d2t-absolute", tensors(absolute)),
    "a map never loaded": ("d2t-zero", tensors(zeros)),
    "one id twice": ("d2t-repeated", tensors(ids_changed(repeat))),
    "ids out of order": ("d2t-unsorted", tensors(ids_changed(swap))),
    "an id beyond V": ("d2t-range", tensors(ids_changed(beyond))),
    "another mask": ("t2d-disagrees", tensors(flipped)),
    "no head": ("head-missing", tensors(lambda known: {"lm_head.weight": None})),
    "tied": ("tied", settings(tie_word_embeddings=True)),
    "another K": ("sizes", settings(draft_vocab_size=1_000)),
    "another width": ("sizes", settings(hidden_size=512)),
    "no K": ("size-missing", settings(draft_vocab_size=None)),
    "the target of another": ("target-width", settings(target_hidden_size=1_728)),
    "cut off": ("weights-broken", cut),
    "no config": ("config-broken", lambda folder: (folder / "config.json").unlink()),
    "a word left out": ("norm-missing", settings(norm_before_residual=None)),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_broken_copy_is_found(pruned: Path, target: Path, tmp_path: Path, name: str) -> None:
    code, damage = BREAKS[name]
    copy = tmp_path / "copy"
    shutil.copytree(pruned, copy)
    for path in copy.iterdir():
        path.chmod(0o644)
    damage(copy)
    assert code in [one.code for one in check_drafter(copy, target)]
