"""Other tools' files: read as what they are or refused in words, written as they expect them."""

import collections
import contextlib
import json
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from tables import table
from tensorfiles import TENSORS, needs, torch

from vocabfreq import FrequencyTable
from vocabfreq.cli.options import FormatChoice, KindChoice
from vocabfreq.errors import (
    FileFormatError,
    MissingExtraError,
    OverwriteError,
    RefusedError,
    SelectionError,
    VocabfreqError,
)
from vocabfreq.formats import FORMATS, KINDS, Counts, read, torch_file, write
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.metadata import MAX_ROWS
from vocabfreq.storage.resolve import locate

IDS = ("draft-vocab", "token-map", "npy", "mapping", "modelopt", "nemo", "json")
TORCH_FREE = ("draft-vocab", "token-map", "token-freq", "npy", "json")
BIG = 2**24 + 1  # the first integer that float32 does not have


def tensor(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int64)


def saved(path: Path, value: Any) -> Path:
    torch.save(value() if callable(value) else value, path)
    return path


def listed(path: Path, value: Any) -> Path:
    torch_file.save_plain(value, path)
    return path


def ids_of(held: Any) -> list[int]:
    assert isinstance(held, DraftVocab)
    ranked: list[int] = held.ranked.tolist()
    return ranked


# Any list, through every pair of formats.


@st.composite
def vocabularies(draw: st.DrawFn) -> DraftVocab:
    rows = draw(st.integers(1, 40))
    ids = draw(st.lists(st.integers(0, rows - 1), min_size=1, unique=True))
    return DraftVocab.from_ids(ids, rows=rows)


@pytest.mark.parametrize("second", IDS)
@pytest.mark.parametrize("first", IDS)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(vocab=vocabularies())
def test_round_trips(tmp_path: Path, vocab: DraftVocab, first: Any, second: Any) -> None:
    needs(first, second)
    held: Any = vocab
    for kind in (first, second):
        out = tmp_path / f"{first}.{second}.{kind}"
        write(held, out, kind, force=True)
        held = read(out, kind, rows=vocab.rows, force=True)
    assert held == vocab
    if {first, second} <= {"draft-vocab", "token-map", "json"}:
        assert ids_of(held) == ids_of(vocab)


@given(
    st.integers(1, 40).flatmap(lambda v: st.lists(st.integers(0, 2**50), min_size=v, max_size=v))
)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_counts_round_trip(tmp_path: Path, counts: list[int]) -> None:
    needs(*TENSORS)
    held: Any = table([counts])
    for kind in ("vocab-freq", "token-freq"):
        write(held, tmp_path / kind, kind, force=True)
        held = read(tmp_path / kind, rows=len(counts), kind=kind)
        assert held.vector().tolist() == counts
        assert held.exact


def test_auto_detects_unambiguous_formats(tmp_path: Path) -> None:
    needs(*TENSORS)
    vocab = DraftVocab.from_ids([5, 1, 3], rows=8)
    for kind in IDS:
        write(vocab, tmp_path / kind, kind)  # type: ignore[arg-type]
        rows = 8 if kind == "token-map" else None
        if kind == "modelopt":
            with pytest.raises(FileFormatError, match="--kind token-map, vocab-freq or modelopt"):
                read(tmp_path / kind)
        else:
            assert read(tmp_path / kind, rows=rows) == vocab
    table([[1, 2]]).save(tmp_path / "f")
    assert isinstance(read(tmp_path / "f"), FrequencyTable)
    assert isinstance(read(saved(tmp_path / "p", torch.full((4,), 0.25))), Counts)
    assert isinstance(read(saved(tmp_path / "c", {1: 2})), Counts)


def test_written_files_have_the_content_that_tools_expect(tmp_path: Path) -> None:
    needs(*TENSORS)
    vocab = DraftVocab.from_ids([5, 1, 3], rows=8)
    for kind in IDS:
        write(vocab, tmp_path / kind, kind)  # type: ignore[arg-type]

    def load(kind: str) -> Any:
        return torch.load(tmp_path / kind, weights_only=True)

    assert load("token-map") == [5, 1, 3]
    assert torch.tensor(load("token-map"), dtype=torch.int64).tolist() == [5, 1, 3]
    mapping = load("mapping")
    assert mapping["d2t"].dtype == load("modelopt").dtype == torch.int64
    assert mapping["d2t"].tolist() == load("modelopt").tolist() == [1, 2, 3]
    assert mapping["t2d"].dtype == torch.bool and mapping["t2d"].nonzero()[:, 0].tolist() == [
        1,
        3,
        5,
    ]
    nemo = load("nemo")
    assert nemo["selected_token_ids"].tolist() == [1, 3, 5] and nemo["target_vocab_size"] == 8
    d2t, t2d = (np.load(tmp_path / "npy" / f"{n}.npy") for n in ("d2t", "t2d"))
    assert (d2t.dtype, t2d.dtype) == (np.int64, np.bool_) and d2t.tolist() == [1, 2, 3]
    assert json.loads((tmp_path / "json").read_text())["target_ids"] == [1, 3, 5]


# Rows, and what the call says about them.


def test_a_list_needs_rows_from_the_caller(tmp_path: Path) -> None:
    path = listed(tmp_path / "ids.pt", [3, 1])
    with pytest.raises(FileFormatError, match=r"(?s)how many rows.*--rows V \(rows=V\)"):
        read(path)
    assert ids_of(read(path, rows=8)) == [3, 1]
    write(read(path, rows=8), tmp_path / "json", "json")
    with pytest.raises(FileFormatError, match="is for 8 rows, and --rows .* says 9"):
        read(tmp_path / "json", rows=9)


