"""What is kept beside weights: histories with and without a curve, and curves from logs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from specdiff_core.measure.sweep import CONTROLS
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, Training, read_history, write_history
from specdiff_core.schema.pairs import find_pair
from specdiff_core.train import curve

RUN = Training(
    steps=400, tokens=4000, seconds=12.5, hardware="1 thread", commit="abc", corpus="123", seed=0,
    command="python -m specdiff_core train masked",
)  # fmt: skip  # several fields a line


def log(folder: Path, points: list[tuple[int, float]], steps: int) -> Path:
    folder.mkdir(parents=True)
    lines = [{"kind": "step", "step": s, "tokens": s, "seconds": 1.0} for s in (1, steps)]
    lines += [
        {"kind": "measured", "step": s, "scores": {"tokens_per_round/math": 9.0, "tokens_per_round/mean": value}}
        for s, value in points
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_curve_is_kept_on_lines_of_its_own_and_read_back(tmp_path: Path) -> None:
    run = dataclasses.replace(RUN, curve=((0, {"tau8/mean": 1.5, "x/mean": 2.0}), (400, {"tau8/mean": 2.25})))
    write_history(tmp_path / HISTORY, [RUN, run])
    assert read_history(tmp_path / HISTORY) == (RUN, run)
    assert '[0, {"tau8/mean": 1.5, "x/mean": 2.0}]' in (tmp_path / HISTORY).read_text()


def test_a_file_of_another_version_still_reads(tmp_path: Path) -> None:
    """As they were written before curves were kept, and with further facts."""
    old = {name: value for name, value in dataclasses.asdict(RUN).items() if name != "curve"}
    (tmp_path / HISTORY).write_text(json.dumps({"runs": [old]}))
    assert read_history(tmp_path / HISTORY) == (RUN,)
    (tmp_path / HISTORY).write_text(json.dumps({"runs": [{**dataclasses.asdict(RUN), "power": 40}], "by": "somebody"}))
    assert read_history(tmp_path / HISTORY) == (RUN,)
    write_history(tmp_path / HISTORY, [RUN])
    assert json.loads((tmp_path / HISTORY).read_text()) == {"runs": [old]}


@pytest.mark.parametrize("pair", ["embedded", "smollm2"])
def test_an_aligned_drafter_differs_from_its_control_only_at_the_end(pair: str) -> None:
    for aligned, control in CONTROLS.items():
        drafters = (find_pair(pair).drafter(name) for name in (aligned, control))
        ours, theirs = (read_history(Path(one.source) / HISTORY) for one in drafters)
        assert ours[:-1] == theirs[:-1] and ours[-1].tokens == theirs[-1].tokens and ours[-1].seed == theirs[-1].seed
        assert "--align streak" in ours[-1].command and "--align" not in theirs[-1].command


@pytest.mark.parametrize(
    "change", [{"steps": "many"}, {"seconds": -1}, {"curve": [[1]]}, {"curve": [[1, 2]]}, {"command": None}]
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / HISTORY).write_text(json.dumps({"runs": [{**dataclasses.asdict(RUN), **change}]}))
    with pytest.raises(WeightsError, match="damaged"):
        read_history(tmp_path / HISTORY)


def test_the_last_word_on_a_step_holds(tmp_path: Path) -> None:
    run = log(tmp_path / "b", [(0, 1.0), (200, 2.0), (300, 2.5), (200, 2.125)], steps=300)
    found = curve.read_curve(run)
    assert [(step, scores["tokens_per_round/mean"]) for step, scores in found] == [(0, 1.0), (200, 2.125), (300, 2.5)]
    assert all(list(scores) == ["tokens_per_round/mean"] for _, scores in found), "means only: it ships"
    assert curve.read_curve(tmp_path / "missing") == ()


def test_totals_are_those_of_the_last_checkpoint(tmp_path: Path) -> None:
    run = log(tmp_path / "run", [(100, 2.0)], steps=100)
    assert curve.totals(run) == (0, 0, 0)
    with (run / "metrics.jsonl").open("a") as file:
        for step in (100, 150):
            file.write(json.dumps({"kind": "saved", "step": step, "tokens": 10 * step, "seconds": 0.5}) + "\n")
        file.write(json.dumps({"kind": "step", "step": 151, "tokens": 1510, "seconds": 9.0}) + '\n{"kind": "sa')
    assert curve.totals(run) == (150, 1500, 0.5)
    assert curve.last_scores(run, "tokens_per_round/") == {"math": 9.0, "mean": 2.0}


def test_a_long_curve_keeps_its_ends(tmp_path: Path) -> None:
    found = curve.read_curve(log(tmp_path / "a", [(step, float(step)) for step in range(500)], steps=499))
    assert len(found) == curve.MOST and (found[0][0], found[-1][0]) == (0, 499)
