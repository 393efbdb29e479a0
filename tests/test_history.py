"""What is told beside weights: files with and without a curve, curves from logs, and their picture."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from specdiff_core.schema.figure import GAP, Axis, Line, _apart, draw, round_ticks
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, Training, read_history, rounds_of, write_history
from specdiff_core.train import curve

RUN = Training(
    steps=400,
    tokens=4000,
    seconds=12.5,
    hardware="1 thread",
    commit="abc",
    corpus="123",
    seed=0,
    command="python -m specdiff_core train mdlm",
)


def log(folder: Path, points: list[tuple[int, float]], steps: int) -> Path:
    folder.mkdir(parents=True)
    lines = [{"kind": "TrainStep", "step": s, "tokens": s, "seconds": 1.0} for s in (1, steps)]
    lines += [
        {"kind": "EvalStep", "step": s, "scores": {"tokens_per_round/math": 9.0, "tokens_per_round/mean": value}}
        for s, value in points
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_a_curve_is_kept_on_lines_of_its_own_and_read_back(tmp_path: Path) -> None:
    run = dataclasses.replace(RUN, curve=((0, {"tau8/mean": 1.5, "x/mean": 2.0}), (400, {"tau8/mean": 2.25})))
    write_history(tmp_path / HISTORY, [RUN, run])
    assert read_history(tmp_path / HISTORY) == (RUN, run)
    assert '[0, {"tau8/mean": 1.5, "x/mean": 2.0}]' in (tmp_path / HISTORY).read_text()


def test_a_file_without_a_curve_still_reads(tmp_path: Path) -> None:
    """As they were written before curves were kept."""
    old = {name: value for name, value in dataclasses.asdict(RUN).items() if name != "curve"}
    (tmp_path / HISTORY).write_text(json.dumps({"runs": [old]}))
    assert read_history(tmp_path / HISTORY) == (RUN,)
    write_history(tmp_path / HISTORY, [RUN])
    assert json.loads((tmp_path / HISTORY).read_text()) == {"runs": [old]}


@pytest.mark.parametrize(
    "change", [{"steps": "many"}, {"seconds": -1}, {"curve": [[1]]}, {"curve": [[1, 2]]}, {"x": 1}]
)
def test_a_damaged_file_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (tmp_path / HISTORY).write_text(json.dumps({"runs": [{**dataclasses.asdict(RUN), **change}]}))
    with pytest.raises(WeightsError, match="damaged"):
        read_history(tmp_path / HISTORY)


def test_phases_follow_each_other_and_the_last_word_on_a_step_holds(tmp_path: Path) -> None:
    one = log(tmp_path / "a", [(100, 1.0)], steps=100)
    two = log(tmp_path / "b", [(0, 1.0), (200, 2.0), (300, 2.5), (200, 2.125)], steps=300)
    found = curve.curve_of(one, two, tmp_path / "missing")
    assert rounds_of(found) == [(100, 1.0), (300, 2.125), (400, 2.5)]
    assert all(list(scores) == ["tokens_per_round/mean"] for _, scores in found), "means only: it ships"


def test_a_long_curve_keeps_its_ends(tmp_path: Path) -> None:
    found = curve.curve_of(log(tmp_path / "a", [(step, float(step)) for step in range(500)], steps=499))
    assert len(found) == curve.MOST and (found[0][0], found[-1][0]) == (0, 499)


def test_a_curve_finds_its_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = log(tmp_path / "run", [(200, 2.0), (400, 2.5)], steps=400)
    write_history(tmp_path / HISTORY, [RUN, dataclasses.replace(RUN, steps=5)])
    assert curve.main([str(run), "--into", str(tmp_path)]) == 0
    first, second = read_history(tmp_path / HISTORY)
    assert rounds_of(first.curve) == [(200, 2.0), (400, 2.5)] and not second.curve
    other = log(tmp_path / "other", [(7, 2.0)], steps=7)
    assert curve.main([str(other), "--into", str(tmp_path)]) == 2
    assert "end at step 7" in capsys.readouterr().err


def test_the_curve_is_drawn_as_it_grows(tmp_path: Path) -> None:
    assert curve.redraw(tmp_path, [tmp_path], "mdlm") is None
    run = log(tmp_path / "run", [(200, 2.0)], steps=200)
    path = curve.redraw(run, [run], "mdlm")
    assert path == run / "curve.svg" and "2.00" in path.read_text()
    with (run / "metrics.jsonl").open("a") as file:
        scores = {"tokens_per_round/mean": 2.75}
        file.write(json.dumps({"kind": "EvalStep", "step": 400, "scores": scores}) + "\n")
    curve.redraw(run, [run], "mdlm")
    assert "From 2.00 to 2.75 in 400 steps" in path.read_text()
    assert [p.name for p in run.iterdir() if p.suffix == ".partial"] == []


def test_a_picture_holds_every_line_and_no_markup_of_others() -> None:
    axis = Axis(title="x", ticks=[(0, "0"), (1, "1")])
    lines = [
        Line(label="<b>ours</b>", points=[(0, 0), (1, 1)], strong=True),
        Line(label="flat", points=[(0, 0), (1, 1)], dash=1),
    ]
    tree = ET.fromstring(draw(lines, title="A & B", about="<script>", x=axis, y=axis))
    name = "{http://www.w3.org/2000/svg}"
    assert tree.get("role") == "img" and tree.find(f"{name}title").text == "A & B"
    assert not list(tree.iter(f"{name}script")) and not list(tree.iter(f"{name}b"))
    dashed = [line for line in tree.iter(f"{name}polyline") if line.get("stroke-dasharray")]
    assert len(dashed) == 1 and len(list(tree.iter(f"{name}circle"))) == 2, "not told apart by colour alone"
    with pytest.raises(ValueError, match="no point"):
        draw([], title="", about="", x=axis, y=axis)


def test_points_stand_where_the_axes_say() -> None:
    ticks = [(0.0, "0"), (10.0, "10")]
    axis = Axis(title="", ticks=ticks)
    text = draw([Line(label="", points=[(5, 10)])], title="", about="", x=axis, y=axis, width=246, height=162, right=0)
    rect = next(ET.fromstring(text).iter("{http://www.w3.org/2000/svg}rect"))
    assert (float(rect.get("x")) + 2.3, float(rect.get("y")) + 2.3) == pytest.approx((146, 22))


def test_round_ticks_cover_what_they_are_for() -> None:
    assert round_ticks(0, 1200) == [(0, "0"), (500, "500"), (1000, "1,000"), (1500, "1,500")]
    assert [words for _, words in round_ticks(0.97, 1.32, unit="×")] == ["0.9×", "1.0×", "1.1×", "1.2×", "1.3×", "1.4×"]
    assert len(round_ticks(2.0, 2.0)) == 2


def test_names_of_lines_never_stand_on_each_other() -> None:
    downs = _apart([100, 98, 40, 101])
    assert sorted(downs) == [40, 101 - 2 * GAP, 101 - GAP, 101]
