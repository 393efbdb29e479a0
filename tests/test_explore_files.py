"""The files of an exploration: JSON, CSV and HTML, from the command line and from Python."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exploring import changed

import specdiff_core as lab
from specdiff_core.cli import main
from specdiff_core.engine import Engine
from specdiff_core.explorations import window_map
from specdiff_core.explorations.base import Step
from specdiff_core.explorations.run import ExplorationRun, Snapshot
from specdiff_core.explorations.standalone import as_csv
from specdiff_core.explorations.window_map import WindowMap
from specdiff_core.schema.errors import ConfigError, OutOfMemory
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


def test_a_table_is_a_csv_file() -> None:
    rows = [{"a": 1, "b": [0.5, None]}, {"a": 'x, "y"', "c": None}]
    read = list(csv.DictReader(io.StringIO(as_csv(rows))))
    assert read == [{"a": "1", "b": "0.5 None", "c": ""}, {"a": 'x, "y"', "b": "", "c": ""}]


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "\tx", "\rx"])
def test_a_text_is_no_formula_of_a_spreadsheet(text: str) -> None:
    (read,) = csv.DictReader(io.StringIO(as_csv([{"a": text, "b": -1.5, "c": "x=1"}]), newline=""))
    assert read == {"a": f"'{text}", "b": "-1.5", "c": "x=1"}


def test_the_command_line_writes_answers(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "load", lambda *_, **options: engine)
    advance = ExplorationRun.advance

    def slow(run: ExplorationRun, **options: Any) -> Snapshot:
        """A round of 1132.25 ms by the file's six digits, which is drawn otherwise than what was measured."""
        result = (snapshot := advance(run, **options)).result
        assert result is not None
        result.rows[0]["seconds_per_round"] = 1.1322500001
        result.report = run._exploration.report(result.rows, result.facts)
        return snapshot

    monkeypatch.setattr(ExplorationRun, "advance", slow)
    out, table = tmp_path / "new" / "window-map.json", tmp_path / "map.csv"
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("Once upon a time\n", encoding="utf-8")
    words = ["--texts", f"@{prompts}", "--tokens", "8", "--gammas", "2", "--steps", "1", "--controller", "false"]
    page = tmp_path / "map.html"
    outputs = ["--json", str(out), "--csv", str(table), "--html", str(page)]
    assert main(["explore", "window-map", *words, *outputs]) == 0
    final = json.loads(out.read_text(encoding="utf-8"))
    steps = window_map.REPEATS + 1
    assert (final["kind"], final["name"]) == ("exploration", "window-map")
    assert (final["done"], final["total"]) == (steps, steps)
    assert [row["prompts"] for row in final["rows"]] == [1]
    assert set(read_trace(out.parent / final["files"]["masked/2/1"]).lanes) == {"vanilla", "drafted"}
    printed = capsys.readouterr().out
    (columns, *_), head = csv.reader(table.read_text(encoding="utf-8").splitlines()), printed.splitlines()[0].split()
    assert head == columns and final["report"]["answer"] in printed
    drawn = page.read_text(encoding="utf-8")
    assert final["report"]["answer"] in drawn and '"heatmap"' in drawn and '"@draft"' not in drawn
    again = tmp_path / "again.json"
    assert main(["explore", "show", str(out), "--json", str(again)]) == 0
    redrawn = json.loads(again.read_text(encoding="utf-8"))
    assert not changed({**redrawn, "files": final["files"]}, final)
    assert redrawn["files"].keys() == final["files"].keys()
    assert main(["explore", "show", str(prompts)]) == 2
    assert final["settings"]["texts"] == "Once upon a time\n"
    assert main(["explore", "window-map", "--gammas", "none"]) == 2
    assert main(["explore", "budget", "--texts", f"@{tmp_path / 'missing'}"]) == 2
    assert "missing cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("error", "status"), [(OutOfMemory("No room.", hint="Less."), 2), (KeyboardInterrupt(), 130)])
def test_a_broken_off_answer_is_written(
    engine: Engine,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: int,
) -> None:
    original = WindowMap.explore

    def explore(self: WindowMap, engine: Any, stopped: Any) -> Iterator[Step]:
        passes = window_map.REPEATS  # then the first cell
        yield from itertools.islice(original(self, engine, stopped), passes + 1)
        raise error

    monkeypatch.setattr(WindowMap, "explore", explore)
    monkeypatch.setattr(Engine, "load", lambda *_, **options: engine)
    out, table = tmp_path / "map.json", tmp_path / "map.csv"
    words = ["--flavours", "stories", "--per-flavour", "1", "--tokens", "8", "--gammas", "2,4", "--steps", "1"]
    words += ["--controller", "false"]
    assert main(["explore", "window-map", *words, "--json", str(out), "--csv", str(table)]) == status
    final = json.loads(out.read_text(encoding="utf-8"))
    done = window_map.REPEATS + 1
    assert (final["done"], final["total"], [row["prompts"] for row in final["rows"]]) == (done, done + 1, [1, 0])
    assert final["files"] and all((tmp_path / file).is_file() for file in final["files"].values()) and table.is_file()
    assert f"Stopped after {done} of {done + 1} steps" in capsys.readouterr().err


def test_from_python(engine: Engine) -> None:
    steps: list[Step] = []
    final = lab.explore("losslessness", engine=engine, progress=steps.append, runs=200, rules="ratio")
    assert final.rows[-1]["runs"] == steps[-1].done == 200
    with pytest.raises(ConfigError, match="no exploration"):
        lab.explore("nothing", engine=engine)
