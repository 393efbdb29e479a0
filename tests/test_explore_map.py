"""The γ × T map and the cost of a round: cells, predictions and bare passes."""

from __future__ import annotations

import threading
import types
from functools import partial
from typing import Any

import pytest
from app_fakes import FakeDecoder
from exploring import MAP, SMALL

from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.pieces import ids_in as events_ids
from specdiff_core.drafters.base import Context, Draft, DraftSession
from specdiff_core.engine import Engine
from specdiff_core.explorations import what_it_takes, window_map
from specdiff_core.explorations.leaderboard import accepted_lengths
from specdiff_core.explorations.measured import Runs
from specdiff_core.explorations.prediction import agreement, break_even, expected_tau, geometric_tau, predicted
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.explorations.text import joint
from specdiff_core.explorations.what_it_takes import WhatItTakes
from specdiff_core.explorations.window_map import WindowMap
from specdiff_core.measure import passes
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.passes import PassCosts, PassTimes
from specdiff_core.measure.store import Rows, RunRow
from specdiff_core.schema import events
from specdiff_core.schema.fields import parse
from specdiff_core.schema.metrics import Metrics, fold, speed_up
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


def test_a_map_holds_every_cell_and_the_race_behind_it(engine: Engine) -> None:
    exploring = ExplorationRun(parse(WindowMap, {**MAP, "flavours": "stories"}), engine)
    count = window_map.REPEATS + 5
    *seen, final = [exploring.advance(0.0) for _ in range(count + 1)]
    assert [(one.done, one.over) for one in (*seen, final)] == [*((i + 1, False) for i in range(count)), (count, True)]
    assert not any(one.races for one in seen) and len(final.races) == 5, "it goes on where it was left"
    rows = final.result.rows
    assert [(row["gamma"], row["steps"]) for row in rows] == [(2, 1), (4, 1), (2, 2), (4, 2), (4, 4)]
    first = [(cell.gamma, cell.steps) for cell in parse(WindowMap, MAP).cells()][:3]
    assert first == [(2, 1), (4, 1), (4, 4)], "the corners come first"
    for row in rows:
        lanes = read_trace(final.races[row["race"]]).lanes
        vanilla, drafted = fold(lanes["vanilla"]), fold(lanes["drafted"])
        for run in lanes.values():
            spelled = {one for event in run if isinstance(event, events.PiecesSeen) for one in event.pieces}
            assert {one for event in run for one in events_ids(event)} <= spelled, "the player shows words, not ids"
        assert row["tau"] == drafted.tau
        assert row["alpha_at"] == drafted.alpha_at
        assert row["predicted_tau"] == expected_tau(drafted.alpha_at)
        assert row["low"] is None
        own, alone = ([run for run in final.result.runs if run["setting"] == name] for name in (row["race"], "vanilla"))
        seconds, tokens = (sum(run[name] for run in own) for name in ("seconds", "committed"))
        assert row["tau"] == tokens / sum(run["rounds"] for run in own), "the download has the counts of each prompt"
        per_token = sum(run["seconds"] for run in alone) / sum(run["committed"] for run in alone)
        assert row["speedup"] == pytest.approx(per_token / (seconds / tokens))
        assert row["behind"] == pytest.approx(max(each["speedup"] for each in rows) / row["speedup"])
        assert row["seconds_per_round"] == pytest.approx(drafted.seconds / drafted.rounds, rel=1e-6)
        assert 0.2 < row["speedup"] / (speed_up(vanilla, drafted) or 0) < 5  # vanilla ran twice; one is in the race
    facts = final.result.facts
    assert [rows for rows, _ in facts["curve"]["target"]] == [1, 3, 5]
    assert final.result.machine["threads"] == facts["threads"]
    assert final.result.provenance["command"].endswith("--gammas 2,4 --steps 1,2,4 --controller False")


def test_accepted_lengths_and_joint_rates_by_hand() -> None:
    """Of 10 drafts 5 had their first token rejected, 2 their second, and 3 were accepted whole."""
    row = {"alpha_at": (0.5, 0.6), "tested_at": (10, 5)}
    shares = accepted_lengths(row)
    assert shares == pytest.approx([0.5, 0.2, 0.3])
    assert sum(shares[2:]) == pytest.approx(0.3), "joint; conditional it is 0.6"
    rows = Rows("vanilla", [
        RunRow(prompt="p", flavour="math", repeat=0, setting="dflash", reason="length", text="",
            metrics=Metrics(rounds=5, committed=10, drafted=100, tested=20, accepted=5))
    ])  # fmt: skip
    assert joint(rows, "dflash", "text", "math") == {"drafted": 100, "joint": 0.05}, "0.25 of the tested ones"
    assert joint(rows, "dflash", "token", "word") == {}, "an untested token has no kind"