@pytest.mark.parametrize("rows", [0, -1, True, 8.0, "8", MAX_ROWS + 1])
def test_invalid_rows(tmp_path: Path, rows: Any) -> None:
    with pytest.raises(FileFormatError, match="rows; expected a whole number from 1"):
        read(listed(tmp_path / "ids.pt", [0]), rows=rows)
    content = {"target_ids": [0], "rows": rows}
    (tmp_path / "x.json").write_text(json.dumps(content))
    with pytest.raises(FileFormatError, match="rows"):
        read(tmp_path / "x.json")


# M9: offsets.


def offset_files(folder: Path, offsets: list[int], rows: int) -> list[tuple[Path, Any]]:
    """The same offsets in every file that holds them without a mask."""
    array = np.array(offsets, np.int64)
    (folder / "npy").mkdir()
    np.save(folder / "npy" / "d2t.npy", array)
    (folder / "drafter").mkdir()
    save_file({"d2t": array}, folder / "drafter" / "model.safetensors")
    (folder / "drafter" / "config.json").write_text(json.dumps({"vocab_size": rows}))
    return [
        (saved(folder / "d2t.pt", torch.from_numpy(array)), "modelopt"),
        (saved(folder / "cache.pt", {"d2t": torch.from_numpy(array)}), "mapping"),
        (folder / "npy", "npy"),
        (folder / "drafter", "checkpoint"),
    ]


@pytest.mark.parametrize(
    ("offsets", "rows", "message"),
    [
        ([0, 0, 0], 8, r"(?s)all 3 offsets are 0 although there are 8 rows.*--force"),
        ([0, 7], 8, "id 8 at position 1"),
        ([1, 0], 8, "id 1 at position 1 is repeated"),
        ([0, -2], 8, "id -1 at position 1"),
        ([2**63 - 1, 2**63 - 1], 8, "at position 0"),
    ],
)
def test_M9_invalid_offsets(tmp_path: Path, offsets: list[int], rows: int, message: str) -> None:
    for path, kind in offset_files(tmp_path, offsets, rows):
        with pytest.raises(FileFormatError, match=message):
            read(path, kind, rows=rows)


def test_M9_zeros_are_accepted_with_force_or_when_every_row_is_kept(tmp_path: Path) -> None:
    for path, kind in offset_files(tmp_path, [0, 0, 0], 8):
        assert ids_of(read(path, kind, rows=8, force=True)) == [0, 1, 2]
        if kind != "checkpoint":
            held = read(path, kind, rows=3)
            assert isinstance(held, DraftVocab) and held.is_identity


def test_M9_zeros_beside_a_mask_of_other_ids(tmp_path: Path) -> None:
    mask = torch.tensor([False, True, True])
    path = saved(tmp_path / "m.pt", {"d2t": tensor(0, 0), "t2d": mask})
    with pytest.raises(FileFormatError, match="id 0 is in d2t and not in t2d; all offsets are 0"):
        read(path, force=True)
    path = saved(tmp_path / "m.pt", {"d2t": tensor(0, 0), "t2d": torch.tensor([True, True, False])})
    assert ids_of(read(path)) == [0, 1]


def test_M13_every_id(tmp_path: Path) -> None:
    needs(*TENSORS)
    vocab = DraftVocab.from_ids(range(6), rows=6)
    for kind in IDS:
        write(vocab, tmp_path / kind, kind)  # type: ignore[arg-type]
        held = read(tmp_path / kind, kind, rows=6)  # type: ignore[arg-type]
        assert isinstance(held, DraftVocab) and held.is_identity


# M10: offsets and ids are distinguished, and never rounded.


def test_M10_ids_read_as_offsets(tmp_path: Path) -> None:
    ids = [3, BIG, BIG + 4]
    path = saved(tmp_path / "d2t.pt", tensor(*ids))
    with pytest.raises(FileFormatError, match="(?s)id .* at position 2.*--kind token-map"):
        read(path, "modelopt", rows=BIG + 5)
    mask = torch.zeros(BIG + 20, dtype=torch.bool)
    mask[ids] = True
    path = saved(tmp_path / "m.pt", {"d2t": tensor(*ids), "t2d": mask})
    with pytest.raises(FileFormatError, match="d2t holds target ids where offsets belong"):
        read(path)


def test_M10_offsets_read_as_ids(tmp_path: Path) -> None:
    needs(*TENSORS)
    vocab = DraftVocab.from_ids([3, 4, BIG], rows=BIG + 1)
    path = tmp_path / "d2t.pt"
    write(vocab, path, "modelopt")
    with pytest.raises(FileFormatError, match="(?s)id 3 is repeated at position 1"):
        read(path, "token-map", rows=vocab.rows)
    assert read(path, "modelopt", rows=vocab.rows) == vocab
    path = saved(tmp_path / "o.pt", tensor(5, -1))
    with pytest.raises(FileFormatError, match="(?s)id -1 at position 1.*--kind modelopt"):
        read(path, "token-map", rows=8)


@pytest.mark.parametrize("kind", IDS)
def test_M10_large_ids_are_exact(tmp_path: Path, kind: Any) -> None:
    needs(kind)
    vocab = DraftVocab.from_ids([BIG + 2, BIG, 7], rows=BIG + 3)
    write(vocab, tmp_path / "out", kind)
    assert read(tmp_path / "out", kind, rows=vocab.rows) == vocab


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_M10_ids_in_floats_are_refused(tmp_path: Path, dtype: str) -> None:
    path = saved(tmp_path / "f.pt", torch.tensor([3.0, 1.0], dtype=getattr(torch, dtype)))
    for kind in ("token-map", "modelopt"):
        with pytest.raises(FileFormatError, match="of float.*; expected integers"):
            read(path, kind, rows=8)
    path = saved(tmp_path / "n.pt", {"selected_token_ids": torch.ones(1), "target_vocab_size": 8})
    with pytest.raises(FileFormatError, match="expected integers"):
        read(path)
    (tmp_path / "x.json").write_text("[3, 1.0]")
    with pytest.raises(FileFormatError, match="id 1.0 at position 1"):
        read(tmp_path / "x.json", rows=8)


