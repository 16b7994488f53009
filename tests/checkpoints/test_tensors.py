"""Reading and writing safetensors as bytes: the same as the library reads, and nothing trusted."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
from drafters import Raw, load, random_bits, save, write_folder
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from vocabfreq.checkpoints import tensors as module
from vocabfreq.checkpoints.folder import open_checkpoint
from vocabfreq.checkpoints.tensors import Tensor
from vocabfreq.checkpoints.writing import Piece, array_piece, copy_tensor, write_safetensors
from vocabfreq.errors import FileFormatError
from vocabfreq.formats.safetensors_file import BITS, read_header
from vocabfreq.storage.manifest import leaves_folder


def whole(tensor: Tensor) -> bytes:
    return b"".join(bytes(block) for block in tensor.blocks())


def test_a_copy_is_what_the_library_reads(tmp_path: Path) -> None:
    tensors = {
        "a": random_bits("BF16", 5, 3),
        "b.scalar": random_bits("F32"),
        "c.empty": Raw("U8", (0, 4), b""),
        "d": random_bits("U8", 7),
    }
    save(tmp_path / "model.safetensors", tensors)
    with open_checkpoint(tmp_path) as opened:
        assert {n: whole(t) for n, t in opened.tensors.items()} == {
            n: t.data for n, t in tensors.items()
        }
        pieces = [copy_tensor(name, tensor) for name, tensor in opened.tensors.items()]
        pieces += [array_piece("ids", np.arange(3)), array_piece("mask", np.array([True, False]))]
        write_safetensors(tmp_path / "copy.safetensors", pieces, opened.metadata)
    new = load(tmp_path / "copy.safetensors")
    assert {name: new[name] for name in tensors} == tensors
    assert new["ids"].numbers().tolist() == [0, 1, 2]
    assert new["mask"].numbers().tolist() == [True, False]
    with safetensors.safe_open(str(tmp_path / "copy.safetensors"), "numpy") as file:
        assert file.metadata() == {"format": "pt"}
    assert read_header(tmp_path / "copy.safetensors")[0]["ids"].start % 8 == 0


def test_dtypes_are_those_of_the_library(tmp_path: Path) -> None:
    for dtype, bits in BITS.items():
        save(tmp_path / "x", {"x": Raw(dtype, (8,), bytes(bits))})
        with contextlib.suppress(safetensors.SafetensorError):  # an older one knows fewer
            assert load(tmp_path / "x")["x"].shape == (8,)
        assert read_header(tmp_path / "x")[0]["x"].nbytes == bits


@pytest.mark.parametrize("width", [1, 40])
@pytest.mark.parametrize("block", [1, 100, 1 << 20])
@hypothesis_settings(deadline=None)
@given(indices=st.lists(st.integers(0, 29), max_size=40))
def test_rows_in_any_order(width: int, block: int, indices: list[int]) -> None:
    data = random_bits("BF16", 30, width)
    source = module.MemoryBytes(memoryview(b"xx" + data.data))
    tensor = Tensor("x", "BF16", (30, width), len(data.data), source, 2)
    old, module.BLOCK = module.BLOCK, block
    try:
        found = b"".join(bytes(part) for part in tensor.rows(np.array(indices, np.int64)))
    finally:
        module.BLOCK = old
    assert found == b"".join(map(data.row, indices))


def test_neighbours_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "model.safetensors", {"x": random_bits("BF16", 100, 64)})
    reads = []
    with open_checkpoint(tmp_path) as opened:
        tensor = opened.tensors["x"]
        real = module.FileBytes.read_into

        def read_into(self: Any, buffer: memoryview, offset: int) -> None:
            reads.append(len(buffer) // 128)
            real(self, buffer, offset)

        monkeypatch.setattr(module.FileBytes, "read_into", read_into)
        list(tensor.rows(np.array([3, 4, 5, 9, 50, 51])))
    assert reads == [3, 1, 2]


def test_a_piece_of_another_size_is_not_kept(tmp_path: Path) -> None:
    def blocks() -> Iterator[memoryview]:
        yield memoryview(b"123")

    with pytest.raises(FileFormatError, match="x gave 3 bytes; expected U8"):
        write_safetensors(tmp_path / "f", [Piece("x", "U8", (4,), blocks)], {})
    assert list(tmp_path.iterdir()) == []


def header(**entries: Any) -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text


def entry(dtype: str, shape: list[int], start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


BROKEN = {
    "a header of 25,185 bytes in a file of 2": b"ab",
    "a header of 9,223,372,036,854,775,807 bytes": (2**63 - 1).to_bytes(8, "little") + b"{}",
    "its header": (2).to_bytes(8, "little") + b"[]",
    "malformed": (3).to_bytes(8, "little") + b"{a}",
    "Expected `str`": header(x={"dtype": 1, "shape": [], "data_offsets": [0, 0]}),
    "missing required field": header(x={"dtype": "U8"}),
    "ends at byte": header(x=entry("U8", [9], 0, 9)),
    "has 2; expected 1 bytes": header(x=entry("U8", [1], 0, 2)) + b"ab",
    "from byte -1 to 0": header(x=entry("U8", [1], -1, 0)) + b"a",
    r"shape \[-1\]": header(x=entry("U8", [-1], 0, 0)),
    "from byte 4 to 2": header(x=entry("U8", [2], 4, 2)) + b"abcd",
    "expected a dtype of": header(x=entry("Q4", [1], 0, 1)) + b"a",
    "F4 .* has 1": header(x=entry("F4", [1], 0, 1)) + b"a",
    "1 bytes after the last tensor": header(x=entry("U8", [1], 0, 1)) + b"ab",
    "'y' starts at byte": header(x=entry("U8", [2], 0, 2), y=entry("U8", [2], 1, 3)) + b"abc",
    "'x' starts at byte": header(x=entry("U8", [1], 1, 2)) + b"ab",
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_header_is_refused(tmp_path: Path, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(BROKEN[message])
    with pytest.raises(FileFormatError, match=message):
        read_header(path)


@hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_can_only_raise(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "model.safetensors"
    save(path, {"lm_head.weight": random_bits("U8", 6, 2), "d2t": random_bits("F32", 3)})
    changed = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(changed[: data.draw(st.integers(0, len(changed)))])
    try:
        with open_checkpoint(tmp_path) as opened:
            for tensor in opened.tensors.values():
                assert len(whole(tensor)) == tensor.nbytes
    except FileFormatError:
        pass
    else:
        assert load(path)  # what we take, the library takes


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "C:x", "..\\x", "a\0b", ".."])
def test_names_that_leave_the_folder(name: str) -> None:
    assert leaves_folder(name)
    assert not leaves_folder("model-00001-of-00002.safetensors")
    assert not leaves_folder("sub/model.safetensors")


def test_an_index_that_promises_what_a_shard_lacks(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "d", {"a": random_bits("U8", 2)}, {}, shards=2)
    index = {"weight_map": {"b": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(FileFormatError, match="has no tensor 'b'"):
        open_checkpoint(folder)
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"b": 1}}')
    with pytest.raises(FileFormatError, match="weight_map"):
        open_checkpoint(folder)


def test_a_file_that_shrinks_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save(path, {"x": random_bits("U8", 100, 100)})
    with open_checkpoint(tmp_path) as opened:
        with path.open("r+b") as file:
            file.truncate(500)
        with pytest.raises(FileFormatError, match="ends at byte 500"):
            whole(opened.tensors["x"])
