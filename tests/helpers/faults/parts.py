"""Partial files that are damaged, swapped, empty or no files at all."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from faults.kills import each
from faults.scene import Attempt, Row, Scene
from vocabfreq.counting.partial_files import load_partial


def kept(scene: Scene) -> Attempt:
    """An attempt that has all partial files and no output: killed as it writes that."""
    attempt = scene.attempt()
    step = next(n for n, found in enumerate(scene.steps, 1) if found[1].startswith(".out."))
    assert attempt.build({"at": step}).code == -9
    assert len(attempt.parts) == len(scene.names)
    return attempt


def every_bit(path: Path) -> tuple[int, list[int]]:
    """How many bits a partial file has, and those whose flip changes it unnoticed."""
    right, data = load_partial(path), path.read_bytes()
    assert right is not None
    unnoticed = []
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        found = load_partial(path)
        if found is not None and not _same(found, right):
            unnoticed.append(bit)
    path.write_bytes(data)
    return 8 * len(data), unnoticed


def _same(one: object, other: object) -> bool:
    return all(np.array_equal(value, vars(other)[name]) for name, value in vars(one).items())


def flip(share: float) -> Callable[[list[Path]], None]:
    """Flips a bit of the byte at that share of the file."""

    def harm(paths: list[Path]) -> None:
        data = bytearray(paths[0].read_bytes())
        data[int(share * (len(data) - 1))] ^= 1
        paths[0].write_bytes(data)

    return harm


def swap(paths: list[Path]) -> None:
    """Two files under each other's name."""
    one, other = paths[0].read_bytes(), paths[1].read_bytes()
    paths[0].write_bytes(other)
    paths[1].write_bytes(one)


def copy(paths: list[Path]) -> None:
    """One file under two names."""
    paths[1].write_bytes(paths[0].read_bytes())


def empty(paths: list[Path]) -> None:
    """No bytes."""
    paths[0].write_bytes(b"")


def cut(paths: list[Path]) -> None:
    """The first half of a file."""
    paths[0].write_bytes(paths[0].read_bytes()[: paths[0].stat().st_size // 2])


HARMS = (swap, copy, empty, cut, *map(flip, (0, 0.02, 0.3, 0.6, 0.9, 1)))


def harmed(scene: Scene, harm: Callable[[list[Path]], None], workers: int = 0) -> Row:
    """Partial files that are harmed between two runs are counted again."""
    attempt = kept(scene)
    before = [path.read_bytes() for path in attempt.parts]
    harm(attempt.parts)
    row = Row(tried=1, struck=int(before != [path.read_bytes() for path in attempt.parts]))
    return attempt.go_on(row, workers)


def folder_in_the_way(scene: Scene) -> Row:
    """A folder where a partial file goes is an error that names it; nothing in it is removed."""
    attempt = kept(scene)
    path = attempt.parts[0]
    path.unlink()
    (path / "precious").mkdir(parents=True)
    done = attempt.build()
    row = Row(tried=1, struck=1)
    right = done.code == 1 and path.name in done.errors and (path / "precious").exists()
    row.expect(right, f"a folder in the way gave {done.code}: {done.errors[-300:]}")
    (path / "precious").rmdir()
    path.rmdir()
    return attempt.go_on(row)


def all_harms(scene: Scene) -> Row:
    """Each harm, and a folder in the way."""
    return each(harmed, [(scene, harm) for harm in HARMS]) + folder_in_the_way(scene)


def all_bits(scene: Scene) -> Row:
    """Every bit of a partial file flipped: each is noticed, or changes nothing that counts."""
    attempt = kept(scene)
    bits, unnoticed = every_bit(attempt.parts[0])
    row = Row(tried=bits, struck=bits)
    row.expect(not unnoticed, f"flips unnoticed: {unnoticed[:5]}")
    return attempt.go_on(row)
