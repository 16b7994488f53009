"""A part of the fault matrix, small enough for every test run; `matrix.py` has all of it."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults import disks, kills, pairs, parts, reads, signals
from faults.scene import Row, Scene
from tiny import Lines, report

from vocabfreq.counting.partial_files import LOCK, remove_work_dir
from vocabfreq.storage.atomic import write_atomically

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """Three shards."""
    return Scene(tmp_path_factory.mktemp("scene"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """One shard, so that there are few steps."""
    return Scene(tmp_path_factory.mktemp("small"), names=("a.jsonl",))


def check(row: Row) -> None:
    """Nothing may come of a fault, and it must have struck."""
    assert row.good, row


def test_F11_a_build_takes_every_kind_of_step(scene: Scene) -> None:
    assert not kills.missing_kinds(scene)
    found = [kind for kind, name in scene.steps if name.startswith((".out.", "out"))]
    assert {"mkstemp", "write", "fsync", "chmod", "replace", "unlink", "rmdir"} <= set(found)


def test_F11_sigkill_at_every_step_changes_nothing(small: Scene) -> None:
    assert len(small.steps) > 20
    check(kills.every_step(small, ["before"]))


def test_F11_half_a_write_changes_nothing(scene: Scene) -> None:
    writes = [n for n, (kind, _) in enumerate(scene.steps, 1) if kind == "write"]
    check(kills.each(kills.kill_at, [(scene, step, "torn") for step in writes[1::3]]))


@pytest.mark.parametrize("who", ["group", "self"])
def test_F11_sigkill_at_a_step_of_a_worker(scene: Scene, who: str) -> None:
    steps = kills.worker_steps(scene)
    check(kills.steps_of_workers(scene, who, [steps[7]]))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_F11_signals_at_random_times(scene: Scene, number: signal.Signals) -> None:
    check(signals.random_signals(scene, number, 2))


def test_F11_sigterm_without_workers(scene: Scene) -> None:
    check(signals.signal_at(scene, signal.SIGTERM, 0.6 * scene.seconds, False, 0))


def test_F11_sigterm_inside_the_fast_engine_is_no_panic(
    tok: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gigatoken.Tokenizer.encode_batch", lambda *_, **__: sys.exit(143))
    with pytest.raises(SystemExit, match="143"):
        report(tok, str(lines({"text": "abc"})))


def test_F11_ctrl_c_that_the_fast_engine_swallows_is_no_panic(
    tok: Path, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gigatoken.Tokenizer.encode_batch", lambda *_, **__: [[1, 2]])
    with pytest.raises(KeyboardInterrupt):
        report(tok, str(lines({"text": "abc"})))


def test_F11_a_killed_worker_costs_nothing(scene: Scene) -> None:
    check(signals.kill_worker(scene, 0.2))


def test_F11_a_worker_that_cannot_listen_ends_with_its_parent(scene: Scene) -> None:
    check(signals.worker_holds_the_lock(scene))


def test_F7_a_worker_busy_with_one_large_document_ends_with_its_parent(small: Scene) -> None:
    check(signals.busy_worker(small))


def test_F11_a_disk_that_is_full_from_a_step_on(scene: Scene) -> None:
    steps = disks.need_room(scene)
    check(disks.full_steps(scene, [*steps[:2], steps[5], steps[-1]]))


@pytest.mark.parametrize(("what", "size"), [("work dir", "8k"), ("output", "8k")])
def test_F11_a_small_disk(scene: Scene, what: str, size: str) -> None:
    if not disks.can_mount():
        pytest.skip("no disk can be mounted here")
    check(disks.small(scene, what, size))


@pytest.mark.parametrize("how", reads.WAYS)
def test_F2_a_file_that_fails_as_it_is_read_is_named(scene: Scene, how: str) -> None:
    check(reads.bad_read(scene, how, "b.jsonl.gz", 2 if how == "kill" else 0))


@pytest.mark.parametrize("at", [1, 2])
def test_F2_a_file_that_fails_before_anything_is_counted_is_named(scene: Scene, at: int) -> None:
    check(reads.bad_read(scene, "eio", "a.jsonl", 0, at))


@pytest.mark.parametrize("harm", [parts.swap, parts.empty, parts.flip(0.02), parts.flip(0.9)])
def test_F12_harmed_partial_files_are_counted_again(scene: Scene, harm: Callable[..., Any]) -> None:
    check(parts.harmed(scene, harm))


def test_F12_a_folder_in_the_place_of_a_partial_file(scene: Scene) -> None:
    check(parts.folder_in_the_way(scene))


def test_F12_every_flipped_bit_of_a_partial_file_is_noticed(small: Scene) -> None:
    check(parts.all_bits(small))


def test_F11_two_builds_at_once(scene: Scene) -> None:
    check(pairs.many_builds(scene, 2))


def test_F11_one_part_of_a_plan_counted_twice_at_once(scene: Scene) -> None:
    check(pairs.two_counts(scene))


def test_F11_a_work_dir_in_use_is_not_removed(tmp_path: Path) -> None:
    from filelock import FileLock

    part = tmp_path / "parts" / "0123.part.safetensors"
    write_atomically(part, b"counts")
    with FileLock(tmp_path / "parts" / LOCK):
        remove_work_dir(tmp_path / "parts")
        assert part.exists()
    remove_work_dir(tmp_path / "parts")
    assert not part.parent.exists()
