"""What `vocabfreq check` finds in broken drafter folders, one break at a time."""

import json
import re
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
from tiny import save_tokenizer, tiny_tokenizer
from tokenizers import Tokenizer

from vocabfreq.checkpoints.checks import check_drafter
from vocabfreq.checkpoints.findings import ENGINES, FINDING_KINDS
from vocabfreq.checkpoints.pruning import prune_drafter
from vocabfreq.errors import FileFormatError, SourceError
from vocabfreq.frequencies.draft_vocab import DraftVocab

IDS = [2, 5, 7, 11]
Break = Callable[[Path], None]


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    return write_folder(tmp_path / "d", pruned_tensors(IDS), config(draft_vocab_size=4))


def settings(**changes: Any) -> Break:
    """Changes config.json; None removes a key."""

    def broken(folder: Path) -> None:
        path = folder / "config.json"
        known = json.loads(path.read_bytes()) | changes
        path.write_text(json.dumps({k: v for k, v in known.items() if v is not None}))

    return broken


def tensors(**changes: Any) -> Break:
    """Changes tensors, whose dots are written as two underscores; None removes one."""

    def broken(folder: Path) -> None:
        path = folder / "model.safetensors"
        named = {name.replace("__", "."): tensor for name, tensor in changes.items()}
        known = load(path) | named
        save(path, {k: t for k, t in known.items() if t is not None})

    return broken


def offsets(ids: list[int]) -> Any:
    return integers(np.array(ids) - np.arange(len(ids)))


def cut(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-3])


def lose_shard(folder: Path) -> None:
    whole = load(folder / "model.safetensors")
    write_folder(folder / "sub", whole, {}, shards=2)
    for path in (folder / "sub").glob("model*"):
        path.rename(folder / path.name)
    (folder / "model.safetensors").unlink()
    (folder / "model-00002-of-00002.safetensors").unlink()


