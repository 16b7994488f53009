"""Files that are written whole or not at all, and what an interrupted write leaves."""

from pathlib import Path

from vocabfreq.storage.atomic import remove_leftovers


def test_F11_only_our_own_leftovers_are_removed(tmp_path: Path) -> None:
    ours, *others = (tmp_path / name for name in (".out.ab_12xyz.tmp", ".out.tmp", "out.tmp"))
    others.append(tmp_path / ".outer.ab_12xyz.tmp")
    for path in (ours, *others):
        path.write_bytes(b"half")
    remove_leftovers(tmp_path, "out", older_than=ours.stat().st_mtime)
    assert ours.exists()
    remove_leftovers(tmp_path, "out")
    assert not ours.exists()
    assert all(path.exists() for path in others)
