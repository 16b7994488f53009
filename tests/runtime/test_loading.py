"""`load_pruned_head`: the same rows as loading everything and picking, from any kind of folder."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from heads import numbers, vocab_of
from safetensors.torch import save_file

from vocabfreq import DraftVocab
from vocabfreq.errors import FileFormatError, HeadError, SelectionError
from vocabfreq.runtime import Shape, load_pruned_head

ROWS, WIDTH = 100, 24


def folder_of(path: Path, tensors: dict[str, torch.Tensor], **config: Any) -> Path:
    """A model in two files with an index, or in one when it has one tensor."""
    path.mkdir()
    (path / "config.json").write_text(json.dumps({"vocab_size": ROWS, **config}))
    if len(tensors) == 1:
        save_file(tensors, path / "model.safetensors")
        return path
    names = list(tensors)
    files = {name: f"model-{1 + n % 2}.safetensors" for n, name in enumerate(names)}
    for file in set(files.values()):
        save_file({n: tensors[n].contiguous() for n in names if files[n] == file}, path / file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return path


def head(dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return numbers(ROWS, WIDTH, dtype=dtype, seed=1)


@pytest.mark.parametrize("name", ["lm_head.weight", "language_model.lm_head.weight"])
@pytest.mark.parametrize("dtype", [None, torch.float32, torch.float16])
def test_sharded_head(name: str, dtype: torch.dtype | None, tmp_path: Path) -> None:
    tensors = {"model.norm.weight": torch.ones(WIDTH), name: head(), "x": torch.zeros(3)}
    vocab = vocab_of(40, ROWS)
    found = load_pruned_head(folder_of(tmp_path / "m", tensors), vocab, dtype)
    assert found.weight.dtype == (dtype or torch.bfloat16)
    assert torch.equal(found.weight.bfloat16(), head()[torch.from_numpy(vocab.target_ids)])


def test_r1_tied_embedding(tmp_path: Path) -> None:
    path = folder_of(
        tmp_path / "m", {"model.embed_tokens.weight": head()}, tie_word_embeddings=True
    )
    vocab = vocab_of(40, ROWS)
    assert torch.equal(
        load_pruned_head(str(path), vocab).weight, head()[torch.from_numpy(vocab.target_ids)]
    )


def test_r8_a_drafter_with_a_map_is_composed(tmp_path: Path) -> None:
    old = vocab_of(60, ROWS)
    tensors = {
        "lm_head.weight": head()[torch.from_numpy(old.target_ids)],
        "d2t": torch.from_numpy(old.d2t),
    }
    path = folder_of(tmp_path / "m", tensors, draft_vocab_size=60)
    vocab = DraftVocab.from_ids(old.ranked[:9], rows=ROWS)
    found = load_pruned_head(path, vocab)
    assert torch.equal(found.weight, head()[torch.from_numpy(vocab.target_ids)])
    with pytest.raises(SelectionError, match="have no row in the drafter's"):
        load_pruned_head(path, vocab_of(99, ROWS))


def test_r9_scales_and_bias_come_along(tmp_path: Path) -> None:
    tensors = {
        "lm_head.weight": head(torch.int8),
        "lm_head.weight_scale": numbers(ROWS, 1, seed=2).abs() + 1,
        "lm_head.bias": numbers(ROWS, seed=3),
    }
    vocab = vocab_of(40, ROWS)
    ids = torch.from_numpy(vocab.target_ids)
    found = load_pruned_head(folder_of(tmp_path / "m", tensors), vocab, torch.float32)
    assert found.weight.dtype == torch.int8  # the scales belong to these bits
    hidden = numbers(3, WIDTH, seed=4)
    wanted = hidden @ head(torch.float32).T * tensors["lm_head.weight_scale"][:, 0]
    assert torch.equal(found(hidden), (wanted + tensors["lm_head.bias"])[:, ids])


def test_r9_unknown_tensors_beside_the_rows_are_refused(tmp_path: Path) -> None:
    tensors = {
        "lm_head.weight": head(torch.int8),
        "lm_head.weight_scale": torch.ones(ROWS, 1),
        "lm_head.weight_zero_point": torch.zeros(ROWS, 1, dtype=torch.int8),
    }
    with pytest.raises(HeadError, match="weight_zero_point"):
        load_pruned_head(folder_of(tmp_path / "m", tensors), vocab_of(40, ROWS))
    tensors["lm_head.weight_scale"] = torch.ones(ROWS, 3)
    with pytest.raises(FileFormatError, match="quantised in blocks"):
        load_pruned_head(folder_of(tmp_path / "n", tensors), vocab_of(40, ROWS))


def test_no_head(tmp_path: Path) -> None:
    path = folder_of(tmp_path / "m", {"model.norm.weight": torch.ones(4)})
    with pytest.raises(FileFormatError, match="no lm_head.weight"):
        load_pruned_head(path, vocab_of(40, ROWS))
    with pytest.raises(FileFormatError, match="no folder"):
        load_pruned_head(str(tmp_path / "nothing"), vocab_of(40, ROWS))


def test_only_the_rows_that_are_kept_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vocabfreq.checkpoints.tensors import FileBytes

    path, seen = folder_of(tmp_path / "m", {"lm_head.weight": head(torch.float32)}), []
    real = FileBytes.read_into

    def read(self: FileBytes, buffer: memoryview, offset: int) -> None:
        seen.append(len(buffer))
        real(self, buffer, offset)

    monkeypatch.setattr(FileBytes, "read_into", read)
    load_pruned_head(path, DraftVocab.from_ids(np.arange(0, 100, 4), rows=ROWS))
    assert sum(seen) == 25 * WIDTH * 4


def test_the_shape_of_logits_comes_from_the_config(tmp_path: Path) -> None:
    logits_config = {"final_logit_softcapping": 30.0, "logits_scaling": 8}
    path = folder_of(tmp_path / "m", {"lm_head.weight": head()}, text_config=logits_config)
    assert load_pruned_head(path, vocab_of(40, ROWS)).shape == Shape(0.125, 30.0)
    assert load_pruned_head(path, vocab_of(40, ROWS), shape=Shape()).shape == Shape()
