"""`vocabfreq advise`: the best K, from numbers small enough to work out by hand."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vocabfreq.cli import main
from vocabfreq.errors import EvaluationError, FileFormatError, SelectionError
from vocabfreq.measure.advise import (
    Costs,
    advise,
    lengths_by_coverage,
    read_acceptance,
    read_head_times,
)

ROWS = 1024
COVERAGE = np.minimum(1, np.arange(ROWS + 1) / 256)  # all text lies within 256 ids


def _timing(implementation: str, us: float, mode: str = "eager") -> dict[str, Any]:
    return {
        "implementation": implementation,
        "task": "greedy",
        "mode": mode,
        "median_us": us,
    }


def _bench(sizes: dict[int, float], full: float) -> dict[str, Any]:
    cells = [
        {
            "size": size,
            "batch_size": 1,
            "default": "ours, torch",
            "timings": [_timing("ours, torch", us), _timing("full head, argmax", full)],
        }
        for size, us in sizes.items()
    ]
    return {"setup": {"vocab_size": ROWS}, "cells": cells}


def _run(size: int | None, length: float, speed: float, ratio: float | None) -> dict[str, Any]:
    names = "size", "acceptance_length", "tokens_per_second", "forward_ratio"
    output = dict(zip(names, (size, length, speed, ratio), strict=True))
    return {**output, "spec_tokens": 2, "batch_size": 1, "error": None}


def _write(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value))
    return path


def test_expected_speed_is_tokens_of_a_step_over_its_seconds() -> None:
    heads = {128: 1.0, 512: 2.0, ROWS: 4.0}
    found = advise(COVERAGE, heads, {128: 1.5, ROWS: 2.0}, Costs(6.0, 1.0, 2))
    by_size = {point.size: point for point in found.curve}
    assert by_size[128].tokens_per_second == 1.5 / (6 + 2 * (1 + 1))
    assert by_size[512].tokens_per_second == 2.0 / (6 + 2 * (1 + 2))
    assert found.full_head.tokens_per_second == 2.0 / (6 + 2 * (1 + 4))
    assert by_size[320].head_seconds == pytest.approx(1.5)  # halfway between 128 and 512
    assert by_size[192].acceptance_length == pytest.approx(1.75)  # halfway in coverage


def test_the_best_is_where_coverage_ends_and_near_best_is_within_1_percent() -> None:
    heads = {64: 0.25, 512: 2.0, ROWS: 4.0}
    lengths = lengths_by_coverage(COVERAGE, 0.8, 2)
    found = advise(COVERAGE, heads, lengths, Costs(1.0, 0.0, 2))
    assert found.best == max(found.curve, key=lambda point: point.tokens_per_second)
    limit = 0.99 * found.best.tokens_per_second
    near = [point.size for point in found.curve if point.tokens_per_second >= limit]
    assert found.near_best == (min(near), max(near))
    assert all(64 <= point.size <= 512 for point in found.curve[:-1])


def test_a_free_head_makes_the_full_one_best() -> None:
    coverage = np.linspace(0, 1, ROWS + 1)
    lengths = lengths_by_coverage(coverage, 0.8, 2)
    found = advise(coverage, {64: 0.0, ROWS: 0.0}, lengths, Costs(1.0, 1.0, 2))
    assert found.best == found.full_head


def test_acceptance_by_coverage_is_a_geometric_sum() -> None:
    lengths = lengths_by_coverage(COVERAGE, 0.5, 3)
    assert lengths[ROWS] == 1 + 0.5 + 0.25 + 0.125
    assert lengths[128] == 1 + 0.25 + 0.25**2 + 0.25**3
    assert lengths[0] == 1
    with pytest.raises(SelectionError, match=r"1\.5"):
        lengths_by_coverage(COVERAGE, 1.5, 3)


def test_missing_measurements_are_named() -> None:
    with pytest.raises(EvaluationError, match="K = 64"):
        advise(COVERAGE, {64: 1.0}, {ROWS: 2.0}, Costs(1, 1, 1))
    with pytest.raises(EvaluationError, match="full head"):
        advise(COVERAGE, {64: 1.0, ROWS: 2.0}, {64: 2.0}, Costs(1, 1, 1))


def test_head_times_prefer_a_replayed_graph(tmp_path: Path) -> None:
    output = _bench({64: 100.0, 256: 200.0}, 800.0)
    output["cells"][0]["timings"].append(_timing("ours, torch", 50.0, "graph"))
    times = read_head_times(_write(tmp_path / "b.json", output), ROWS, 1)
    assert times == pytest.approx({64: 50e-6, 256: 200e-6, ROWS: 800e-6})


def test_costs_of_a_step_come_from_the_unpruned_run(tmp_path: Path) -> None:
    runs = [_run(None, 2.0, 1.0, 1.0), _run(64, 1.5, 9.0, None)]
    path = _write(tmp_path / "e.json", {"rows": runs})
    found = read_acceptance(path, ROWS, 2, 1)
    assert found.lengths == {ROWS: 2.0, 64: 1.5}
    # A step takes 2 s, half of it the target; two drafted tokens share the other second.
    assert found.costs(0.25) == Costs(1.0, 0.25, 2)
    with pytest.raises(EvaluationError, match=r"600\.000 ms"):
        found.costs(0.6)
    with pytest.raises(EvaluationError, match="N = 3"):
        read_acceptance(path, ROWS, 3, 1)


def test_figures_of_another_vocabulary_or_batch_are_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "b.json", _bench({64: 100.0}, 800.0))
    with pytest.raises(EvaluationError, match=r"V = 1,024"):
        read_head_times(path, 2048, 1)
    with pytest.raises(EvaluationError, match="B = 8"):
        read_head_times(path, ROWS, 8)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rows": 1, "cells": 1}', "\xff"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileFormatError, match="bench --json"):
        read_head_times(path, ROWS, 1)
    with pytest.raises(FileFormatError, match="eval --json"):
        read_acceptance(path, ROWS, 2, 1)


def test_the_command_prints_the_best_and_the_curve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    smollm2 = Path(__file__).parents[2] / "data/smollm2"
    file = tmp_path / "freq.safetensors"
    (tmp_path / "a.txt").write_text("the quick brown fox " * 50)
    arguments = ["build", "-q", "-s", str(tmp_path / "a.txt"), "-t", str(smollm2), "-o", str(file)]
    assert _main(monkeypatch, arguments) == 0
    output = _bench({512: 100.0, 4096: 200.0}, 800.0)
    output["setup"]["vocab_size"] = 49_152
    bench = _write(tmp_path / "b.json", output)
    arguments = ["advise", str(file), "--bench", str(bench)]
    assert _main(monkeypatch, arguments) == 2
    arguments += ["--target-ms", "1", "--draft-ms", "0", "--acceptance", "0.5"]
    capsys.readouterr()
    assert _main(monkeypatch, [*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"]["size"] == 512  # a dozen ids are all of this text
    assert found["full_head"]["size"] == 49_152
    assert found["best"]["tokens_per_second"] == pytest.approx(1.875 / (1e-3 + 3 * 100e-6))
    assert _main(monkeypatch, arguments) == 0
    assert "Best: K = 512, expected 2.62 × the full head." in capsys.readouterr().out


def _main(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> int:
    monkeypatch.setattr(sys, "argv", ["vocabfreq", *arguments])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0