def test_the_best_window_names_those_that_are_as_good_and_a_regret_has_its_ends() -> None:
    cells = [
        {"gamma": gamma, "steps": steps, "speedup": speed, "low": speed - 0.2, "high": speed + 0.2, "prompts": 12,
         "tau": 2.0, "alpha": 0.5, "seconds_per_round": 0.01, "race": f"{gamma}/{steps}"}
        for gamma, steps, speed in ((2, 1, 1.5), (4, 1, 2.0), (8, 1, 1.9), (8, 2, 1.7))
    ]  # fmt: skip
    auto = cells[0] | {"auto": True, "speedup": 1.8, "low": 1.6, "high": 2.0}
    what = parse(WindowMap, {})
    paired = [
        row | {"behind": 2.0 / row["speedup"], "behind_low": low, "behind_high": 1.4}
        for row, low in zip([*cells, auto], (1.2, 1.0, 0.98, 1.1, 1.05), strict=True)
    ]
    report = what.report(paired, {})
    assert "γ 8 may be as fast" in report.answer and "T 2" not in report.answer, "1.1 of the best’s time at least"
    (regret,) = (note for note in report.notes if "regret" in note)
    assert all(words in regret for words in ("10.0 %", "5 to 29 %", "best of 4 "))


def test_a_prediction_is_the_formula_on_bare_passes() -> None:
    passes = PassCosts(target={1: 0.010, 5: 0.014}, draft={4: 0.003}, again={4: 0.002}, context=48)
    vanilla = types.SimpleNamespace(committed=100, seconds_by={"prefill": 0.1})
    own = types.SimpleNamespace(committed=50, alpha=0.5, alpha_at=(0.8, 0.5, 0.5, 0.5))
    row = predicted(BenchSetting("masked", 4, 3), own, vanilla, passes)
    tau = 1 + 0.8 + 0.4 + 0.2 + 0.1
    assert row["predicted_tau"] == pytest.approx(tau)
    assert row["geometric_tau"] == pytest.approx(1 + 1 / 2 + 1 / 4 + 1 / 8 + 1 / 16)
    prefill, round = 0.05, 0.003 + 2 * 0.002 + 0.014  # T = 3 passes of the drafter, γ + 1 = 5 rows of the target
    assert row["predicted"] == pytest.approx((prefill + 50 * 0.010) / (prefill + 50 / tau * round))


def test_a_bare_draft_is_that_of_a_later_round(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first draft of a session, which reads the whole text, is not timed."""
    read, drafter_of = [0], Engine.drafter

    class Session(DraftSession):
        unread = 0

        def observe(self, ids: Any, features: Any) -> None:
            self.unread += len(ids)

        def draft(self, context: Context) -> Any:
            read[0] += self.unread + context.gamma * context.steps
            self.unread = 0
            yield from ()
            return Draft.empty()

    counted = types.SimpleNamespace(layers=(), start=Session)
    monkeypatch.setattr(Engine, "drafter", lambda self, name: counted if name == "block" else drafter_of(self, name))
    monkeypatch.setattr(passes, "DeviceClock", partial(DeviceClock, tick=lambda: float(read[0])))
    times = PassTimes(engine, "block", (1, 4))
    assert len(list(times.rounds("Once upon a time", 2))) == 2
    assert times.costs.draft == {1: 2, 4: 5}, "one token, and the window"
    assert times.costs.again == {1: 2, 4: 4} and times.costs.drafting(4, 3) == 13


def test_expected_tokens() -> None:
    assert expected_tau([1.0, 1.0, None]) == 3.0
    assert expected_tau([]) == 1.0
    assert geometric_tau(0.5, 2) == expected_tau([0.5, 0.5]) == 1.75
    assert geometric_tau(1.0, 4) == 5.0
    assert break_even(1.75, 2) == pytest.approx(0.5) and break_even(1.0, 2) == pytest.approx(0, abs=1e-9)
    assert break_even(3.1, 2) is None, "more than γ + 1 tokens"
    rows = [{"predicted": 1.05, "speedup": 1.0}, {"predicted": 1.2, "speedup": 1.0}, {}]
    assert agreement(rows) == {"cells": 2, "within_10_percent": 0.5}


def test_methods_are_placed_by_their_rounds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_it_takes, "ROWS", (1, 2))
    monkeypatch.setattr(what_it_takes, "WINDOWS", (1,))
    all_methods, few = WhatItTakes.methods.fget, ("dflash", "prompt_lookup")
    monkeypatch.setattr(WhatItTakes, "methods", property(lambda self: {name: all_methods(self)[name] for name in few}))
    what, steps = parse(WhatItTakes, {**SMALL, "flavours": "stories"}), list[tuple[str, Any]]()
    final = ExplorationRun(what, engine).advance(progress=lambda step: steps.append((step.doing, step.answer())))
    timed = [f"bare passes: {name}" for name in ["none", *sorted(what.drafters)]]
    labels = [all_methods(what)[name][0].label for name in few]
    assert [doing for doing, _ in steps] == [*timed, labels[0], timed[0], labels[1], *timed], "runs between passes"
    assert [len(answer.facts["drafts"]) for _, answer in steps[: len(timed)]][:3] == [0, 1, 2]
    assert final.done == final.total == len(steps)
    for row in final.result.rows:
        assert row["cost"] == pytest.approx(row["tau"] / row["speedup"])
    assert set(final.result.facts["drafts"]) == set(parse(WhatItTakes, {}).drafters)


def test_all_runs_use_as_many_threads() -> None:
    decoder = FakeDecoder()
    what = parse(WindowMap, {**MAP, "flavours": "stories", "gammas": "2", "steps": "1"})
    cells = {cell.key: cell.config(what.base) for cell in what.cells()}
    runs = Runs(decoder, what.base, cells, what.prompts(decoder)[0], threading.Event())
    list(runs.fill())
    assert set(decoder.asked_threads) == {runs.threads} == {2}
