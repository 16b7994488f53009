"""Pruning a drafter: right rows, right maps, nothing else changed, nothing left behind."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import run
from drafters import (
    H,
    Raw,
    V,
    body,
    config,
    integers,
    load,
    mask,
    pruned_tensors,
    random_bits,
    save,
    write_folder,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import report

from vocabfreq.checkpoints.folder import open_checkpoint
from vocabfreq.checkpoints.head import read_drafter_head
from vocabfreq.checkpoints.pruning import prune_drafter
from vocabfreq.checkpoints.tensors import MemoryBytes, Tensor
from vocabfreq.errors import (
    FileFormatError,
    MismatchError,
    OverwriteError,
    RefusedError,
    SelectionError,
    VocabfreqError,
)
from vocabfreq.formats import Counts, write
from vocabfreq.frequencies.draft_vocab import DraftVocab

IDS = [7, 2, 5, 11]
KEPT = [2, 5, 7, 11]


def vocab(ids: list[int] = IDS, rows: int = V, **known: Any) -> DraftVocab:
    return DraftVocab.from_ids(ids, rows=rows, **known)


def headed(**more: Raw) -> dict[str, Raw]:
    return {**body(), "lm_head.weight": random_bits("BF16", V, H, seed=5), **more}


def output(folder: Path) -> tuple[dict[str, Raw], dict[str, Any]]:
    settings = json.loads((folder / "config.json").read_bytes())
    return load(folder / "model.safetensors"), settings


def assert_pruned(out: Path, source: Raw, kept: list[int] = KEPT, rows: int = V) -> None:
    """The new head has the rows of the source, and the maps decode to the kept ids."""
    tensors, settings = output(out)
    head = tensors["lm_head.weight"]
    assert head.shape == (len(kept), source.shape[1])
    assert [head.row(j) for j in range(len(kept))] == [source.row(i) for i in kept]
    assert (tensors["d2t"].numbers() + np.arange(len(kept))).tolist() == kept
    assert np.flatnonzero(tensors["t2d"].numbers()).tolist() == kept
    assert tensors["t2d"].shape == (rows,)
    assert (settings["vocab_size"], settings["draft_vocab_size"]) == (rows, len(kept))
    assert settings["tie_word_embeddings"] is False


def hashes(folder: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


@pytest.mark.parametrize("shards", [1, 3])
def test_a_head_of_its_own(tmp_path: Path, shards: int) -> None:
    tensors = headed()
    drafter = write_folder(tmp_path / "d", tensors, config(odd={"kept": [1]}), shards=shards)
    (drafter / "generation_config.json").write_text('{"a": 1}')
    pruned = prune_drafter(drafter, vocab(), tmp_path / "out")
    assert_pruned(tmp_path / "out", tensors["lm_head.weight"])
    new, settings = output(tmp_path / "out")
    for name, tensor in body().items():
        assert (new[name].shape, new[name].data) == (tensor.shape, tensor.data)
    assert settings == config(odd={"kept": [1]}) | {"draft_vocab_size": 4}
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
    }
    assert repr(pruned).endswith("4 of 12 rows of the drafter's lm_head.weight)")
    assert (pruned.kind, pruned.remarks) == ("folder", ())


def test_the_same_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    for name in ("a", "b"):
        prune_drafter(drafter, vocab(), tmp_path / name)
    assert hashes(tmp_path / "a") == hashes(tmp_path / "b")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lm_head.weight", {"tie_word_embeddings": False}),
        ("language_model.lm_head.weight", {}),
        ("model.embed_tokens.weight", {"tie_word_embeddings": True}),
        ("model.language_model.embed_tokens.weight", {}),
    ],
)
def test_the_head_of_the_target(tmp_path: Path, name: str, settings: dict[str, Any]) -> None:
    head = random_bits("BF16", V, H, seed=6)
    others = {"model.norm.weight": random_bits("BF16", H), name: head}
    target = write_folder(tmp_path / "t", others, {"vocab_size": V, **settings}, shards=2)
    drafter = write_folder(tmp_path / "d", body(), config())
    prune_drafter(drafter, vocab(), tmp_path / "out", target)
    assert_pruned(tmp_path / "out", head)


def test_other_heads_and_embeddings_in_the_target(tmp_path: Path) -> None:
    head, own = random_bits("BF16", V, H, seed=6), random_bits("BF16", V, H, seed=7)
    others = {
        "model.embed_tokens.weight": head,
        "model.layers.61.embed_tokens.weight": own,
        "vision.lm_heads.weight": own,
    }
    target = write_folder(tmp_path / "t", others, {})
    drafter = write_folder(tmp_path / "d", body(), config())
    prune_drafter(drafter, vocab(), tmp_path / "out", target)
    assert_pruned(tmp_path / "out", head)
    talking = {"lm_head.weight": head, "talker.lm_head.weight": own, "talker.lm_head.bias": own}
    two = write_folder(tmp_path / "two", {**body(), **talking}, config())
    prune_drafter(two, vocab(), tmp_path / "out2")
    assert_pruned(tmp_path / "out2", head)
    assert output(tmp_path / "out2")[0]["talker.lm_head.weight"].data == own.data
    unclear = {f"{name}.embed_tokens.weight": own for name in "ab"}
    target = write_folder(tmp_path / "u", unclear, {})
    with pytest.raises(FileFormatError, match="2 tensors end in 'embed_tokens.weight': a.embed"):
        prune_drafter(drafter, vocab(), tmp_path / "out3", target)


def test_shards_of_the_target_without_its_head_are_not_needed(tmp_path: Path) -> None:
    head = random_bits("BF16", V, H, seed=6)
    tensors = {"lm_head.weight": head, "model.norm.weight": random_bits("BF16", H)}
    target = write_folder(tmp_path / "t", tensors, {}, shards=2)
    (target / "model-00002-of-00002.safetensors").unlink()
    drafter = write_folder(tmp_path / "d", body(), config())
    prune_drafter(drafter, vocab(), tmp_path / "out", target)
    assert_pruned(tmp_path / "out", head)


def test_R1_a_tied_target_stays_bit_identical(tmp_path: Path) -> None:
    embedding = random_bits("BF16", V, H, seed=6)
    target = write_folder(tmp_path / "t", {"model.embed_tokens.weight": embedding}, {})
    own = {**body(), "embed_tokens.weight": embedding}
    drafter = write_folder(tmp_path / "d", own, config(tie_word_embeddings=True))
    before = hashes(target), hashes(drafter)
    prune_drafter(drafter, vocab(), tmp_path / "out", target)
    assert_pruned(tmp_path / "out", embedding)
    assert output(tmp_path / "out")[0]["embed_tokens.weight"].data == embedding.data
    with (tmp_path / "out/model.safetensors").open("r+b") as file:
        file.write(bytes(os.path.getsize(tmp_path / "out/model.safetensors")))
    assert (hashes(target), hashes(drafter)) == before


def test_R2_a_weight_saved_transposed_or_sliced(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    weights = {
        "transposed": torch.arange(V * H, dtype=torch.bfloat16).reshape(H, V).t(),
        "sliced": torch.arange(V * H * 6, dtype=torch.bfloat16).reshape(2 * V, 3 * H)[::2, 1::3],
    }
    for name, weight in weights.items():
        drafter = write_folder(tmp_path / name, {}, config())
        (drafter / "model.safetensors").unlink()
        torch.save({"lm_head.weight": weight}, drafter / "pytorch_model.bin")
        prune_drafter(drafter, vocab(), tmp_path / f"{name}-out")
        right = weight[KEPT].contiguous().view(torch.uint8).numpy().tobytes()
        assert output(tmp_path / f"{name}-out")[0]["lm_head.weight"].data == right


@pytest.mark.parametrize("old_format", [False, True])
def test_a_torch_file(tmp_path: Path, old_format: bool) -> None:
    torch = pytest.importorskip("torch")
    drafter = write_folder(tmp_path / "d", {}, config(architectures=["LlamaForCausalLM"]))
    (drafter / "model.safetensors").unlink()
    head = torch.randn(6, H).to(torch.bfloat16)
    old = torch.tensor([1, 2, 5, 6, 7, 11])
    state = {
        "lm_head.weight": head,
        "d2t": old - torch.arange(6),
        "t2d": torch.zeros(V, dtype=torch.bool).index_fill(0, old, True),
        "fc.weight": torch.ones(H, 3 * H),
        "a.scalar": torch.tensor(2.5, dtype=torch.float64),
    }
    file = drafter / "pytorch_model.bin"
    torch.save(state, file, _use_new_zipfile_serialization=not old_format)
    prune_drafter(drafter, vocab(), tmp_path / "out")
    new, _ = output(tmp_path / "out")
    right = head[[1, 2, 4, 5]].view(torch.uint8).numpy().tobytes()
    assert new["lm_head.weight"].data == right
    assert new["a.scalar"] == ("F64", (), np.float64(2.5).tobytes())
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"config.json", "model.safetensors"}


class Touch:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


def test_a_torch_file_is_never_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    drafter = write_folder(tmp_path / "d", {}, config())
    (drafter / "model.safetensors").unlink()
    torch.save({"x": Touch(tmp_path / "pwned")}, drafter / "pytorch_model.bin")
    with pytest.raises(FileFormatError, match="weights_only=True"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    assert not (tmp_path / "pwned").exists()


def test_R8_a_pruned_drafter_is_pruned_through_its_own_map(tmp_path: Path) -> None:
    old = [1, 2, 5, 6, 7, 11]
    tensors = pruned_tensors(old)
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=6))
    prune_drafter(drafter, vocab(), tmp_path / "out")
    head, new = tensors["lm_head.weight"], output(tmp_path / "out")[0]
    rows = [new["lm_head.weight"].row(j) for j in range(4)]
    assert rows == [head.row(old.index(i)) for i in KEPT]
    assert (new["d2t"].numbers() + np.arange(4)).tolist() == KEPT
    # And in two steps as in one.
    prune_drafter(tmp_path / "out", vocab([2, 11]), tmp_path / "two")
    prune_drafter(drafter, vocab([2, 11]), tmp_path / "one")
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")


def test_R8_a_map_in_rank_order(tmp_path: Path) -> None:
    old = [11, 7, 2, 5, 0]
    tensors = pruned_tensors(old)
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=5))
    prune_drafter(drafter, vocab(), tmp_path / "out")
    new = output(tmp_path / "out")[0]["lm_head.weight"]
    rows = [tensors["lm_head.weight"].row(old.index(i)) for i in KEPT]
    assert [new.row(j) for j in range(4)] == rows


@settings(deadline=None)
@given(st.data())
def test_R8_the_row_of_every_id(data: st.DataObject) -> None:
    old = data.draw(st.lists(st.integers(0, 29), min_size=1, unique=True))
    kept = data.draw(st.lists(st.sampled_from(old), min_size=1, unique=True))
    d2t = integers(np.array(old) - np.arange(len(old)))
    stored = {
        name: Tensor(name, dtype, shape, len(bits), MemoryBytes(memoryview(bits)))
        for name, (dtype, shape, bits) in {
            "d2t": d2t,
            "lm_head.weight": random_bits("BF16", len(old), 2),
        }.items()
    }
    if len(old) < 30 and not any(d2t.numbers()):
        return  # what a map looks like that was never loaded
    head = read_drafter_head(stored, rows=30)
    assert head is not None
    assert [old[place] for place in head.row_indices(vocab(kept, rows=30))] == sorted(kept)


def test_R8_ids_that_the_old_map_dropped_are_refused(tmp_path: Path) -> None:
    tensors = pruned_tensors([1, 2, 5, 6])
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=4))
    with pytest.raises(SelectionError, match=r"2 of 4 ids, the first 7, .* among the 4 that"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_M9_a_map_that_was_never_loaded_is_refused(tmp_path: Path) -> None:
    tensors = pruned_tensors([0, 1, 2])
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=3))
    with pytest.raises(FileFormatError, match="all 3 offsets are 0"):
        prune_drafter(drafter, vocab([0, 1]), tmp_path / "out")


@pytest.mark.parametrize("shape", [(V,), (V, 1)])
def test_R9_bias_and_row_scales_go_with_the_rows(tmp_path: Path, shape: tuple[int, ...]) -> None:
    scale = random_bits("F32", *shape, seed=7)
    bias = random_bits("BF16", V, seed=8)
    one = random_bits("F32", 1)
    tensors = {
        **body(),
        "lm_head.weight": random_bits("F8_E4M3", V, H),
        "lm_head.bias": bias,
        "lm_head.weight_scale": scale,
        "lm_head.input_scale": one,
    }
    drafter = write_folder(tmp_path / "d", tensors, config())
    prune_drafter(drafter, vocab(), tmp_path / "out")
    assert_pruned(tmp_path / "out", tensors["lm_head.weight"])
    new, _ = output(tmp_path / "out")
    assert new["lm_head.weight_scale"].shape == (4, *shape[1:])
    assert new["lm_head.weight_scale"].data == b"".join(map(scale.row, KEPT))
    assert new["lm_head.bias"].data == b"".join(map(bias.row, KEPT))
    assert new["lm_head.input_scale"].data == one.data


BLOCKS = {
    "lm_head.weight_scale_inv": random_bits("F32", 1, 1),
    "lm_head.weight_scale": random_bits("F32", V, 2),
    "lm_head.qweight": random_bits("U8", V, 2),
    "lm_head.qzeros": random_bits("U8", 1, 2),
    "lm_head.weight_packed": random_bits("U8", V, 2),
    "lm_head.weight.absmax": random_bits("F32", 3),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_R9_a_block_wise_head_is_refused_by_name(tmp_path: Path, name: str) -> None:
    drafter = write_folder(tmp_path / "d", headed(**{name: BLOCKS[name]}), config())
    with pytest.raises(FileFormatError, match=f"in blocks or packed: {name} "):
        prune_drafter(drafter, vocab(), tmp_path / "out")


@pytest.mark.parametrize("name", ["lm_head.qweight", "lm_head.weight_packed"])
def test_R9_a_packed_head_without_a_weight_is_refused_by_name(tmp_path: Path, name: str) -> None:
    drafter = write_folder(tmp_path / "d", {**body(), name: BLOCKS[name]}, config())
    with pytest.raises(FileFormatError, match=f"no lm_head.weight, but {name}"):
        prune_drafter(drafter, vocab(), tmp_path / "out")


def test_M13_every_id_needs_no_map(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    prune_drafter(drafter, vocab(list(range(V))), tmp_path / "out")
    new, settings = output(tmp_path / "out")
    assert new["lm_head.weight"].data == headed()["lm_head.weight"].data
    assert settings["draft_vocab_size"] == V
    assert not {"d2t", "t2d"} & set(new)  # vLLM refuses them where K = V


def test_M7_padded_rows_are_accepted(tmp_path: Path) -> None:
    head = random_bits("BF16", 12, H)
    drafter = write_folder(tmp_path / "d", {"lm_head.weight": head}, config(vocab_size=8))
    pruned = prune_drafter(drafter, vocab([5, 0, 3], rows=8), tmp_path / "out")
    assert_pruned(tmp_path / "out", head, [0, 3, 5], rows=8)
    assert pruned.vocab.rows == 8


@pytest.mark.parametrize("names", [["LlamaForCausalLMEagle3"], ["EagleLlamaForCausalLM"]])
def test_another_number_of_rows_is_refused(tmp_path: Path, names: list[str]) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config(architectures=names))
    for rows in (6, 13):
        message = rf"V = {rows}, .*config\.json says vocab_size 12"
        with pytest.raises(RefusedError, match=message):
            prune_drafter(drafter, vocab([5, 0, 3], rows=rows), tmp_path / "out")
    target = write_folder(tmp_path / "t", headed(), {"vocab_size": 13})
    with pytest.raises(RefusedError, match=r"V = 12, .*t/config\.json says vocab_size 13"):
        prune_drafter(drafter, vocab(), tmp_path / "out", target)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ["npy", "draft-vocab", "nemo", "mapping"])
def test_another_number_of_rows_in_any_container(tmp_path: Path, form: Any) -> None:
    if form in ("nemo", "mapping"):
        pytest.importorskip("torch")
    write_folder(tmp_path / "d", headed(), config())
    write(vocab([5, 0, 3], rows=6), tmp_path / "ids", form)
    done = run("prune", "d", "ids", "-o", "out", "--kind", form, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert "V = 6" in done.stderr and "config.json says vocab_size 12" in done.stderr
    assert "--rows" not in done.stderr


def test_ids_beyond_the_rows_are_refused(tmp_path: Path) -> None:
    head = random_bits("BF16", 8, H)
    drafter = write_folder(tmp_path / "d", {"lm_head.weight": head}, config())
    with pytest.raises(FileFormatError, match="fewer rows than V = 12, and no d2t"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    bare = write_folder(tmp_path / "bare", body(), config())
    target = write_folder(tmp_path / "t", {"lm_head.weight": head}, {})
    with pytest.raises(SelectionError, match="1 of 4 ids, the first 11, have no row"):
        prune_drafter(bare, vocab(), tmp_path / "out", target)


def test_a_pruned_head_without_its_map_is_refused(tmp_path: Path) -> None:
    tensors = pruned_tensors(list(range(1, 12)))
    del tensors["d2t"]
    for name, changed in (("a", config(draft_vocab_size=11)), ("b", config(vocab_size=None))):
        drafter = write_folder(tmp_path / name, tensors, changed)
        with pytest.raises(FileFormatError, match="no d2t(.|\n)*before it was pruned"):
            prune_drafter(drafter, vocab([2, 5]), tmp_path / "out")
    whole = headed(t2d=mask([2, 5]))
    with pytest.raises(FileFormatError, match="without a d2t"):
        prune_drafter(write_folder(tmp_path / "c", whole, config()), vocab(), tmp_path / "out")
    assert not (tmp_path / "out").exists()


ODD_MAPS: list[tuple[dict[str, Raw], str]] = [
    ({"t2d": mask([2, 5, 8, 11])}, "id 7 is in d2t and not in t2d"),
    ({"d2t": integers(KEPT)}, "id 14 at position 3"),
    ({"d2t": integers([0, 1, 2, 4]), "t2d": mask([0, 1, 2, 4])}, "is in t2d and not in d2t"),
    ({"t2d": mask(KEPT, 13)}, r"t2d BOOL \[13\]; expected BOOL \[12\]"),
    ({"t2d": integers([1] * 12)}, r"t2d I64 \[12\]; expected BOOL"),
    ({"t2d": Raw("BOOL", (), b"\1")}, r"t2d BOOL \[\]; expected BOOL"),
    ({"t2d": Raw("BOOL", (3, 4), b"\1" * 12)}, r"t2d BOOL \[3, 4\]; expected BOOL"),
    ({"d2t": integers(5)}, r"d2t I64 \[\]; expected whole numbers \[K\]"),
    ({"d2t": integers([])}, r"d2t I64 \[0\]; expected whole numbers"),
    ({"d2t": integers([[2, 4], [5, 8]])}, r"d2t I64 \[2, 2\]; expected whole numbers"),
    ({"d2t": random_bits("F32", 4)}, r"d2t F32 \[4\]; expected whole numbers"),
    ({"lm_head.weight": random_bits("U8", 4, H)}, "a packed head: lm_head.weight U8"),
]


@pytest.mark.parametrize("settings", [{}, {"vocab_size": None}])
@pytest.mark.parametrize(("changes", "message"), ODD_MAPS)
def test_an_inconsistent_map_is_refused(
    tmp_path: Path, changes: dict[str, Raw], message: str, settings: dict[str, Any]
) -> None:
    tensors = pruned_tensors(KEPT) | changes
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=4, **settings))
    with pytest.raises(FileFormatError, match=message):
        prune_drafter(drafter, vocab([2, 5]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draft_vocab_size": 5}, "draft_vocab_size 5, the head is"),
        ({"draft_vocab_size": V}, "draft_vocab_size 12, the head is"),
        ({"draft_vocab_size": "4"}, "draft_vocab_size '4'; expected a whole number from 1 to"),
        ({"vocab_size": 10**13}, "vocab_size 10000000000000; expected a whole number from 1 to"),
    ],
)
def test_a_size_that_the_head_does_not_have_is_refused(
    tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    drafter = write_folder(tmp_path / "d", pruned_tensors(KEPT), config(**settings))
    with pytest.raises(FileFormatError, match=message):
        prune_drafter(drafter, vocab([2, 5]), tmp_path / "out")


def test_an_ambiguous_map_is_read_as_offsets_with_a_remark(tmp_path: Path) -> None:
    tensors = pruned_tensors([0, 2, 7])
    drafter = write_folder(tmp_path / "d", tensors, config(draft_vocab_size=3))
    assert prune_drafter(drafter, vocab([2, 7]), tmp_path / "one").remarks == ()
    del tensors["t2d"]
    bare = write_folder(tmp_path / "bare", tensors, config(draft_vocab_size=3))
    remarks = prune_drafter(bare, vocab([2, 7]), tmp_path / "two").remarks
    assert len(remarks) == 1 and remarks[0].startswith("d2t was taken for offsets")
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")


def test_the_command_line_with_another_v_or_tokenizer(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config(vocab_size=None))
    (tmp_path / "ids.json").write_text(json.dumps(IDS))
    done = run("prune", "d", "ids.json", "-o", "out", cwd=tmp_path)
    assert done.returncode == 1
    assert "no vocab_size in d/config.json" in done.stderr and "--rows" not in done.stderr
    (tmp_path / "broken.json").write_text("[1,")
    broken = run("prune", "d", "broken.json", "-o", "out", cwd=tmp_path)
    assert broken.returncode == 1 and "vocab_size" not in broken.stderr
    (drafter / "tokenizer.json").write_bytes(b"other")
    vocab(tokenizer="0" * 64).save(tmp_path / "ids.safetensors")
    refused = run("prune", "d", "ids.safetensors", "-o", "out", cwd=tmp_path)
    assert refused.returncode == 4 and "--allow-other-tokenizer" in refused.stderr
    arguments = ["prune", "d", "ids.safetensors", "-o", "out", "--allow-other-tokenizer"]
    allowed = run(*arguments, cwd=tmp_path)
    assert allowed.returncode == 0, allowed.stderr
    assert "note: the tokenizer.json of 'd' has sha256" in allowed.stderr
    assert_pruned(tmp_path / "out", headed()["lm_head.weight"])


def test_a_nested_draft_size_is_set_too(tmp_path: Path) -> None:
    nested = {"vocab_size": V, "hidden_size": H, "draft_vocab_size": 9}
    settings = config(draft_vocab_size=V, text_config=nested)
    drafter = write_folder(tmp_path / "d", headed(), settings)
    prune_drafter(drafter, vocab(), tmp_path / "out")
    new = output(tmp_path / "out")[1]
    assert (new["draft_vocab_size"], new["text_config"]["draft_vocab_size"]) == (4, 4)


@pytest.mark.parametrize("where", ["drafter", "target"])
def test_M12_another_tokenizer_is_refused(tmp_path: Path, where: str) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    target = write_folder(tmp_path / "t", headed(), {})
    one, other = (hashlib.sha256(data).hexdigest() for data in (b"one", b"other"))
    (drafter / "tokenizer.json").write_bytes(b"one" if where == "target" else b"other")
    (target / "tokenizer.json").write_bytes(b"one" if where == "drafter" else b"other")
    with pytest.raises(MismatchError, match=f"{other}; expected {one}"):
        prune_drafter(drafter, vocab(tokenizer=one), tmp_path / "out", target)
    pruned = prune_drafter(
        drafter, vocab(tokenizer=one), tmp_path / "other", target, allow_other_tokenizer=True
    )
    assert pruned.remarks[0].endswith(
        f"{other}, {one} counted: see that the same tokens have the same ids"
    )
    prune_drafter(drafter, vocab(), tmp_path / "out", target)  # what is not known passes


def test_a_table_selects(tok: Path, lines: Any, tmp_path: Path) -> None:
    table = report(tok, str(lines({"text": "abc hello the the"}))).table
    head = random_bits("BF16", table.rows, H)
    settings = config(vocab_size=table.rows)
    drafter = write_folder(tmp_path / "d", {"lm_head.weight": head}, settings)
    pruned = prune_drafter(drafter, table, tmp_path / "out", size=3, pins="none")
    kept = table.select(3, pins="none").target_ids.tolist()
    assert_pruned(tmp_path / "out", head, kept, table.rows)
    with pytest.raises(SelectionError, match="size given with a vocabulary of 3 ids"):
        prune_drafter(drafter, pruned.vocab, tmp_path / "again", size=2)


def test_a_speculators_folder(tmp_path: Path) -> None:
    settings = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": V,
        "transformer_layer_config": {"vocab_size": V, "hidden_size": H, "rope": 1},
    }
    drafter = write_folder(tmp_path / "d", headed(), settings)
    pruned = prune_drafter(drafter, vocab(), tmp_path / "out")
    new = json.loads((tmp_path / "out/config.json").read_bytes())
    assert new == settings | {"draft_vocab_size": 4, "tie_word_embeddings": False}
    assert "norm_before_residual" in pruned.remarks[0]


SHARED = [
    {"architectures": ["EagleLlamaForCausalLM"]},
    {"architectures": ["LlamaForCausalLMEagle"]},
    {"architectures": ["DeepSeekMTPModel"]},
    {"architectures": ["DeepseekV3ForCausalLM"], "num_nextn_predict_layers": 1},
    {"architectures": ["LlamaForCausalLM"]},  # detected by its tensors
]


@pytest.mark.parametrize("settings", SHARED)
def test_a_drafter_that_shares_the_head_gets_a_token_map(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    tensors = {"fc.weight": random_bits("BF16", H, 2 * H)}
    drafter = write_folder(tmp_path / "d", tensors, config(**settings))
    pruned = prune_drafter(drafter, vocab(), tmp_path / "out")
    assert (pruned.kind, pruned.path) == ("token-map", tmp_path / "out/freq_4.pt")
    assert any("--speculative-token-map" in remark for remark in pruned.remarks)
    assert any("vLLM" in remark and "plugin" in remark for remark in pruned.remarks)
    prune_drafter(drafter, vocab(), tmp_path / "map.pt")
    assert (tmp_path / "map.pt").read_bytes() == pruned.path.read_bytes()
    torch = pytest.importorskip("torch")
    assert torch.load(pruned.path, weights_only=True) == IDS


def test_a_folder_that_is_no_drafter_is_refused(tmp_path: Path) -> None:
    whole = write_folder(tmp_path / "d", {}, config(architectures=["LlamaForCausalLM"]))
    with pytest.raises(FileFormatError, match="is no drafter that is known here"):
        prune_drafter(whole, vocab(), tmp_path / "out")
    with pytest.raises(FileFormatError, match="is no folder"):
        prune_drafter(tmp_path / "none", vocab(), tmp_path / "out")


def test_without_a_head_a_target_is_needed(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", body(), config())
    with pytest.raises(FileFormatError, match="no head of its own(.|\n)*--target"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    untied = {"model.embed_tokens.weight": random_bits("BF16", V, H)}
    target = write_folder(tmp_path / "t", untied, {"tie_word_embeddings": False})
    with pytest.raises(FileFormatError, match="its embedding is not tied"):
        prune_drafter(drafter, vocab(), tmp_path / "out", target)
    wide = {"lm_head.weight": random_bits("BF16", V, 2 * H)}
    other = write_folder(tmp_path / "w", wide, {})
    with pytest.raises(FileFormatError, match=r"rows of 8; expected 4, the hidden_size"):
        prune_drafter(drafter, vocab(), tmp_path / "out", other)


def test_an_existing_output_is_kept(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    (tmp_path / "empty").mkdir()
    prune_drafter(drafter, vocab(), tmp_path / "empty")
    prune_drafter(drafter, vocab(), tmp_path / "out")
    before = hashes(tmp_path / "out")
    with pytest.raises(OverwriteError, match="is in the way"):
        prune_drafter(drafter, vocab([1]), tmp_path / "out")
    assert hashes(tmp_path / "out") == before
    prune_drafter(drafter, vocab([1]), tmp_path / "out", force=True)
    assert_pruned(tmp_path / "out", headed()["lm_head.weight"], [1])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/mine.txt").write_text("mine")
    with pytest.raises(OverwriteError, match="no folder that prune wrote"):
        prune_drafter(drafter, vocab(), tmp_path / "notes", force=True)
    for out in (drafter, tmp_path):
        with pytest.raises(OverwriteError, match="is or holds"):
            prune_drafter(drafter, vocab(), out, force=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "empty", "notes", "out"]


def _with_folder(path: Path) -> None:
    (path / "checkpoint-1").mkdir(parents=True)


def _with_file(name: str) -> Callable[[Path], None]:
    def made(path: Path) -> None:
        path.mkdir(exist_ok=True)
        (path / name).write_text("{}")

    return made


@pytest.mark.parametrize(
    "damage",
    [
        _with_folder,
        _with_file("config.json"),  # without draft_vocab_size
        lambda path: path.joinpath("model.safetensors").unlink(),
        lambda path: path.joinpath("link").symlink_to(path / "config.json"),
    ],
)
def test_force_replaces_only_what_prune_writes(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    prune_drafter(drafter, vocab(), tmp_path / "out")
    damage(tmp_path / "out")
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    with pytest.raises(OverwriteError, match="no folder that prune wrote"):
        prune_drafter(drafter, vocab([1]), tmp_path / "out", force=True)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


@pytest.mark.parametrize("name", ["thesis", "thesis.pt"])
def test_force_puts_no_folder_over_a_file(tmp_path: Path, name: str) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    (tmp_path / name).write_text("mine")
    with pytest.raises(OverwriteError, match="is a file; expected a folder"):
        prune_drafter(drafter, vocab(), tmp_path / name, force=True)
    assert (tmp_path / name).read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", name]


def test_a_token_map_replaces_only_token_maps(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", {}, config(architectures=["EagleLlamaForCausalLM"]))
    prune_drafter(drafter, vocab(), tmp_path / "maps")
    prune_drafter(drafter, vocab([1, 2]), tmp_path / "maps", force=True)
    assert [path.name for path in (tmp_path / "maps").iterdir()] == ["freq_2.pt"]
    (tmp_path / "maps/notes.txt").write_text("mine")
    with pytest.raises(OverwriteError, match="no folder that prune wrote"):
        prune_drafter(drafter, vocab(), tmp_path / "maps", force=True)
    (tmp_path / "notes.pt").write_text("mine")
    with pytest.raises(OverwriteError, match="in the way"):
        prune_drafter(drafter, vocab(), tmp_path / "notes.pt")
    assert (tmp_path / "notes.pt").read_text() == "mine"
    with pytest.raises(FileFormatError, match="freq_5.pt: its name says 5 ids, it holds 4"):
        prune_drafter(drafter, vocab(), tmp_path / "freq_5.pt")
    assert not (tmp_path / "freq_5.pt").exists()


def _other_map(path: Path) -> None:
    save(path, load(path) | {"d2t": integers([2, 4, 5, 7]), "t2d": mask([2, 5, 7, 10])})


def _last_row(path: Path) -> None:
    tensors = load(path)
    head = tensors["lm_head.weight"]
    save(path, tensors | {"lm_head.weight": head._replace(data=head.data[:-1] + b"\x7f")})


@pytest.mark.parametrize("damage", [_other_map, _last_row])
def test_a_damaged_output_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())

    def damaged(folder: Path) -> Any:
        damage(folder / "model.safetensors")
        return open_checkpoint(folder)

    monkeypatch.setattr("vocabfreq.checkpoints.writing.open_checkpoint", damaged)
    with pytest.raises(FileFormatError, match="not what was to be written"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_the_command_line(tmp_path: Path) -> None:
    head = random_bits("BF16", V, H)
    target = write_folder(tmp_path / "t", {"model.embed_tokens.weight": head}, {})
    drafter = write_folder(tmp_path / "d", body(), config(norm_before_residual=None))
    (tmp_path / "ids.json").write_text(json.dumps(IDS))
    arguments = ["prune", "d", "ids.json", "--target", "t", "-o", "out"]
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Kept 4 of 12 ids" in done.stdout
    assert "Next: vocabfreq check out --target t" in done.stdout
    assert done.stderr.startswith("note: config.json does not set norm_before_residual")
    assert_pruned(tmp_path / "out", head)
    again = run(*arguments, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (4, "")
    forced = run(*arguments, "--force", "--json", cwd=tmp_path)
    result = json.loads(forced.stdout)
    assert (result["size"], result["rows"], result["kind"]) == (4, 12, "folder")
    assert result["head_bytes"] == {"before": V * H * 2, "after": 4 * H * 2}
    assert target.exists() and drafter.exists()


def test_counts_of_another_tool_rank_and_know_no_pins(tmp_path: Path) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())
    counts = Counts.from_mapping({7: 5, 2: 9, 11: 1}, rows=V)
    prune_drafter(drafter, counts, tmp_path / "out", size=2, pins="none")
    assert_pruned(tmp_path / "out", headed()["lm_head.weight"], [2, 7])
    selections: list[dict[str, Any]] = [{}, {"pins": "default"}]
    for selection in selections:
        with pytest.raises(SelectionError, match="which ids are special; expected --pins none"):
            prune_drafter(drafter, counts, tmp_path / "again", size=2, **selection)
    unknown = Counts.from_mapping({7: 5, 2: 9})
    prune_drafter(drafter, unknown, tmp_path / "third", size=2, pins="none")
    assert hashes(tmp_path / "third") == hashes(tmp_path / "out")


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = write_folder(tmp_path / "d", headed(), config())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(VocabfreqError, match="failed: .* No space left"):
        prune_drafter(drafter, vocab(), tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["d"]


def test_a_repo_is_never_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileFormatError, match="is no folder(.|\\n)*hf download owner/name"):
        prune_drafter("owner/name", vocab(), "out")