def leave_folder(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    index = {"weight_map": {"fc.weight": "../model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def be_a_model(folder: Path) -> None:
    settings(architectures=["LlamaForCausalLM"], draft_vocab_size=None)(folder)
    tensors(d2t=None, t2d=None, fc__weight=None)(folder)


def write_config(text: str) -> Break:
    def broken(folder: Path) -> None:
        (folder / "config.json").write_text(text)

    return broken


BREAKS: list[tuple[str, str, Break]] = [
    ("config-broken", "has no config.json", lambda folder: (folder / "config.json").unlink()),
    ("config-broken", "is not JSON", write_config("{")),
    ("config-broken", "holds a list", write_config("[]")),
    ("config-broken", "vocab_size 'many'", settings(vocab_size="many")),
    ("config-broken", "hidden_size 0", settings(hidden_size=0)),
    ("config-broken", "vocab_size 10000000000000", settings(vocab_size=10**13)),
    ("weights-broken", "no weights in", lambda folder: (folder / "model.safetensors").unlink()),
    ("weights-broken", r"ends at byte \d+ of a file of", cut),
    ("weights-broken", "names 'model-00002-of-00002.safetensors', which is missing", lose_shard),
    ("weights-broken", "names the file '../model.safetensors'", leave_folder),
    ("not-a-drafter", "is no drafter", be_a_model),
    ("map-not-taken", "EagleLlama", settings(architectures=["EagleLlamaForCausalLM"])),
    ("d2t-missing", "no d2t for K = 4 of V = 12", tensors(d2t=None)),
    ("d2t-absolute", "id 14 at row 3, beyond V = 12", tensors(d2t=integers(IDS))),
    ("d2t-zero", "all 4 offsets", tensors(d2t=integers([0] * 4), t2d=mask([0, 1, 2, 3]))),
    ("d2t-range", r"id 12 at row 3 \(1 such\)", tensors(d2t=offsets([2, 3, 7, 12]))),
    ("d2t-range", "id -1 at row 0", tensors(d2t=offsets([-1, 5, 7, 11]))),
    ("d2t-repeated", "id 5 again at row 2", tensors(d2t=offsets([2, 5, 5, 11]))),
    ("d2t-unsorted", "first at row 1", tensors(d2t=offsets([5, 2, 7, 11]))),
    ("d2t-shape", "3 entries for K = 4", tensors(d2t=offsets([2, 5, 7]))),
    ("d2t-shape", "F32", tensors(d2t=random_bits("F32", 4))),
    ("t2d-disagrees", "on 2 ids, the first is 7", tensors(t2d=mask([2, 5, 8, 11]))),
    ("t2d-disagrees", r"not BOOL \[12\]", tensors(t2d=mask(IDS, 13))),
    ("t2d-missing", "but no t2d", tensors(t2d=None)),
    ("tied", "tie_word_embeddings is true", settings(tie_word_embeddings=True)),
    ("head-missing", "K = 4, V = 12", tensors(lm_head__weight=None)),
    ("head-broken", "a packed head", tensors(lm_head__weight=random_bits("U8", 4, H))),
    ("head-broken", "qweight", tensors(lm_head__qweight=random_bits("U8", 4, 2))),
    ("sizes", r"BF16 \[4, 4\], but config.json says \[5, 4\]", settings(draft_vocab_size=5)),
    ("sizes", r"but config.json says \[4, 8\]", settings(hidden_size=8)),
    ("sizes", "13 is more than vocab_size 12", settings(draft_vocab_size=13)),
    ("sizes", "embed_tokens", tensors(embed_tokens__weight=random_bits("BF16", 11, H))),
    ("sizes", "no multiple of the target's 5", settings(target_hidden_size=5)),
    ("size-missing", "no vocab_size", settings(vocab_size=None)),
    ("size-missing", "no draft_vocab_size", settings(draft_vocab_size=None)),
    ("norm-missing", "norm_before_residual", settings(norm_before_residual=None)),
]


def test_a_right_folder_has_no_findings(drafter: Path) -> None:
    assert check_drafter(drafter) == []


@pytest.mark.parametrize(("code", "problem", "damage"), BREAKS)
def test_a_break_is_found(drafter: Path, code: str, problem: str, damage: Break) -> None:
    damage(drafter)
    found = [one for one in check_drafter(drafter) if one.code == code]
    assert any(re.search(problem, one.problem) for one in found), found
    assert all(tuple(one.engines) == ENGINES for one in found)


ALONE = {"d2t-absolute", "d2t-zero", "d2t-unsorted", "tied", "norm-missing"}


@pytest.mark.parametrize(("code", "problem", "damage"), [b for b in BREAKS if b[0] in ALONE])
def test_a_break_gives_no_other_finding(
    drafter: Path, code: str, problem: str, damage: Break
) -> None:
    damage(drafter)
    assert [one.code for one in check_drafter(drafter)] == [code]


def test_absolute_ids_that_are_in_range_as_offsets(tmp_path: Path) -> None:
    folder = write_folder(
        tmp_path / "d",
        pruned_tensors([0, 1, 5]) | {"d2t": integers([0, 1, 5])},
        config(draft_vocab_size=3),
    )
    # 0, 2, 7: unique, ascending, in range. Only the mask can tell.
    assert [one.code for one in check_drafter(folder)] == ["d2t-absolute"]
    tensors(t2d=mask([0, 2, 7]))(folder)
    assert check_drafter(folder) == []
    tensors(t2d=mask([0, 2, 8]))(folder)
    assert [one.code for one in check_drafter(folder)] == ["t2d-disagrees"]
    tensors(t2d=None)(folder)
    found = [(one.level, one.code) for one in check_drafter(folder)]
    assert found == [("warning", "d2t-unclear"), ("warning", "t2d-missing")]


def test_absolute_ids_out_of_order(drafter: Path) -> None:
    tensors(d2t=integers([5, 2, 7, 11]))(drafter)
    assert [one.code for one in check_drafter(drafter)] == ["d2t-absolute"]


def test_offsets_that_cannot_be_ids_need_no_mask(tmp_path: Path) -> None:
    known = pruned_tensors([2, 3, 7, 11])
    del known["t2d"]
    folder = write_folder(tmp_path / "d", known, config(draft_vocab_size=4))
    assert [one.code for one in check_drafter(folder)] == ["t2d-missing"]


ODD_SHAPES = [integers(5), integers([]), integers([[2, 4], [5, 8]])]


@pytest.mark.parametrize("draft_size", [4, None])
@pytest.mark.parametrize("d2t", ODD_SHAPES, ids=["scalar", "empty", "square"])
def test_maps_of_odd_shapes(drafter: Path, d2t: Any, draft_size: int | None) -> None:
    settings(draft_vocab_size=draft_size)(drafter)
    tensors(d2t=d2t)(drafter)
    assert "d2t-shape" in [one.code for one in check_drafter(drafter)]
    for odd in (Raw("BOOL", (), b"\1"), Raw("BOOL", (0,), b""), Raw("BOOL", (3, 4), b"\1" * 12)):
        tensors(t2d=odd)(drafter)
        assert {"d2t-shape", "t2d-disagrees"} <= {one.code for one in check_drafter(drafter)}


def test_a_path_that_is_no_folder(drafter: Path) -> None:
    with pytest.raises(SourceError, match="no folder 'a/b'\nhf download a/b"):
        check_drafter("a/b")
    with pytest.raises(SourceError, match="no folder"):
        check_drafter(drafter, drafter / "config.json")
    done = run("check", drafter, "--target", drafter / "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no folder" in done.stderr


def test_fixes_name_existing_kinds() -> None:
    from vocabfreq.formats.read_options import KINDS as FILE_KINDS

    for kind in FINDING_KINDS.values():
        assert set(re.findall(r"--kind ([\w-]+)", kind.fix)) <= set(FILE_KINDS)


def test_an_expanded_tensor_of_a_torch_file(drafter: Path, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (drafter / "model.safetensors").unlink()
    torch.save({"lm_head.weight": torch.zeros(1, 1).expand(4, H)}, drafter / "pytorch_model.bin")
    found = [one for one in check_drafter(drafter) if one.code == "weights-broken"]
    assert "'lm_head.weight' F32 [4, 4] has 4 bytes" in found[0].problem
    with pytest.raises(FileFormatError, match="has 4 bytes in the file; expected 64"):
        prune_drafter(drafter, DraftVocab.from_ids([2, 5], rows=V), tmp_path / "out")


def test_a_drafter_of_the_full_vocabulary(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "d", body(), config())
    assert check_drafter(folder) == []
    settings(draft_vocab_size=V)(folder)
    assert [(one.level, one.code) for one in check_drafter(folder)] == [("warning", "head-shared")]
    tensors(lm_head__weight=random_bits("BF16", V, H))(folder)
    assert check_drafter(folder) == []
    tensors(d2t=integers([0] * V))(folder)
    assert [one.code for one in check_drafter(folder)] == ["map-of-all"]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    head = {"lm_head.weight": random_bits("BF16", V, H)}
    return write_folder(tmp_path / "t", head, {"vocab_size": V, "hidden_size": H})


def test_a_target_that_fits(drafter: Path, target: Path) -> None:
    assert check_drafter(drafter, target) == []


@pytest.mark.parametrize(
    ("code", "problem", "damage"),
    [
        ("target-width", "hidden_size is 8, the drafter was made for 4", settings(hidden_size=8)),
        ("target-rows", "vocab_size is 11, the drafter says 12", settings(vocab_size=11)),
        ("target-rows-more", "vocab_size is 13, the drafter says 12", settings(vocab_size=13)),
        ("target-broken", "the target: .* is not JSON", write_config("{")),
    ],
)
def test_a_target_that_does_not_fit(
    drafter: Path, target: Path, code: str, problem: str, damage: Break
) -> None:
    damage(target)
    found = check_drafter(drafter, target)
    assert [one.code for one in found] == [code]
    assert re.search(problem, found[0].problem)


def test_a_target_whose_head_does_not_fit(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "d", body(), config(target_hidden_size=6))
    tensors(fc__weight=random_bits("BF16", H, 18))(folder)
    head = {"lm_head.weight": random_bits("BF16", V, 6)}
    target = write_folder(tmp_path / "t", head, {"vocab_size": V, "hidden_size": 6})
    assert [one.code for one in check_drafter(folder, target)] == ["target-width"]


def test_M12_ids_3_and_4_swapped(drafter: Path, target: Path) -> None:
    one = save_tokenizer(tiny_tokenizer(), drafter) / "tokenizer.json"
    parsed = json.loads(one.read_bytes())
    names = {i: token for token, i in parsed["model"]["vocab"].items()}
    parsed["model"]["vocab"] |= {names[3]: 4, names[4]: 3}
    (target / "tokenizer.json").write_text(json.dumps(parsed))
    found = check_drafter(drafter, target)
    assert [(one.level, one.code) for one in found] == [("error", "tokenizer")]
    assert found[0].problem.startswith("4 tokens have other ids; sha256 ")


def test_the_same_tokenizer_in_other_bytes_is_a_warning(drafter: Path, target: Path) -> None:
    tokenizer: Tokenizer = tiny_tokenizer()
    save_tokenizer(tokenizer, drafter)
    tokenizer.enable_truncation(128)
    save_tokenizer(tokenizer, target)
    found = check_drafter(drafter, target)
    assert [(one.level, one.code) for one in found] == [("warning", "tokenizer-file")]
    (target / "tokenizer.json").write_text("{}")
    assert [one.code for one in check_drafter(drafter, target)] == ["tokenizer"]


def test_every_kind_of_finding_has_a_test() -> None:
    here = Path(__file__).read_text()
    assert [code for code in FINDING_KINDS if f'"{code}"' not in here] == []


def test_the_command_line(drafter: Path) -> None:
    clean = run("check", drafter)
    assert (clean.returncode, clean.stdout) == (0, f"{drafter}: nothing found\n")
    settings(norm_before_residual=None)(drafter)
    warned = run("check", drafter)
    assert warned.returncode == 0
    assert "0 errors, 1 warning" in warned.stdout
    tensors(d2t=None)(drafter)
    broken = run("check", drafter)
    assert broken.returncode == 1
    assert "error: there is no d2t for K = 4 of V = 12 [d2t-missing]" in broken.stdout
    assert "  SGLang: takes the first K target ids silently\n" in broken.stdout
    result = json.loads(run("check", drafter, "--json").stdout)
    assert result["errors"] == 1
    assert [one["code"] for one in result["findings"]] == ["d2t-missing", "norm-missing"]
