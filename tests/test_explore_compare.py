"""The ranking of methods."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exploring import explore

from specdiff_core.engine import Engine
from specdiff_core.explorations.compare import Compare, conclusion
from specdiff_core.explorations.standalone import html_page
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema import events
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


def test_a_method_leads_at_another_temperature_only_where_it_was_measured() -> None:
    def rows(*names: str) -> list[dict[str, Any]]:
        return [{"method": name, "short": name, "speedup": 2.0} for name in names]

    assert conclusion({0.0: rows("a", "b"), 1.0: rows("b")})[1] == []
    assert len(conclusion({0.0: rows("a", "b"), 1.0: rows("a")})[1]) == 1, "a leads at both"
    assert "falls from first to place 2 of 2" in conclusion({0.0: rows("a", "b"), 1.0: rows("b", "a")})[1][0]
    even = [{**row, "low": 0.9, "high": 1.1} for row in rows("a")]
    assert len(conclusion({0.0: even})[1]) == 1, "at one temperature once"


def test_no_order_is_claimed_between_overlapping_intervals() -> None:
    def row(name: str, speedup: float, low: float, high: float) -> dict[str, Any]:
        paired = {"behind": 2.0 / speedup, "behind_low": 1.8 / high, "behind_high": 2.3 / low}  # of a, by prompt
        return {"method": name, "short": name.upper(), "speedup": speedup, "low": low, "high": high, **paired}

    near = [row(name, 1.9, 1.6, 2.2) for name in "bcdef"]
    cold = [row("a", 2.0, 1.8, 2.3), *near[:2], row("x", 1.5, 1.3, 1.7)]
    warm = [row("a", 2.0, 1.8, 2.3), *near, row("y", 0.97, 0.9, 1.05), row("z", 0.8, 0.7, 0.9)]
    answer, notes = conclusion({0.0: cold, 1.0: warm})
    first, second = answer.split("At temperature 1 ")
    assert "B and C " in first and "X" not in first
    assert "B, C, D and 2 others " in second
    (slower,) = (note for note in notes if "Slower" in note)
    assert "Z" in slower and "Y" not in slower
    assert any("Y" in note for note in notes)
    best = conclusion({1.0: [row("y", 0.97, 0.9, 1.05)]})[0]
    assert "0.97×" in best and "slower" not in best


def test_methods_are_ranked_at_each_temperature_and_their_races_are_there(engine: Engine) -> None:
    final = explore(Compare, engine, methods="prompt_lookup,dflash", tokens=8, flavours="stories,code")
    rows = final.result.rows
    assert {(row["temperature"], row["method"], row["flavour"]) for row in rows} == {
        (degree, method, flavour)
        for degree in (0.0, 1.0)
        for method in ("vanilla", "prompt_lookup", "dflash")
        for flavour in ("mean", "stories", "code")
    }
    means = {(row["temperature"], row["method"]): row for row in rows if row["flavour"] == "mean"}
    for (degree, method), mean in means.items():
        own = [row["speedup"] for row in rows if (row["temperature"], row["method"]) == (degree, method)][1:]
        assert mean["speedup"] == pytest.approx(np.mean(own))
        assert mean["cost"] == pytest.approx(mean["tau"] / mean["speedup"])
        (best,) = (name for (other, name), one in means.items() if other == degree and one["behind"] == 1)
        slow, fast = ([one for one in final.result.runs if one["temperature"] == degree and one["setting"] == name]
                      for name in (method, best))  # fmt: skip
        costs = [
            [sum(one["seconds"] for one in runs if one["flavour"] == kind) for runs in (slow, fast)]
            for kind in ("stories", "code")
        ]
        assert mean["behind"] == pytest.approx(np.mean([own / least for own, least in costs])), "texts are equally long"
    assert means[0.0, "vanilla"]["speedup"] == 1 and means[0.0, "vanilla"]["tau"] == 1
    assert means[0.0, "dflash"]["same_text"] == means[0.0, "dflash"]["texts"] == 2
    for row in rows:
        if row["race"]:
            race, _, lane = row["race"].partition("#")
            lanes = read_trace(final.races[race]).lanes
            (header,) = (event for event in lanes[lane] if isinstance(event, events.RunStarted))
            assert header.config["temperature"] == row["temperature"] and "vanilla" in lanes
            assert BenchSetting.of_config(DecodeConfig.parse(header.config)).key == row["setting"]
    report = final.result.report
    assert [[value for value, *_ in switch.options] for switch in report.switches] == [
        ["0", "1"],
        ["mean", "stories", "code"],
    ]
    board = next(one for one in report.boards if one.when == {"temperature": "1", "flavour": "code"})
    values = [row["value"] for row in board.rows]
    assert values == sorted(values, reverse=True) and len(values) == 3
    page = html_page("Compare", report)
    assert page.count("<table") == len(report.boards) and all(f"<td>{row['label']}, " in page for row in board.rows)