def test_M10_counts_in_floats_are_not_exact(tmp_path: Path) -> None:
    held = read(saved(tmp_path / "v.pt", torch.tensor([2.0, 0.0, 2.0**25])), "vocab-freq")
    assert isinstance(held, Counts) and not held.exact
    assert repr(held) == "Counts(frequencies in floats of 2 ids, V=3)"
    with pytest.raises(RefusedError, match="would be invented") as refused:
        write(held, tmp_path / "out", "token-freq")
    assert "probabilities" not in str(refused.value)
    write(held, tmp_path / "out", "vocab-freq")
    assert read(tmp_path / "out", "vocab-freq") == held


@pytest.mark.parametrize("values", [[5, 3, 999, 17, 2.0], [0.5, 0.498], [0.0], [0.4, 0.602]])
def test_auto_reads_floats_as_frequencies_only_if_they_sum_to_one(
    tmp_path: Path, values: list[float]
) -> None:
    path = saved(tmp_path / "v.pt", torch.tensor(values))
    with pytest.raises(FileFormatError, match="(?s)floats that sum to .*--kind vocab-freq"):
        read(path)
    assert isinstance(read(path, "vocab-freq"), Counts)


# M11: lists from other tools.


def test_M11_a_repeated_id_is_refused_and_repaired_on_request(tmp_path: Path) -> None:
    path = listed(tmp_path / "freq_5.pt", [2, 7, 1, 0, 3, 2])
    words = (
        "freq_5.pt holds 6 ids, its name says 5; id 2 is repeated at position 5 after position 0; "
        "expected every id once\n--repair (repair=True) keeps the first of each"
    )
    with pytest.raises(FileFormatError, match=re.escape(words)):
        read(path, rows=8)
    remarks: list[str] = []
    assert ids_of(read(path, rows=8, repair=True, note=remarks.append)) == [2, 7, 1, 0, 3]
    assert remarks == [
        "freq_5.pt: id 2 is repeated at position 5 after position 0; dropped, 5 ids are left"
    ]
    with pytest.warns(UserWarning, match="dropped"):
        read(path, rows=8, repair=True)


def test_M11_a_size_that_contradicts_the_name(tmp_path: Path) -> None:
    path = listed(tmp_path / "freq_5.pt", [2, 7, 1, 0, 3, 4])
    for repair in (False, True):
        with pytest.raises(FileFormatError, match="its name says 5 ids, it holds 6"):
            read(path, rows=8, repair=repair)
    assert len(ids_of(read(path, rows=8, force=True))) == 6
    with pytest.raises(FileFormatError, match="its name says 7 ids, it holds 2"):
        write(DraftVocab.from_ids([1, 0], rows=8), tmp_path / "freq_7.pt", "token-map")


def test_M11_a_counter_is_counts_only(tmp_path: Path) -> None:
    path = saved(tmp_path / "c.pt", collections.Counter({5: 2, 1: 9}))
    held = read(path)
    assert isinstance(held, Counts)
    assert (held.ids.tolist(), held.values.tolist(), held.rows) == ([1, 5], [9, 2], None)
    with pytest.raises(FileFormatError, match="(?s)a Counter of 2 keys.*--kind token-freq"):
        read(path, "token-map", rows=8)


def test_M11_numpy_integers_are_refused_with_a_message(tmp_path: Path) -> None:
    path = saved(tmp_path / "n.pt", list(np.array([3, 1])))
    with pytest.raises(FileFormatError, match=r"(?s)n\.pt cannot .*numpy.*plain integers"):
        read(path, rows=8)


class _Evil:
    """Writes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return exec, (f"open({str(self.mark)!r}, 'w')",)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", ["torch", "legacy", "zip", "pickle", "protocol 0"])
def test_M11_a_malicious_pickle_is_not_executed(tmp_path: Path, kind: Any, form: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "evil.pt"
    evil = [1, _Evil(mark)]
    if form == "torch":
        torch.save(evil, path)
    elif form == "legacy":
        torch.save(evil, path, _use_new_zipfile_serialization=False)
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(evil))
            archive.writestr("archive/version", "3\n")
    else:
        path.write_bytes(pickle.dumps(evil, protocol=0 if "0" in form else 4))
    with pytest.raises(VocabfreqError):
        read(path, kind, rows=8)
    assert not mark.exists()


def test_M11_an_object_array_is_not_executed(tmp_path: Path) -> None:
    path = tmp_path / "d2t.npy"
    np.save(path, np.array([_Evil(tmp_path / "mark")]), allow_pickle=True)
    with pytest.raises(FileFormatError, match="not a .npy file of numbers"):
        read(path, rows=8)
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "empty list"),
        ([1, "a"], "'a' at position 1"),
        ([1, True], "True at position 1"),
        ([1, [2]], r"\[2\] at position 1"),
        ([1, 2**70], "at position 1"),
        ([1, 8], "id 8 at position 1"),
        ({"a": 1}, "a dict with the keys 'a'"),
        ({}, "a dict with no keys"),
        ({1: 2, "a": 3}, "a dict with the keys 1, 'a'"),
        ({1: -2}, "count -2 of id 1"),
        ({1: 2.0}, "count 2.0 of id 1"),
        ({-1: 2}, "id -1"),
        ({8: 2}, "id 8"),
        ({"d2t": 1}, "d2t is a int"),
        ({"selected_token_ids": [1], "target_vocab_size": "8"}, "says '8' rows"),
        ({"selected_token_ids": [1], "target_vocab_size": 2**40}, "rows; expected"),
        ([1, "x" * 10**6], r"id 'x{5,20}\.\.\.x{5,20}' at position 1; expected"),
        ({"x" * 10**6: 1}, r"the keys 'x{5,20}\.\.\.x{5,20}';"),
        (lambda: torch.tensor(5), r"int64 \[\]; expected one dimension"),
        (
            lambda: {"selected_token_ids": [1], "target_vocab_size": torch.tensor(7)},
            "is for 7 rows",
        ),
        (5, "holds int"),
        ({1, 2}, "holds set"),
    ],
)
def test_other_values_are_refused_with_a_message(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read(saved(tmp_path / "x.pt", value), rows=8)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.zeros(2, 2), "expected one dimension"),
        (lambda: torch.zeros(1).expand(1 << 40), "expected one dimension of at most"),
        (lambda: torch.tensor([1.0, float("nan")]), "frequency nan of id 1"),
        (lambda: torch.tensor([1.0, float("inf")]), "frequency inf of id 1"),
        (lambda: torch.tensor([0.5, -0.5]), "frequency -0.5 of id 1"),
        (lambda: torch.eye(3).to_sparse()[0], "plain tensor|token-map|one dimension"),
        (lambda: torch.zeros(3, dtype=torch.bool), "empty list of ids"),
    ],
)
def test_other_tensors_are_refused_with_a_message(tmp_path: Path, make: Any, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read(saved(tmp_path / "x.pt", make))


def test_files_that_promise_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("data.pkl", "data/0"):  # what is followed here, and what torch reads
        with zipfile.ZipFile(tmp_path / "bomb.pt", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(f"archive/{name}", b"K\x01" * 10**5)
        for kind in ("auto", "token-map", "mapping"):
            with pytest.raises(FileFormatError, match=f"is compressed .'archive/{name}'"):
                read(tmp_path / "bomb.pt", kind, rows=8)
    with zipfile.ZipFile(tmp_path / "long.pt", "w") as archive:
        archive.writestr("archive/data.pkl", bytes(torch_file.MAX_PICKLE + 1))
    with pytest.raises(FileFormatError, match="a pickle of 20,971,521 bytes"):
        read(tmp_path / "long.pt")
    with zipfile.ZipFile(tmp_path / "large.pt", "w") as archive:
        archive.writestr("archive/data/0", b"")
    large = (tmp_path / "large.pt").read_bytes()
    place = large.index(b"PK\x01\x02") + 24  # the unpacked size, in the directory
    size = (torch_file.MAX_BYTES + 1).to_bytes(4, "little")
    (tmp_path / "large.pt").write_bytes(large[:place] + size + large[place + 4 :])
    with pytest.raises(FileFormatError, match="unpacks to 268,435,457 bytes"):
        read(tmp_path / "large.pt")
    (tmp_path / "cut.pt").write_bytes(large[:-9])  # torch reads on where zipfile does not
    with pytest.raises(FileFormatError, match="cut.pt is a broken archive"):
        read(tmp_path / "cut.pt")
    header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    npy = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "d2t.npy").write_bytes(npy + bytes(80))
    with pytest.raises(FileFormatError, match="not a .npy file"):
        read(tmp_path / "d2t.npy")
    monkeypatch.setattr(torch_file, "MAX_BYTES", 100)
    (tmp_path / "long.txt").write_text("1\n" * 100)
    with pytest.raises(FileFormatError, match="has 200 bytes"):
        read(tmp_path / "long.txt", rows=8)


@pytest.mark.parametrize("name", ["x.pt", "x.npy", "x.json", "x.safetensors", "x"])
@pytest.mark.parametrize(
    "content", [b"", b"junk", b"PK\x03\x04junk", b"\x80\x02]q", b"[1,", b"GGUF", b"\xff" * 9]
)
def test_junk_is_refused_with_a_message(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    for kind in KINDS:
        with pytest.raises((FileFormatError, MissingExtraError)):
            read(tmp_path / name, kind, rows=8)


@pytest.mark.parametrize("kind", KINDS)
def test_any_file_as_any_kind_is_read_or_refused_with_a_message(tmp_path: Path, kind: Any) -> None:
    needs(*TENSORS)
    vocab, counted = DraftVocab.from_ids([5, 1], rows=8), table([[1, 2, 0, 4, 0, 0, 0, 9]])
    for form in FORMATS:
        held: Any = counted if form in ("token-freq", "vocab-freq") else vocab
        write(held, tmp_path / form, form)
    counted.save(tmp_path / "f")
    for path in tmp_path.iterdir():
        with contextlib.suppress(FileFormatError):
            assert read(path, kind, rows=8, note=print).rows == 8


@pytest.mark.parametrize("form", FORMATS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_files_are_read_or_refused_with_a_message(
    tmp_path: Path, data: st.DataObject, form: Any
) -> None:
    needs(form)
    held = table([[1, 2, 0, 4]]) if "freq" in form else DraftVocab.from_ids([3, 1], rows=4)
    write(held, tmp_path / form, form, force=True)
    path = tmp_path / form / "d2t.npy" if form == "npy" else tmp_path / form
    content = bytearray(path.read_bytes())
    places = st.integers(0, len(content) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=4)):
        content[place] = byte
    spoiled = path.with_name("d2t-2.npy" if form == "npy" else "spoiled")
    spoiled.write_bytes(content[: data.draw(places) + 1] if data.draw(st.booleans()) else content)
    for kind in ("auto", form):
        with contextlib.suppress(FileFormatError, MissingExtraError):
            read(spoiled, kind, rows=4)


@pytest.mark.parametrize("kind", ["token-map", "vocab-freq", "modelopt", "json"])
@pytest.mark.parametrize(
    "text",
    ["[1, [2]]", '[1, "a"]', "[1, null]", "[1, 2e0]", "[" * 500 + "]" * 500, "[1e999]", "[[]]"],
)
def test_json_lists_of_other_things(tmp_path: Path, kind: Any, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with contextlib.suppress(FileFormatError):
        read(tmp_path / "x.json", kind, rows=8)
        assert (text, kind) == ("[1, 2e0]", "vocab-freq")


def test_deep_values_are_refused_with_a_message(tmp_path: Path) -> None:
    deep = pickle.PROTO + b"\x02" + pickle.EMPTY_LIST * 10**5 + pickle.APPEND * (10**5 - 1)
    with zipfile.ZipFile(tmp_path / "deep.pt", "w") as archive:
        archive.writestr("archive/data.pkl", deep + pickle.STOP)
        archive.writestr("archive/version", "3\n")
    for kind in KINDS:
        with pytest.raises((FileFormatError, MissingExtraError)):
            read(tmp_path / "deep.pt", kind, rows=8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_probabilities_of_every_precision(tmp_path: Path, dtype: str) -> None:
    held = read(
        saved(tmp_path / "v.pt", torch.tensor([0.75, 0.0, 0.25], dtype=getattr(torch, dtype)))
    )
    assert isinstance(held, Counts)
    assert (held.vector().tolist(), held.exact) == ([0.75, 0.0, 0.25], False)


# Text and JSON.


def test_text_and_json_lists(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("7\n\n 2 \r\n5\n")
    (tmp_path / "a.json").write_text("[7, 2, 5]")
    for name in ("a.txt", "a.json"):
        assert ids_of(read(tmp_path / name, rows=8)) == [7, 2, 5]
    (tmp_path / "b.txt").write_text("7\n2.0\n")
    with pytest.raises(FileFormatError, match=r"b.txt: line 2 is '2.0'; expected an id a line"):
        read(tmp_path / "b.txt", rows=8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fingerprint": "00"}, "do not agree"),
        ({"filled": -3}, "filled is -3 of 3 ids; expected 0 to 3"),
        ({"filled": 4}, "filled is 4 of 3 ids"),
        ({"coverage": {"a": 7.5}}, "coverage of 'a' is 7.5; expected 0 to 1"),
        ({"coverage": {"a": -0.1}}, "coverage of 'a' is -0.1"),
        ({"ranked": [1, 2]}, "do not agree"),
        ({"target_ids": [1, 3, 9]}, "do not agree"),
        ({"target_ids": [1.5]}, r"Expected `int`, got `float` - at `\$.target_ids\[0\]`"),
        ({"rows": 3}, "id 5 at position 0"),
        ({"tokenizer": 3}, "tokenizer"),
    ],
)
def test_a_spoiled_json_file(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "v.json"
    write(DraftVocab.from_ids([5, 1, 3], rows=8, tokenizer="ab"), path, "json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileFormatError, match=message):
        read(path)


def test_statistics_survive_a_round_trip(tmp_path: Path) -> None:
    vocab = table([[9, 0, 1, 5], [1, 1, 0, 7]]).select(3)
    for kind in ("draft-vocab", "json"):
        write(vocab, tmp_path / kind, kind)
        held = read(tmp_path / kind)
        assert isinstance(held, DraftVocab)
        assert (held.tokenizer, held.coverage, held.filled) == (
            vocab.tokenizer,
            vocab.coverage,
            vocab.filled,
        )


# npy pairs and checkpoints.


def test_a_pair_is_read_from_either_file_or_the_folder(tmp_path: Path) -> None:
    vocab = DraftVocab.from_ids([1, 3], rows=4)
    for name in ("d2t", "t2d"):
        np.save(tmp_path / f"{name}-2.npy", getattr(vocab, name))
    for path in (tmp_path, tmp_path / "d2t-2.npy", tmp_path / "t2d-2.npy"):
        assert read(path) == vocab
    np.save(tmp_path / "d2t.npy", vocab.d2t)
    with pytest.raises(FileFormatError, match=r"2 mappings; expected one of d2t\{,-2\}.npy"):
        read(tmp_path)
    with pytest.raises(FileFormatError, match="how many rows"):
        read(tmp_path / "d2t.npy")
    assert read(tmp_path / "d2t.npy", rows=4) == vocab
    np.save(tmp_path / "d2t-3.npy", vocab.d2t)
    with pytest.raises(FileFormatError, match="its name says 3 ids, it holds 2"):
        read(tmp_path / "d2t-3.npy", rows=4)
    np.save(tmp_path / "other.npy", vocab.d2t)
    with pytest.raises(FileFormatError, match="--kind"):
        read(tmp_path / "other.npy", "npy")
    with pytest.raises(FileFormatError, match="bare vector of 2 integers"):
        read(tmp_path / "other.npy")


def test_d2t_and_t2d_must_agree(tmp_path: Path) -> None:
    vocab = DraftVocab.from_ids([1, 3], rows=4)
    np.save(tmp_path / "d2t.npy", vocab.d2t)
    np.save(tmp_path / "t2d.npy", np.array([True, True, False, False]))
    with pytest.raises(FileFormatError, match="id 0 is in t2d and not in d2t; expected the same"):
        read(tmp_path)
    np.save(tmp_path / "t2d.npy", np.array([0, 1, 0, 1]))
    with pytest.raises(FileFormatError, match="t2d: a mask of int64"):
        read(tmp_path)


def drafter(folder: Path, config: Any, **tensors: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: np.array(value) for name, value in tensors.items()}
    save_file(
        {"lm_head.weight": np.zeros((2, 4), np.float32), **arrays}, folder / "model.safetensors"
    )
    return folder


def test_a_checkpoint(tmp_path: Path) -> None:
    folder = drafter(tmp_path / "d", {"vocab_size": 4, "draft_vocab_size": 2}, d2t=[1, 2])
    assert ids_of(read(folder)) == ids_of(read(folder / "model.safetensors")) == [1, 3]
    for name in ("text_config", "transformer_layer_config"):
        drafter(folder, {name: {"vocab_size": 4}}, d2t=[1, 2])
        assert ids_of(read(folder)) == [1, 3]
    mask = [False, True, False, True]
    drafter(folder, {}, **{"model.d2t": [1, 2], "model.t2d": mask, "model.not_d2t": [0]})
    assert ids_of(read(folder)) == [1, 3]
    drafter(folder, {}, d2t=[1, 2], t2d=[False, True, False, True])
    assert ids_of(read(folder)) == [1, 3]
    remarks: list[str] = []
    drafter(folder, {"vocab_size": 4}, d2t=[3, 0])
    assert ids_of(read(folder, note=remarks.append)) == [3, 1]
    assert "not ascending" in remarks[0]


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({"vocab_size": 4}, {}, "(?s)has no tensor d2t.*vocabfreq prune"),
        ({}, {"d2t": [1, 2]}, "how many rows"),
        ({"vocab_size": "4"}, {"d2t": [1, 2]}, "says '4' rows"),
        ({"vocab_size": 4}, {"d2t": [1.0, 2.0]}, r"d2t is F64 \[2\]; expected I64 \[K\]"),
        ({"vocab_size": 4}, {"d2t": [[1, 2]]}, r"d2t is I64 \[1, 2\]"),
        ({"vocab_size": 4}, {"d2t": [1, 2], "t2d": [0, 1, 0, 1]}, "t2d is I64"),
        ({"vocab_size": 4}, {"d2t": [1, 3]}, "(?s)id 4 at position 1.*target ids"),
        ({"vocab_size": 5}, {"d2t": [1], "t2d": [False, True]}, "(?s)config says 5.*--rows 2"),
        ({"vocab_size": 4, "draft_vocab_size": 3}, {"d2t": [1, 2]}, "draft_vocab_size 3"),
        (
            {"vocab_size": 4},
            {"a.d2t": [1, 2], "b.d2t": [1, 2]},
            "2 tensors end in 'd2t': a.d2t, b.d2t; expected one",
        ),
    ],
)
def test_an_inconsistent_checkpoint(
    tmp_path: Path, config: Any, tensors: Any, message: str
) -> None:
    with pytest.raises(FileFormatError, match=message):
        read(drafter(tmp_path / "d", config, **tensors))


def test_a_sharded_checkpoint(tmp_path: Path) -> None:
    save_file({"d2t": np.array([1, 2])}, tmp_path / "b.safetensors")
    save_file({"w": np.zeros(2)}, tmp_path / "a.safetensors")
    (tmp_path / "config.json").write_text('{"vocab_size": 4}')
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"d2t": "b.safetensors", "w": "a.safetensors"}}))
    with pytest.raises(FileFormatError, match="no model.safetensors"):
        read(tmp_path)
    save_file({"model.d2t": np.array([1, 2])}, tmp_path / "c.safetensors")
    for name, file in (("d2t", "b"), ("model.d2t", "c")):
        index.write_text(
            json.dumps({"weight_map": {name: f"{file}.safetensors", "t2d": "a.safetensors"}})
        )
        assert ids_of(read(tmp_path)) == [1, 3]
    index.write_text(json.dumps({"weight_map": {"d2t": "../b.safetensors"}}))
    with pytest.raises(FileFormatError, match=r"names the file '../b.safetensors'"):
        read(tmp_path)


# Where files are.


@pytest.mark.parametrize(
    "path",
    ["./o/r/f.pt", "/o/r/f.pt", "~/o/r/f.pt", "f.pt", "o/f.pt", "here/r/f.pt", "o/r/../f.pt", ""],
)
def test_a_local_looking_path_is_never_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.setattr("vocabfreq.storage.resolve.open_folder", None)
    with pytest.raises(FileFormatError, match="no file"):
        read(path)
    with pytest.raises(FileFormatError, match="no file"):
        read(Path("o/r/f.pt"))


@pytest.mark.parametrize(
    ("address", "folder", "file"),
    [
        ("o/r/freq_2.pt", "o/r", "freq_2.pt"),
        ("o/r/sub/freq_2.pt@v1", "o/r@v1", "sub/freq_2.pt"),
        ("o/r@v1", "o/r@v1", None),
    ],
)
def test_addresses_on_the_hub(
    monkeypatch: pytest.MonkeyPatch, address: str, folder: str, file: str | None
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "vocabfreq.storage.resolve.open_folder", lambda spec, error: asked.append(spec)
    )
    assert locate(address).name == file
    assert asked == [folder]


# Writing.


def test_counts_that_rank_are_written_most_frequent_first(tmp_path: Path) -> None:
    needs(*TENSORS)
    counted = table([[1, 5, 0, 2], [1, 0, 0, 0]], [[0, 0, 9, 0], [0, 0, 0, 0]])
    write(counted, tmp_path / "f.pt", "token-freq")
    loaded = torch.load(tmp_path / "f.pt", weights_only=True)
    assert list(loaded.items()) == [(1, 5), (0, 2), (3, 2)]
    assert type(loaded) is dict and {type(k) for k in loaded} == {int}
    write(counted, tmp_path / "v.pt", "vocab-freq")
    vector = torch.load(tmp_path / "v.pt", weights_only=True)
    assert vector.dtype == torch.int64 and vector.tolist() == [2, 5, 0, 2]


def test_counts_of_ids_that_are_never_emitted_are_left_out(tmp_path: Path) -> None:
    counted = table([[3, 5, 2]])
    tokenizer = msgspec.structs.replace(counted.tokenizer, size=2, absent=((1, 2),))
    meta = msgspec.structs.replace(counted.meta, tokenizer=tokenizer)
    write(FrequencyTable(counted.counts, counted.heldout, meta), tmp_path / "f", "token-freq")
    assert torch_file.load(tmp_path / "f") == {0: 3, 2: 2}


def test_writing_never_loses_or_invents_counts(tmp_path: Path) -> None:
    out = tmp_path / "out"
    vocab = DraftVocab.from_ids([1], rows=4)
    with pytest.raises(RefusedError, match="ranks by weights"):
        write(table([[1, 2]], weights=[2.0]), out, "token-freq")
    with pytest.raises(RefusedError, match="holds no counts, they would be invented"):
        write(vocab, out, "token-freq")
    with pytest.raises(RefusedError, match="(?s)not which to keep.*export FILE --size K"):
        write(table([[1, 2]]), out, "token-map")
    with pytest.raises(RefusedError, match="not which to keep"):
        write(Counts.from_mapping({1: 2}), out, "npy")
    with pytest.raises(FileFormatError, match="--rows V"):
        write(Counts.from_mapping({1: 2}), out, "vocab-freq")
    with pytest.raises(FileFormatError, match="format 'x'; expected one of draft-vocab"):
        write(vocab, out, "x")  # type: ignore[arg-type]
    assert not out.exists()


def test_only_a_file_of_the_same_format_is_replaced(tmp_path: Path) -> None:
    needs(*TENSORS)
    first, second = (DraftVocab.from_ids(ids, rows=8) for ids in ([5, 1], [2, 3, 0]))
    for kind in IDS:
        out = tmp_path / kind
        write(first, out, kind)  # type: ignore[arg-type]
        write(second, out, kind, force=kind == "modelopt")  # type: ignore[arg-type]
        assert read(out, kind, rows=8) == second  # type: ignore[arg-type]
    table([[1, 2]]).save(tmp_path / "f")
    before = (tmp_path / "f").read_bytes()
    (tmp_path / "config.json").write_text('{"vocab_size": 8}')
    for kind in set(IDS) - {"npy"}:
        for name in ("f", "config.json"):
            with pytest.raises(OverwriteError, match=f"in the way, and no.* {kind} file"):
                write(first, tmp_path / name, kind)  # type: ignore[arg-type]
        with pytest.raises(OverwriteError, match="is a folder"):
            write(first, tmp_path, kind, force=True)  # type: ignore[arg-type]
    assert (tmp_path / "f").read_bytes() == before
    with pytest.raises(OverwriteError, match="is a file"):
        write(first, tmp_path / "f", "npy", force=True)
    (tmp_path / "g").mkdir()
    np.save(tmp_path / "g" / "d2t-2.npy", first.d2t)
    write(first, tmp_path / "g", "npy")
    (tmp_path / "g" / "d2t.npy").write_bytes(b"mine")
    with pytest.raises(OverwriteError, match="npy is in the way"):
        write(first, tmp_path / "g", "npy")
    write(first, tmp_path / "f", "json", force=True)
    assert read(tmp_path / "f") == first


def example_files(folder: Path) -> dict[str, Path]:
    """A file of every format, and others that can be read as one of them."""
    folder.mkdir()
    for kind in FORMATS:
        held = table([[1, 2]]) if "freq" in kind else DraftVocab.from_ids([0], rows=2)
        write(held, folder / kind, kind)
    (folder / "list.json").write_text("[1, 0]")
    (folder / "object.json").write_text('{"target_ids": [1], "rows": 2}')
    (folder / "ids.txt").write_text("1\n0\n")
    np.save(folder / "ids.npy", np.array([1, 0]))
    saved(folder / "ids.pt", tensor(1, 0))
    saved(folder / "mask.pt", torch.tensor([True, False]))
    saved(folder / "d2t.pt", {"d2t": tensor(0, 0)})
    saved(folder / "shares.pt", torch.tensor([0.5, 0.5]))
    table([[1, 2]]).save(folder / "frequency")
    return {path.name: path for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("kind", sorted(set(FORMATS) - {"npy"}))
def test_a_file_is_replaced_only_if_it_shows_that_it_is_of_the_format(
    tmp_path: Path, kind: Any
) -> None:
    needs(*TENSORS)
    held = table([[3, 4]]) if "freq" in kind else DraftVocab.from_ids([1], rows=2)
    for name, path in example_files(tmp_path / "s").items():
        before = path.read_bytes()
        if name == kind and kind not in ("vocab-freq", "modelopt"):
            write(held, path, kind)
            assert path.read_bytes() != before
            continue
        with pytest.raises(OverwriteError, match="in the way"):
            write(held, path, kind)
        assert path.read_bytes() == before
        write(held, path, kind, force=True)
        assert read(path, kind, rows=2) is not None


def test_M10_unsorted_offsets_give_a_remark_in_every_container(tmp_path: Path) -> None:
    saved(tmp_path / "bare.pt", tensor(3, 0))
    saved(tmp_path / "dict.pt", {"d2t": tensor(3, 0)})
    np.save(tmp_path / "d2t.npy", np.array([3, 0]))
    for name, kind in (("bare.pt", "modelopt"), ("dict.pt", "auto"), ("d2t.npy", "auto")):
        remarks: list[str] = []
        assert ids_of(read(tmp_path / name, kind, rows=4, note=remarks.append)) == [3, 1]  # type: ignore[arg-type]
        assert len(remarks) == 1 and "rows of the head trained with it" in remarks[0]


def test_a_dict_of_two_formats_is_not_guessed(tmp_path: Path) -> None:
    both = {"selected_token_ids": tensor(1), "target_vocab_size": 4, "d2t": tensor(2)}
    path = saved(tmp_path / "x.pt", both)
    with pytest.raises(
        FileFormatError, match="(?s)keys of nemo and of mapping files.*--kind nemo or mapping"
    ):
        read(path, rows=4)
    assert ids_of(read(path, "nemo")) == [1]
    assert ids_of(read(path, "mapping", rows=4)) == [2]


def test_hints_name_a_kind_only_if_it_reads_the_file(tmp_path: Path) -> None:
    for value in (tensor(1, 3), {"d2t": tensor(1, 3)}):
        path = saved(tmp_path / "x.pt", value)
        with pytest.raises(FileFormatError, match="as (target )?ids it makes sense") as refused:
            read(path, "mapping" if isinstance(value, dict) else "modelopt", rows=4)
        if "--kind token-map" in str(refused.value):
            assert ids_of(read(path, "token-map", rows=4)) == [1, 3]
        assert ("--kind" in str(refused.value)) is not isinstance(value, dict)
    path = saved(tmp_path / "n.pt", {"selected_token_ids": tensor(1, 1), "target_vocab_size": 4})
    with pytest.raises(FileFormatError) as refused:
        read(path)
    assert "--kind" not in str(refused.value)


def test_force_accepts_a_size_that_contradicts_the_name(tmp_path: Path) -> None:
    out = tmp_path / "freq_7.pt"
    write(DraftVocab.from_ids([1, 0], rows=8), out, "token-map", force=True)
    assert torch_file.load(out) == [1, 0]


def test_a_file_that_reads_back_differently_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DraftVocab.from_ids([2], rows=8)
    monkeypatch.setattr("vocabfreq.formats.writing.read", lambda *a, **k: other)
    for kind in ("token-map", "npy"):
        with pytest.raises(FileFormatError, match="reads back as"):
            write(DraftVocab.from_ids([1], rows=8), tmp_path / kind, kind)
    assert not (tmp_path / "token-map").exists()
    assert not list((tmp_path / "npy").iterdir())


def test_equal_values_give_equal_bytes(tmp_path: Path) -> None:
    needs(*TENSORS)
    vocab = table([[3, 1, 2, 0]]).select(3)
    for kind in ("draft-vocab", "token-map", "json", "mapping", "modelopt", "nemo"):
        out = [tmp_path / f"{kind}{n}" for n in range(2)]
        for path in out:
            write(vocab, path, kind)
        assert out[0].read_bytes() == out[1].read_bytes()


@pytest.mark.parametrize("number", [1, 255, 256, 65_535, 65_536, 2**31, 2**40])
def test_plain_values_are_what_torch_would_save(tmp_path: Path, number: int) -> None:
    for value in ([number, 0] * 1500, {number: 3, 0: number}):
        torch_file.save_plain(value, tmp_path / "ours")
        torch.save(value, tmp_path / "theirs")
        assert torch.load(tmp_path / "ours", weights_only=True) == value
        assert torch_file.load(tmp_path / "theirs") == value


def test_without_torch(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["torch"] = None
from pathlib import Path
from vocabfreq.errors import MissingExtraError
from vocabfreq.formats import Counts, read, write
from vocabfreq.frequencies.draft_vocab import DraftVocab
vocab, counts = DraftVocab.from_ids([5, 1], rows=8), Counts.from_mapping({{5: 2, 1: 9}}, 8)
for kind in {TORCH_FREE}:
    write(counts if kind == "token-freq" else vocab, Path(sys.argv[1]) / kind, kind)
    read(Path(sys.argv[1]) / kind, kind, rows=8)
for kind in ("mapping", "nemo", "modelopt"):
    try:
        write(vocab, Path(sys.argv[1]) / kind, kind)
    except MissingExtraError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("pip install 'vocabfreq[runtime]'") == 3
    assert torch_file.load(tmp_path / "token-map") == [5, 1]
    assert torch_file.load(tmp_path / "token-freq") == {1: 9, 5: 2}


# Selecting from counts of other tools.


def test_counts_select_as_tables_do(tmp_path: Path) -> None:
    rows = [5, 0, 7, 5, 1, 0]
    counted = table([rows])
    for held in (Counts.from_vector(np.array(rows)), Counts.from_vector(np.array(rows) / 18)):
        for selection in (
            {"size": 2},
            {"size": "50%"},
            {"coverage": 0.9},
            {"size": 3, "multiple_of": 4},
        ):
            ours = counted.select(pins="none", **selection)
            theirs = held.select(**selection)
            assert ours.ranked.tolist() == theirs.ranked.tolist()
            assert (theirs.tokenizer, theirs.filled) == (None, ours.filled)
    assert len(Counts.from_vector(np.array(rows)).select(min_count=5)) == 3
    with pytest.raises(SelectionError, match="min_count 5 of probabilities"):
        Counts.from_vector(np.array(rows) / 18).select(min_count=5)
    with pytest.raises(FileFormatError, match="--rows V"):
        Counts.from_mapping({1: 2}).select(1)


def test_equality_and_repr_of_counts() -> None:
    counts = Counts.from_mapping({5: 2, 1: 9, 3: 0})
    assert counts == Counts.from_vector(np.array([0, 9, 0, 0, 0, 2]))
    assert counts != Counts.from_mapping({5: 2, 1: 8})
    assert repr(counts) == "Counts(counts of 2 ids, V unknown)"
    assert counts != 3


def test_the_command_line_offers_the_formats_of_the_library() -> None:
    assert tuple(FormatChoice) == FORMATS
    assert tuple(KindChoice) == KINDS


def test_token_freq_names_what_may_fill_when_there_are_holes(tmp_path: Path) -> None:
    from tables import unpinned_table as with_absent

    padded = with_absent([[5, 0, 3, 0, 0, 0]], absent=((4, 6),))
    holed = with_absent([[5, 0, 0, 3, 0, 0]], absent=((1, 2), (5, 6)))
    for counted, held in ((padded, {0: 5, 2: 3}), (holed, {0: 5, 3: 3, 2: 0, 4: 0})):
        write(counted, tmp_path / "f.pt", "token-freq")
        assert torch_file.load(tmp_path / "f.pt") == held
        assert list(torch_file.load(tmp_path / "f.pt")) == list(held)
