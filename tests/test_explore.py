"""Explorations: forms, measurements, failures, and that they catch a bias."""

from __future__ import annotations

import contextlib
import copy
import csv
import io
import itertools
import json
import math
import re
import types
from collections.abc import Callable, Iterator
from functools import partial
from operator import mul
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from app_fakes import FakeDecoder
from test_js import differences

import specdiff_core as lab
from specdiff_core.cli import build_parser, main
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.decoding.pieces import ids_in as events_ids
from specdiff_core.drafters.base import Context, Draft, DraftSession
from specdiff_core.engine import Engine
from specdiff_core.explorations import EXPLORATIONS, engines, learn, losslessness, round_cost, window_map
from specdiff_core.explorations.base import (
    Exploration,
    ExplorationResult,
    ExplorationRun,
    Snapshot,
    Step,
    as_csv,
    command_words,
)
from specdiff_core.explorations.budget import Budget, read_problem
from specdiff_core.explorations.compare import Compare, conclusion
from specdiff_core.explorations.doctor import Doctor
from specdiff_core.explorations.figures import accepted_lengths, ratio
from specdiff_core.explorations.learn import Learn
from specdiff_core.explorations.losslessness import Losslessness
from specdiff_core.explorations.round_cost import RoundCost
from specdiff_core.explorations.runs import Runs
from specdiff_core.explorations.side_by_side import BRANCH, SideBySide
from specdiff_core.explorations.standalone import html_page
from specdiff_core.explorations.temperature import Temperature, reliability, shortened
from specdiff_core.explorations.text import WhichText, joint, token_kind
from specdiff_core.explorations.window_map import WindowMap, agreement, expected_tau, geometric_tau, predicted
from specdiff_core.maths.distributions import to_probs
from specdiff_core.measure import passes
from specdiff_core.measure.answers import answered, canonical
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.passes import PassCosts, PassTimes
from specdiff_core.measure.problems import EXAMPLES, FORMS, PROBLEMS, VARIANTS
from specdiff_core.measure.statistics import chi_squared
from specdiff_core.measure.store import Rows, RunRow
from specdiff_core.measure.ties import first_difference
from specdiff_core.measure.votes import Attempt, curves, read_attempt
from specdiff_core.models.network import CausalLM
from specdiff_core.schema import events
from specdiff_core.schema.errors import ConfigError, ContextOverflow, OutOfMemory, SpecDiffError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.metrics import Metrics, fold, speed_up
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace

SMALL: dict[str, Any] = {"flavours": "stories,code", "per_flavour": 1, "tokens": 8}
HEATED: dict[str, Any] = {"drafter": "mdlm", "tokens": 8, "temperatures": "0,1", "draft_temperatures": "0.7,1"}
MAP: dict[str, Any] = {**SMALL, "gammas": "2,4", "steps": "1,2,4", "drafter": "mdlm_streak", "controller": "false"}


TWO: dict[str, Any] = {"a": "specdiff", "b": "dflash", "tokens": 16}
REPEATS = 1


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(autouse=True)
def _few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No warm-ups, and no probe of the threads: they are tested with the engine."""
    monkeypatch.setattr(Engine, "warm_up", lambda self, config, *_, **more: self.drafter(config.drafter))
    monkeypatch.setattr("specdiff_core.engine.quickest_threads", lambda *_: 1)
    monkeypatch.setattr(window_map, "REPEATS", REPEATS)
    monkeypatch.setitem(PassTimes.__init__.__kwdefaults__, "tokens", 4)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return lab.load(drafters=["mdlm", "mdlm_streak", "block", "none", "prompt_lookup"])


def explore(kind: type[Exploration], engine: Any, **values: Any) -> Any:
    return ExplorationRun(parse(kind, values), engine).advance()


# What a record of settings makes.


@pytest.mark.parametrize("kind", EXPLORATIONS.values(), ids=list(EXPLORATIONS))
def test_every_field_is_explained_and_its_default_passes(kind: type[Exploration]) -> None:
    fields = kind.form()
    assert {field["name"] for field in fields} == set(kind.__struct_fields__)
    for field in fields:
        assert field["title"], field
        assert field["about"].endswith((".", "}.")), field
        assert not field["choices"] or set(np.atleast_1d(field["default"])) <= set(field["choices"]), field
    assert parse(kind, {field["name"]: field["default"] for field in fields}) == kind()
    assert json.dumps(fields)
    assert any(not field["more"] for field in fields) or kind is RoundCost


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (WindowMap, {**MAP, "temperature": 0.7, "texts": "One line\nAnother, with a comma", "seed": 5}),
        (Losslessness, {"rules": "naive,block", "order": "random", "prompt": "He said “yes”."}),
        (RoundCost, {}),
        (SideBySide, {"a": "eagle2", "rule": "match", "branch": "b", "round": 3, "take": 7, "branch_seed": 9}),
    ],
)
def test_the_command_says_the_same(kind: type[Exploration], values: dict[str, Any]) -> None:
    what = parse(kind, values)
    args = vars(build_parser().parse_args(command_words(what)))
    assert parse(kind, {name: args[name] for name in kind.__struct_fields__ if name in args}) == what


@pytest.mark.parametrize(
    ("kind", "values", "word"),
    [
        (WindowMap, {"gammas": "0,4"}, "gammas"),
        (WindowMap, {"gammas": ""}, "gammas"),
        (WindowMap, {"gammas": "two"}, "gammas"),
        (WindowMap, {"unknown": 1}, "unknown"),
        (WindowMap, {"texts": "x" * 30_000}, "texts"),
        (WindowMap, {**MAP, "drafter": "block_markov_tree"}, "drafter"),
        (WindowMap, {**MAP, "drafter": "no such"}, "drafter"),
        (WindowMap, {**MAP, "gammas": "2", "steps": "4"}, "measure"),
        (Budget, {"methods": "vanilla"}, "Vanilla"),
        (Learn, {"texts": "Only one prompt"}, "two prompts"),
        (Doctor, {"drafter": "none"}, "no drafter"),
        (SideBySide, {"branch": "c"}, "branch"),
        (SideBySide, {**TWO, "tokens": 8, "branch": "a", "round": 128}, "no round 128"),
        (SideBySide, {**TWO, "branch": "b", "take": 2**31 - 1}, "a token of this target"),
        (SideBySide, {**TWO, "a": "nothing"}, "no method"),
        (SideBySide, {**TWO, "a": "auto"}, "not reproducible"),
        (SideBySide, {**TWO, "rule": "nothing"}, "rule"),
        (SideBySide, {**TWO, "prompt": " "}, "prompt"),
        (Losslessness, {"gamma": 2, "steps": 4}, "T = 4"),
        (Losslessness, {"rules": "wrong"}, "rule"),
        (Losslessness, {"models": "mdlm", "prompt": "word " * 79}, "too long"),
        (Losslessness, {"rules": "self", "steps": 1}, "K is 1"),
        (Losslessness, {"rules": "ratio,trie", "num_drafts": 3, "steps": 2}, "T is 2"),
        (Losslessness, {"rules": "ratio,naive", "num_drafts": 3}, "test one"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    engine: Engine, kind: type[Exploration], values: dict[str, Any], word: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        explore(kind, engine, **values)
    assert word in f"{caught.value.field}: {caught.value.message}" and caught.value.hint


# The γ × T map.


def test_a_map_holds_every_cell_and_the_race_behind_it(engine: Engine) -> None:
    exploring = ExplorationRun(parse(WindowMap, {**MAP, "flavours": "stories"}), engine)
    count = REPEATS + 5
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


def test_published_curves_lie_over_our_own_and_are_hidden_at_first() -> None:
    def published(name: str, key: str) -> list[dict[str, Any]]:
        answer = msgspec.json.decode((ASSETS / "explore" / f"{name}.json").read_bytes(), type=ExplorationResult)
        figure = next(figure for figure in answer.report.figures if figure.key == key)
        own, *curves = figure.data
        assert own.get("visible", True) is True and all(curve["visible"] == "legendonly" for curve in curves)
        return curves

    assert published("temperature", "fall")[0]["y"] == [4.91, 4.24], "DFlash, table of its paper"
    (steps,) = published("window-map.mdlm", "steps")
    assert steps["x"] == [3, 4, 6, 8, 10] and steps["y"][0] == pytest.approx(30.1 / 4.5)


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


def test_stop_keeps_what_was_done_also_within_a_batch(engine: Engine) -> None:
    asked = itertools.count()
    final = ExplorationRun(parse(Losslessness, {}), engine, lambda: next(asked) > 70).advance()
    assert 50 < final.done == final.result.facts["runs"] < 100


@pytest.mark.parametrize("name", [name for name, kind in EXPLORATIONS.items() if kind.tab and name != "losslessness"])
@pytest.mark.parametrize("after", [20, slow(1), slow(60)])
def test_stop_ends_a_question_within_a_few_passes(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, name: str, after: int
) -> None:
    assert engine.threads  # its probe takes a tenth of a second, whatever number of passes
    passes, decode = list[int](), CausalLM.decode

    def counted(*args: Any, **more: Any) -> Any:
        passes.append(1)
        return decode(*args, **more)

    monkeypatch.setattr(CausalLM, "decode", counted)
    monkeypatch.setattr(engine.target, "_exactness", {})  # the self-test of its bits can be stopped, too
    with contextlib.suppress(SpecDiffError):  # nothing was measured
        ExplorationRun(parse(EXPLORATIONS[name], {}), engine, lambda: len(passes) >= after).advance()
    assert after <= len(passes) <= after + 4


def test_an_answer_stopped_before_its_first_run_does_not_say_zero_threads(engine: Engine) -> None:
    steps: list[Step] = []
    what = parse(Temperature, {"texts": "Once upon a time", "tokens": 8})
    final = ExplorationRun(what, engine, lambda: bool(steps)).advance(progress=steps.append)
    assert final.done == 1 and final.result and final.result.machine["threads"] >= 1


def failing(engine: Engine, when: Callable[[Any], bool]) -> Any:
    """The engine, of which some decodes fail."""

    def decode(prompt: str, config: Any, **options: Any) -> Iterator[Any]:
        if when(config):
            raise OutOfMemory("The device ran out of memory.", hint="Use a smaller γ.")
        return engine.decode(prompt, config, **options)

    found = copy.copy(engine)
    found.decode = decode  # type: ignore[method-assign]  # a fake
    return found


def test_a_cell_that_fails_is_left_out_and_keeps_what_it_measured(engine: Engine) -> None:
    asked: list[tuple[int, int]] = []

    def fails(config: Any) -> bool:
        asked.append((config.gamma, config.steps))
        return asked[-1] == (4, 2) or asked.count((2, 1)) > 1

    final = explore(WindowMap, failing(engine, fails), **{**MAP, "steps": "1,2"})
    rows = {(row["gamma"], row["steps"]): row for row in final.result.rows}
    assert {key for key, row in rows.items() if row.get("failed") == "The device ran out of memory."} == {
        (4, 2),
        (2, 1),
    }
    assert "speedup" not in rows[4, 2] and rows[2, 1]["speedup"]
    assert [row["prompts"] for row in rows.values()] == [1, 2, 2, 0]
    assert final.done == final.total
    assert sorted(race.count("@") for race in final.races) == [0] * 3 + [1] * 2, "one for each kind of text"


@pytest.mark.parametrize(
    ("kind", "values"), [(WhichText, {"tokens": 32, "methods": "specdiff,dflash"}), (Temperature, HEATED)]
)
def test_what_fails_has_no_numbers_of_another_run(
    engine: Engine, kind: type[Exploration], values: dict[str, Any]
) -> None:
    final = explore(
        kind,
        failing(engine, lambda config: config.drafter == "block" or config.draft_temperature == 0.7),
        flavours="stories",
        per_flavour=1,
        **values,
    ).result
    if kind is WhichText:
        assert {row["method"] for row in final.rows} == {"vanilla", "specdiff"}
        assert final.facts["skipped"] == ["Block diffusion (DFlash): The device ran out of memory."]
    else:
        assert all("failed" in row for row in final.rows if row["draft_temperature"] == 0.7)
        assert all(point["draft_temperature"] != 0.7 for point in final.facts["reliability"])


def test_lines_that_are_no_prompts_are_named_and_passed_over(engine: Engine) -> None:
    texts = "\n".join(
        [
            "Once upon a time",
            "{broken",
            '{"id": "a", "flavour": "mine", "prompt": "There was"}',
            "",
            '{"id": "a", "flavour": "mine", "prompt": "twice"}',
            "word " * 600,
        ]
    )
    prompts, skipped = parse(WindowMap, {"texts": texts}).prompts(engine)
    assert [prompt.prompt for prompt in prompts] == ["Once upon a time", "There was"]
    assert [line.split(":")[0] for line in skipped] == ["line 2", "line 5", "line 6"]
    saved_elsewhere = '\ufeff{"id": "a", "flavour": "mine", "prompt": "one\u2028two"}\r\n{"id": "b"}\r\nThere was\v\r'
    prompts, skipped = parse(WindowMap, {"texts": saved_elsewhere}).prompts(engine)
    assert [prompt.prompt for prompt in prompts] == ["one\u2028two", "There was"]
    assert [line.split(":")[0] for line in skipped] == ["line 2"]
    with pytest.raises(ConfigError, match="line 1"):
        parse(WindowMap, {"texts": "{"}).prompts(engine)
    with pytest.raises(ConfigError, match="no prompt"):
        parse(WindowMap, {"flavours": ""}).prompts(engine)


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
    row = predicted(BenchSetting("mdlm", 4, 3), own, vanilla, passes)
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
    rows = [{"predicted": 1.05, "speedup": 1.0}, {"predicted": 1.2, "speedup": 1.0}, {}]
    assert agreement(rows) == {"cells": 2, "within_10_percent": 0.5}


# What would it take?


def test_methods_are_placed_by_their_rounds(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(round_cost, "REPEATS", 1)
    monkeypatch.setattr(round_cost, "ROWS", (1, 2))
    monkeypatch.setattr(round_cost, "WINDOWS", (1,))
    all_methods, few = RoundCost.methods.fget, ("dflash", "prompt_lookup")
    monkeypatch.setattr(RoundCost, "methods", property(lambda self: {name: all_methods(self)[name] for name in few}))
    what, steps = parse(RoundCost, {**SMALL, "flavours": "stories"}), list[tuple[str, Any]]()
    final = ExplorationRun(what, engine).advance(progress=lambda step: steps.append((step.doing, step.answer())))
    timed = [f"bare passes: {name}" for name in ["none", *sorted(what.drafters)]]
    labels = [all_methods(what)[name][0].label for name in few]
    assert [doing for doing, _ in steps] == [*timed, labels[0], timed[0], labels[1], *timed], "runs between passes"
    assert [len(answer.facts["drafts"]) for _, answer in steps[: len(timed)]][:3] == [0, 1, 2]
    assert final.done == final.total == len(steps)
    for row in final.result.rows:
        assert row["cost"] == pytest.approx(row["tau"] / row["speedup"])
    assert set(final.result.facts["drafts"]) == set(parse(RoundCost, {}).drafters)


# Temperature, controllers, length, kinds of text.


def test_every_pair_of_temperatures(engine: Engine) -> None:
    heated = HEATED | {"flavours": "stories", "draft_temperatures": "0,1"}
    final = explore(Temperature, engine, per_flavour=1, **heated)
    rows = {(row["temperature"], row["draft_temperature"]): row for row in final.result.rows}
    assert list(rows) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(row["prompts"] == 1 for row in rows.values())
    drawn = [(one["temperature"], one["draft_temperature"]) for one in final.result.facts["reliability"]]
    assert drawn == [(0, 1), (1, 1)]
    places = final.result.facts["places"]
    assert len(places) == 1, "12 tokens of a text: one place"
    assert all(
        sum(map(mul, one["counts"], map(math.exp, one[side]))) == pytest.approx(1, abs=0.01)
        for one in places
        for side in "pq"
    )
    (figure,) = (one for one in final.result.report.figures if one.formula == "matched")
    assert figure.title in html_page("", final.result.report)
    assert [slider.name for slider in figure.sliders] == ["target", "drafter"]
    assert set(final.races) == {"0/0", "0/1", "1/0", "1/1"}


@pytest.mark.parametrize(("warm", "cool"), [(1.0, 1.0), (0.7, 1.3), (1.5, 0.4)])
def test_shortened_distributions_keep_their_acceptance_at_other_temperatures(warm: float, cool: float) -> None:
    generator = torch.Generator().manual_seed(5)
    p, q = (torch.randn(3000, generator=generator, dtype=torch.float64).mul(2.5).softmax(-1) for _ in range(2))
    q = (0.8 * p.log() + 0.4 * q.log()).softmax(-1)  # a drafter that resembles the target
    groups = shortened(p, q)
    assert sum(groups["counts"]) == 3000 and len(groups["counts"]) < 48
    counts = torch.tensor(groups["counts"])

    def heated(side: str, degree: float) -> torch.Tensor:
        return (torch.tensor(groups[side]).double() / degree + counts.log()).softmax(-1)

    exact = torch.minimum((p.log() / warm).softmax(-1), (q.log() / cool).softmax(-1)).sum()
    assert torch.minimum(heated("p", warm), heated("q", cool)).sum() == pytest.approx(float(exact), abs=0.01)


def test_the_fall_with_temperature_has_its_intervals_and_calibration_a_line_for_each_temperature() -> None:
    degrees, ends = (0.0, 0.4, 0.7, 1.0), {0.0: ("2.11", "2.57"), 1.0: ("1.13", "1.59")}
    rows = [
        {"temperature": degree, "draft_temperature": degree, "speedup": 2.5 - degree, "tau": 4 - degree, "prompts": 8,
         "alpha": 0.5, "race": f"{degree:g}/{degree:g}", "low": low, "high": high}
        for degree in degrees for low, high in [map(float, ends.get(degree, ("1", "3")))]
    ]  # fmt: skip
    bins = [{"tests": 9, "q": 0.5, "p": 0.4, "accepted": 0.6}]
    facts = {
        "reliability": [
            {"temperature": degree, "draft_temperature": draft, "tests": 9, "ece": 0.1, "bins": bins}
            for degree in degrees
            for draft in (0.4, 1.0)
        ]
    }
    report = parse(Temperature, {}).report(rows, facts)
    assert all(end in report.answer for both in ends.values() for end in both)
    certain = rows[-1] | {"draft_temperature": 0.0, "alpha": 0.39}
    (note,) = (note for note in parse(Temperature, {}).report([*rows, certain], facts).notes if "calibration" in note)
    assert "0.61 at worst (target 1, drafter 0)" in note
    calibration = next(figure for figure in report.figures if figure.key == "calibration")
    ideal, *lines = calibration.data
    assert ideal["y"] == [0, 1] and [line["y"] for line in lines] == [[0.4]] * len(degrees)


def test_reliability_is_counted_by_confidence() -> None:
    def tested(q: float, p: float, accepted: bool) -> events.Test:
        return events.Test(
            position=0, id=1, p=p, q=q, threshold=min(1.0, p / q), draw=0.5, accepted=accepted, kind="ratio"
        )

    tests = [(0.05, 0.05, True), (0.95, 0.5, False), (0.95, 0.7, True), (1.0, 1.0, True)]
    found = reliability([tested(*test) for test in tests])
    assert [bin["tests"] for bin in found["bins"]] == [1, 3]
    assert found["bins"][1]["accepted"] == pytest.approx(2 / 3)
    assert found["ece"] == pytest.approx(3 * abs((0.95 + 0.95 + 1.0) / 3 - (0.5 + 0.7 + 1.0) / 3) / 4)


def test_length_counts_every_token_but_the_first_rounds(engine: Engine) -> None:
    final = explore(WhichText, engine, methods="specdiff", flavours="stories", per_flavour=1, tokens=40, width=16)
    by_method: dict[str, list[Any]] = {}
    for row in final.result.rows:
        if row["group"] == "length":
            by_method.setdefault(row["method"], []).append(row)
    assert set(by_method) == {"vanilla", "specdiff"}
    assert sum(row["rounds"] for row in by_method["vanilla"]) == 39
    assert all(row["tau"] == 1 for row in by_method["vanilla"] if row["rounds"])
    assert [row["context"] for row in by_method["vanilla"]] == [16, 32, 48]
    drafted = sum(row["tau"] * row["rounds"] for row in by_method["specdiff"] if row["rounds"])
    assert 35 <= drafted <= 39


def test_every_tested_token_of_a_tree_is_of_one_kind(engine: Engine) -> None:
    method = "ddtree"
    final = explore(WhichText, engine, methods=method, tokens=32, per_flavour=1, flavours="stories")
    sums: dict[str, tuple[int, float]] = {}
    for row in final.result.rows:
        if row["group"] != "length":
            before = sums.get(row["group"], (0, 0.0))
            sums[row["group"]] = (before[0] + row["tested"], before[1] + row["tested"] * row["accepted"])
            assert -1e-9 <= row["low"] <= row["accepted"] <= row["high"] + 1e-9 <= 1 + 1e-8
    run = fold(read_trace(final.races[method]).lanes["drafted"])
    assert run.accepted < run.tested
    for tested, accepted in sums.values():
        assert run.tested - tested <= 1, "the last round may test past the end of the text"
        assert accepted == pytest.approx(run.accepted, abs=1)


@pytest.mark.parametrize(
    ("piece", "line", "kind"),
    [
        ("\n", "Hello", "line end"),
        ("    ", "", "indentation"),
        (" 12", "is", "number"),
        ("3.5", "x ", "number"),
        (",", "Hello", "symbol"),
        (' "', "said", "quotation mark"),
        ("ing", "sing", "end of a word"),
        (" Tom", "a boy called", "name"),
        (" Tom", "It rained.", "word"),
        (" dog", "the", "word"),
        (" dog", 'He said "the', "inside quotation marks"),
    ],
)
def test_kinds_of_tokens(piece: str, line: str, kind: str) -> None:
    assert token_kind(piece, line) == kind


# Which method?


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


# What is recorded.


def changed(ours: Any, theirs: Any) -> list[str]:
    """Where two values differ by more than the six digits of a file explain."""
    return [*differences(*(msgspec.json.decode(msgspec.json.encode(one)) for one in (ours, theirs)), close=1e-3)]


RECORDED = sorted(path for tab in ("explore", "compare") for path in (ASSETS / tab).glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_answer_says_what_its_numbers_say(path: Path) -> None:
    """This version makes the same report of its rows, and the races that ship are there."""
    final = msgspec.json.decode(path.read_bytes(), type=ExplorationResult)
    report = parse(EXPLORATIONS[final.name], final.settings).report(final.rows, final.facts)
    assert not changed(final.report, report), "`explore show FILE --json FILE` draws it anew"
    assert report.answer and all(figure.data or figure.formula or figure.key == "three" for figure in report.figures)
    assert all((path.parent / file).is_file() for file in final.files.values())


# Budget.


def test_the_worked_problems_are_right() -> None:
    assert len({problem.prompt for problem in PROBLEMS}) == len(PROBLEMS) == VARIANTS * len(FORMS) >= 200
    for problem in PROBLEMS:
        for step in problem.steps:
            left, sign, right, result = re.search(r"(\d+) ([-+*/]) (\d+) = (\d+)", step).groups()
            a, b = int(left), int(right)
            assert {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign] == int(result), step
        assert f"= {problem.answer} " in problem.steps[-1]
        assert problem.begun(0) == problem.prompt
        assert problem.begun(len(problem.steps)) == f"{problem.prompt} " + "\n".join([*problem.steps, ""])
    two = next(problem for problem in PROBLEMS if len(problem.steps) == 2)
    assert two.begun(1) == f"{two.prompt} {two.steps[0]}\n"


@pytest.mark.parametrize(
    ("line", "prompt", "steps", "answer"),
    [
        ("What is 3 + 4? | 7", "Question: What is 3 + 4?\nAnswer:", (), "7"),
        ("a | b, which? | $1,200.50", "Question: a | b, which?\nAnswer:", (), "1200.5"),
        (
            '{"question": "Eggs?", "answer": "She has 4 * 2 = <<4*2=8>>8 eggs.\\n8 - 9 = -1 are left.\\n#### -1"}',
            "Question: Eggs?\nAnswer:",
            ("She has 4 * 2 = 8 eggs.", "8 - 9 = -1 are left."),
            "-1",
        ),
        ('{"question": "Half?", "answer": 0.50, "id": 3}', "Question: Half?\nAnswer:", (), "0.5"),
        ('{"problem": "Half?", "answer": "\\\\dfrac12"}', "Question: Half?\nAnswer:", (), "0.5"),
        (
            '{"problem": "Roots?", "answer": "They are $1 \\\\pm \\\\sqrt2$.\\nSo \\\\boxed{1 + \\\\sqrt{2}}."}',
            "Question: Roots?\nAnswer:",
            ("They are $1 \\pm \\sqrt2$.", "So \\boxed{1 + \\sqrt{2}}."),
            "1+\\sqrt{2}",
        ),
    ],
)
def test_a_visitors_line_is_a_problem(line: str, prompt: str, steps: tuple[str, ...], answer: str) -> None:
    found = read_problem(line)
    assert (found.prompt, found.steps, found.answer) == (prompt, steps, answer)
    for text in (f" The answer is {answer}.", f"so it is \\boxed{{{answer}}}"):
        assert canonical(answered(text)) == found.answer


def test_the_visitors_own_problems_take_the_place_of_the_labs(engine: Engine) -> None:
    good = ["What is 3 + 4? | 7", '{"question": "Eggs?", "answer": "4 * 2 = 8 eggs.\\n8 - 1 = 7 are left.\\n#### 7"}']
    bad = ["no number here", f"What? | {'x' * 61}", '{"question": "?"}', "{broken", good[0], "word " * 600 + "| 3"]
    texts = "\n".join([good[0], *bad, "", good[1]])
    final = explore(Budget, engine, texts=texts, methods="specdiff", problems=5, attempts=1, tokens=8, given="most")
    facts = final.result.facts
    assert facts["problems"] == [
        {"prompt": "Question: What is 3 + 4?\nAnswer:", "answer": "7"},
        {"prompt": "Question: Eggs?\nAnswer:", "answer": "7"},
    ]
    assert [line.split(":")[0] for line in facts["skipped"]] == [f"line {number}" for number in range(2, 8)]
    assert facts["given"] == "most"
    plain = explore(Budget, engine, texts="1? | 1\n2? | 2", methods="specdiff", attempts=1, tokens=8).result
    assert plain.facts["given"] == "none", "nothing was worked out"
    with pytest.raises(ConfigError, match=r"None of your problems can be used, .* line 1: there is no question"):
        explore(Budget, engine, texts="\n".join(bad[:4]))
    with pytest.raises(ConfigError, match="1 of your problems can be used"):
        explore(Budget, engine, texts=good[0])


def check_attempts(rows: list[dict[str, Any]], facts: dict[str, Any]) -> dict[str, list[list[Attempt]]]:
    """Check a budget's rows and facts against its attempts, and return the attempts."""
    found = {
        name: [
            [Attempt(*one) for one in zip(*texts, strict=True)]
            for texts in zip(own["seconds"], own["answers"], strict=True)
        ]
        for name, own in facts["attempts"].items()
    }
    assert all(said == canonical(said) for own in found.values() for each in own for _, said in each)
    again, singles = curves(found, [problem["answer"] for problem in facts["problems"]])
    assert not changed([{name: row[name] for name in again[0]} for row in rows], again)
    assert not changed(facts["single"], singles)
    return found


@pytest.mark.parametrize("name", ["budget", "budget.smollm2"])
def test_a_recorded_budget_is_what_its_attempts_say(name: str) -> None:
    final = json.loads((ASSETS / "explore" / f"{name}.json").read_text())
    budget, rows, facts = parse(Budget, final["settings"]), final["rows"], final["facts"]
    check_attempts(rows, facts)
    assert len(facts["problems"]) >= 200 and {row["problems"] for row in rows} == {len(facts["problems"])}
    report = budget.report(rows, facts)
    assert report.answer == final["report"]["answer"]
    fastest = max(facts["single"].values(), key=lambda row: row["speedup"])
    assert fastest["low"] > 1, "the problems separate it from vanilla"
    assert all(ratio(fastest[end]) in report.answer for end in ("low", "high"))
    drawn = {trace.get("name"): trace for trace in report.figures[0].data}
    (published,) = (trace for label, trace in drawn.items() if "SpecDiff-2" in label)
    assert dict(zip(published["y"], published["x"], strict=True)) == {0.55: 15, 0.81: 15, 0.90: 15}


def test_all_methods_of_a_budget_are_lossless() -> None:
    for pair in ("embedded", "smollm2"):
        base = parse(Budget, {"pair": pair, "methods": "dflash"}).base
        assert all(method.config(base).rule.lossless for method in METHODS)


def test_problems_may_follow_two_solved_ones(engine: Engine) -> None:
    budget = parse(Budget, {"given": "examples", "pair": "smollm2", "methods": "dflash"})
    assert (budget.base.stops, budget.base.template.value) == (("\n",), "plain")
    for text, answer in ((" Tom has 2 + 2 = 4 apples. The answer is 4.\n", "4"), (" The answer is 4 apples.", "4")):
        last = events.Finished(reason="stop_string", text=text, ids=(1,), rounds=1, seconds=0.5, seconds_by={})
        assert read_attempt([last]).answer == answer
    final = explore(Budget, engine, given="examples", methods="specdiff", problems=2, attempts=1, tokens=8)
    first = read_trace(final.races["specdiff"])
    assert fold(first.lanes["drafted"]).committed <= 8
    assert final.result.facts["given"] == "examples" and EXAMPLES.count("The answer is") == 2
    check_attempts(final.result.rows, final.result.facts)


def test_the_largest_seed_has_room_for_all_attempts() -> None:
    for kind in (Budget, WindowMap):
        (most,) = (field["high"] for field in kind.form() if field["name"] == "seed")
        lab.DecodeConfig(seed=most + 64 * 7 * len(PROBLEMS))
        parse(kind, {"seed": most})


def test_a_budget_is_measured_attempt_by_attempt(engine: Engine) -> None:
    """Also where somebody presses Stop: what was done by then is whole."""
    steps: list[Step] = []
    what = parse(Budget, {"methods": "specdiff", "problems": 2, "attempts": 2, "tokens": 8})
    final = ExplorationRun(what, engine, lambda: len(steps) >= 3).advance(progress=steps.append)
    assert (final.done, final.total) == (3, 4)
    facts = steps[-1].answer().facts
    attempts = check_attempts(final.result.rows, final.result.facts)
    assert all(one.seconds > 0 for each in attempts.values() for own in each for one in own)
    assert {name: [len(own) for own in each] for name, each in attempts.items()} == {
        "vanilla": [2, 1],
        "specdiff": [2, 1],
    }
    assert facts["problems"][0]["prompt"] == PROBLEMS[0].prompt
    lanes = read_trace(final.races["specdiff"]).lanes
    seeds = [next(event.config for event in lane if isinstance(event, events.RunStarted)) for lane in lanes.values()]
    assert len({config.seed if hasattr(config, "seed") else config["seed"] for config in seeds}) == 2, "independent"
    first = fold(lanes["drafted"])
    assert first.seconds == pytest.approx(attempts["specdiff"][0][0].seconds, rel=1e-3)


# Watch a drafter learn.

LEARN: dict[str, Any] = {"seconds": 5, "tokens": 32, "per_flavour": 2}


def test_two_drafters_learn_and_the_loaded_weights_stay(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, little in {"COPIES": 4, "TOGETHER": 3, "VARIANTS": 2, "RACED": 1, "MEASUREMENTS": 3}.items():
        monkeypatch.setattr(learn, name, little)
    what, steps = (
        msgspec.structs.replace(parse(Learn, LEARN), seconds=0.4, tokens=16),
        list[Step](),
    )  # at least 5 and 32
    final = ExplorationRun(what, engine).advance(progress=steps.append)
    assert final.done == final.total
    assert sum(step.done == 1 for step in steps) == 3, "others may decode before it writes, after 3 texts and after 4"
    rows, facts = final.result.rows, final.result.facts
    halves = [[row for row in rows if row["objective"] == learn.LABELS[name]] for name in (learn.TOKENS, learn.STREAK)]
    first, second = ([row["step"] for row in own] for own in halves)
    assert first == second and first[0] == 0 and len(first) > 1
    assert halves[0][0]["guess"] == halves[1][0]["guess"], "the same weights"
    assert halves[0][0]["tau"] == halves[1][0]["tau"] >= 1
    assert all(row["loss"] is None for row in rows[:2]) and all(row["loss"] > 0 for row in rows[2:])
    assert facts["learnt"] == ["own-stories-1"]
    lanes = (learn.UNTRAINED, learn.TOKENS, learn.STREAK)
    assert set(facts["race"]) == set(final.races) == {*lanes}
    drafted = read_trace(final.races[learn.STREAK]).lanes["drafted"]
    (header,) = (event for event in drafted if isinstance(event, events.RunStarted))
    assert header.config["drafter"] == learn.STREAK
    with pytest.raises(ConfigError, match=learn.STREAK):
        engine.drafter(learn.STREAK)

    for name, content in final.made.items():
        (tmp_path / name).write_bytes(content)
    raced = learn.with_drafters(engine, {learn.STREAK: tmp_path})
    lane: dict[str, Any] = {"gamma": 8, "max_new_tokens": 16, "ignore_eos": True}
    configs = [lab.DecodeConfig(drafter=name, **lane) for name in ("none", learn.STREAK)]
    assert len({list(raced.decode("Once upon a time", config))[-1].ids for config in configs}) == 1, (
        "at temperature 0 the target's text, whatever is drafted"
    )


@pytest.mark.slow
def test_what_is_measured_is_the_rounds_of_a_greedy_decode(engine: Engine, tmp_path: Path) -> None:
    what = parse(Learn, {})
    writer = learn._Writer(engine, 0)
    prompts = what.prompts(engine)[0][:3]
    corpus = writer.write([(engine.encode(prompt.prompt), 0.0) for prompt in prompts], 40)
    twin = learn._Twin(writer, learn.STREAK, tmp_path)
    from specdiff_core.train.answers import collate

    for step in range(60):  # until it knows them by heart, more or less
        twin.learn(collate(corpus), step, 1.0)
    row = twin.measure(corpus)
    raced = learn.with_drafters(engine, {learn.STREAK: twin.export(tmp_path / "export")})
    config = lab.DecodeConfig(drafter=learn.STREAK, gamma=learn.GAMMA, max_new_tokens=48, ignore_eos=True)
    rounds = 0
    for prompt, measured in zip(prompts, twin.accepted, strict=True):
        run = [event.accepted for event in raced.decode(prompt.prompt, config) if isinstance(event, events.Verified)]
        assert measured[:-1] == run[: len(measured) - 1]
        rounds += len(measured) - 1
    assert rounds >= 6 and row["tau"] > 1.2


def test_the_gain_of_a_loss_is_held_against_its_texts() -> None:
    # Many rounds of few texts are few: one text of eight has learned, and that may be chance.
    one = learn._change([[1] * 50] * 8, [[3] * 50] + [[1] * 50] * 7)
    assert one["value"] == pytest.approx((8 * 50 * 2 + 100) / (8 * 50 * 2))
    assert one["low"] < 1 < one["high"]
    # Texts differ widely, but each is held against itself.
    every = [[kept] * 20 for kept in range(8)]
    steady = learn._change(every, [[kept, kept + 1] * 10 for kept in range(8)])
    assert steady["value"] == pytest.approx(5 / 4.5)
    assert 1 < steady["low"] < steady["value"] < steady["high"]


# Two runs side by side.


def new_ids(final: Any, name: str) -> list[int]:
    """The new tokens of a run in the trace that holds all of them."""
    return [i for one in lanes_of(final)[name] if isinstance(one, events.Committed) for i in one.ids]


def lanes_of(final: Any) -> dict[str, Any]:
    return read_trace(final.races["runs"]).lanes


@pytest.mark.parametrize(
    ("values", "must"),
    [
        ({"a": "ddtree"}, True),
        ({"a": "vanilla", "rule": "block"}, True),
        ({"rule": "match", "temperature": 0.9, "seed": 3}, True),
        ({"temperature": 0.9, "seed": 3}, False),
        ({"rule": "naive", "temperature": 0.9, "seed": 3}, False),
    ],
    ids=str,
)
def test_rounds_follow_the_text_and_runs_part_only_where_they_may(
    engine: Engine, values: dict[str, Any], must: bool
) -> None:
    final = explore(SideBySide, engine, **{**TWO, **values})
    texts, facts = {name: new_ids(final, name) for name in ("a", "b")}, final.result.facts
    for name, ids in texts.items():
        rows = [row for row in final.result.rows if row["run"] == name]
        verdicts, position = [one for one in lanes_of(final)[name] if isinstance(one, events.Verified)], 0
        assert len(rows) == len(verdicts) > 3
        for row, verdict in zip(rows, verdicts, strict=True):
            assert row["position"] == position + 1
            assert row["text"].endswith(row["added"])
            assert (row["rejected"] is not None) == (verdict.source != "bonus" and bool(verdict.tests))
            if row["rejected"] is not None:
                assert (row["p"], row["u"]) == (verdict.tests[-1].p, verdict.tests[-1].draw)
                assert not verdict.tests[-1].accepted
            position += row["accepted"] + 1
        assert position == len(ids) == TWO["tokens"]
        assert "".join(row["text"] for row in rows) == engine.pair.tokenizer.decode(ids)
    assert facts["lossless"], "also naive: its windows are filled from left to right"
    assert facts["must_be_equal"] is (texts["a"] == texts["b"]) is must
    assert facts["first_difference"] == first_difference(texts["a"], texts["b"])


def test_the_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 5, 3]) == 2
    assert first_difference([4], [1]) == 1
    assert first_difference([1, 2], [1, 2, 3]) == 3


def test_a_branch_goes_on_from_the_token_that_was_put_there(engine: Engine) -> None:
    """At temperature 0 every later token is the target's likeliest."""
    plain, run = explore(SideBySide, engine, **TWO), "b"
    row = next(row for row in plain.result.rows if row["run"] == run and row["round"] > 2 and row["rejected"])
    verdict = [one for one in lanes_of(plain)[run] if isinstance(one, events.Verified)][row["round"] - 1]
    take = verdict.tests[-1].id
    final = explore(SideBySide, engine, **TWO, branch=run, round=row["round"], take=take)
    assert [new_ids(final, name) for name in ("a", "b")] == [new_ids(plain, name) for name in ("a", "b")]
    before = new_ids(plain, run)[: row["position"] - 1 + row["accepted"]]
    prefix = [*engine.encode(parse(SideBySide, {}).prompt), *before, take]
    branch = new_ids(final, BRANCH)
    assert lanes_of(final)[BRANCH][1].prompt_ids == tuple(prefix)
    assert len(before) + 1 + len(branch) == TWO["tokens"]
    target = engine.target.start()
    target.read(prefix[:-1])
    logits = target.score([take, *branch[:-1]]).logits.clone()
    logits[:, list(engine.target.suppress)] = -math.inf
    assert logits.argmax(-1).tolist() == branch
    found = final.result.facts["branch"]
    assert (found["run"], found["position"], found["take"]) == (run, len(before) + 1, take)
    assert (found["token"], found["instead_of"]) == (row["rejected"], row["added"])
    old = new_ids(plain, run)[len(before) + 1 :]
    assert found["same"] == sum(one == other for one, other in zip(old, branch, strict=True)) < len(branch)
    rows = [one for one in final.result.rows if one["run"] == BRANCH]
    assert rows[0]["position"] == len(before) + 2
    assert all(one["milliseconds"] is None for one in rows)


def test_a_branch_may_be_drawn_anew(engine: Engine) -> None:
    choice = {**TWO, "tokens": 12, "temperature": 0.9, "branch": "a", "round": 3}
    seeds = {seed: explore(SideBySide, engine, **choice, branch_seed=seed) for seed in (1, 2)}
    texts = {seed: new_ids(final, BRANCH) for seed, final in seeds.items()}
    assert texts[1] != texts[2]
    for seed, final in seeds.items():
        position = final.result.facts["branch"]["position"] - 1
        assert position + len(texts[seed]) == choice["tokens"]
        assert next(row for row in final.result.rows if row["run"] == BRANCH)["position"] == position + 1


def test_a_run_cannot_go_on_from_more_than_fits(engine: Engine) -> None:
    config = lab.DecodeConfig(drafter="none", max_new_tokens=4)
    with pytest.raises(ContextOverflow):
        next(iter(engine.decode("Once", config, after=[5] * engine.pair.spec.context)))


# Losslessness.


def test_the_smallest_biased_case_is_caught_and_exact_rules_are_not(engine: Engine) -> None:
    final = explore(Losslessness, engine, rules="ratio,block,delta,match,naive", runs=200)
    last = {row["rule"]: row for row in final.result.rows if row["runs"] == 200}
    assert last["naive"]["p_value"] < 1e-6
    assert last["naive"]["bias_low"] < 0.25 < last["naive"]["bias_high"]  # P(y₁ = y₂) = ¾ (docs/theory.md)
    assert {rule: row["lossless"] for rule, row in last.items()} == {
        rule: rule != "naive" for rule in ("ratio", "block", "delta", "match", "naive")
    }
    for rule in ("ratio", "block", "delta", "match"):
        assert last[rule]["p_value"] > 1e-3, rule
        assert last[rule]["distance"] < 2 * last[rule]["floor_high"], rule
    assert [row["exact"] for row in final.result.facts["joint"]] == [0.25] * 4


def laws(p: np.ndarray, q: np.ndarray, raw: np.ndarray) -> dict[str, np.ndarray]:
    """The distribution of each engine's first token: ``p`` and ``q`` after top-k, ``raw`` q before it, ``[V]``."""

    def tested(drawn: np.ndarray, q: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            passed = np.where(q > 0, drawn * np.minimum(1, p / q), 0)
        rest = np.maximum(p - q, 0)
        return passed + (1 - passed.sum()) * rest / rest.sum()

    ends = np.cumsum(q)
    begins = ends - q
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(q > 0, np.minimum(1, p / q), 0)
    twice = np.clip(np.minimum(ends, limits) - begins, 0, None)
    rest = np.maximum(p - q, 0)
    kept, best = np.where(q > 0, raw, 0), np.eye(len(q))[q.argmax()]
    heated = np.sqrt(q)
    both = np.minimum(p, q)
    return {
        "right": p,
        "bonus": p,
        "uniform": twice + (1 - twice.sum()) * rest / rest.sum(),
        "greedy": tested(best, q),
        "residual": both + (1 - both.sum()) * p,
        "top_k": tested(kept / kept.sum(), raw),
        "temperature": tested(heated / heated.sum(), q),
    }


def test_every_broken_engine_has_its_bug_and_no_other(engine: Engine) -> None:
    what = parse(Losslessness, {"models": "engines", "runs": 600, "seed": 1})
    target, drafter, prompt = losslessness._models(what, engine)
    config = what.config("ratio", 0)
    p, q = (
        to_probs(logits, sampling, (engines.SYMBOLS,)).numpy()
        for logits, sampling in (
            (target.logits(prompt), config.sampling),
            (drafter.logits(prompt, 2)[0], config.draft_sampling),
        )
    )
    law = laws(p, q, drafter.logits(prompt, 2)[0].exp().numpy())
    final = explore(Losslessness, engine, models="engines", runs=600, seed=1).result
    facts, runs = final.facts, 600
    assert sorted(facts["hidden"].values()) == sorted(law)
    assert final.rows[0]["runs"] == losslessness.FIRST == 10
    for letter, name in facts["hidden"].items():
        seen = np.array([row[letter] for row in facts["places"] if row["place"] == 1]) * runs
        assert chi_squared(seen, law[name][:-1] * runs) > 1e-4, name
    places = [row for row in facts["places"] if row["place"] == 1]
    assert [row["exact"] for row in places] == pytest.approx(p[:-1].tolist())
    assert facts["alpha"] == pytest.approx(float(np.minimum(p, q).sum()))
    assert not any(what in str(final.report) for what, _ in engines.MISTAKES.values()), "nothing is given away"
    assert "lossless" not in final.rows[0]
    with pytest.raises(ConfigError, match="too many outcomes"):
        parse(Losslessness, {"models": "engines", "gamma": 3}).check()


def test_the_recorded_engines_are_found_out_and_the_right_one_is_not() -> None:
    final = json.loads((ASSETS / "explore" / "losslessness.engines.json").read_text())
    facts, rows = final["facts"], final["rows"]
    assert facts["hidden"] == engines.hidden(final["settings"]["seed"])
    assert facts["found"] == losslessness.found(rows)
    for letter, name in facts["hidden"].items():
        own = [row for row in rows if row["rule"] == letter]
        assert (own[0]["runs"] == 10 and own[0]["p_value"] > losslessness.PVALUE) or name == "bonus"
        assert (facts["found"][letter] is None) == (name == "right"), name


def test_others_keep_their_threads_while_it_is_paused(engine: Engine) -> None:
    before, seen = torch.get_num_threads(), list[int]()
    torch.set_num_threads(2)
    try:
        steps = parse(Losslessness, {"runs": 200, "rules": "ratio"}).explore(engine, lambda: False)
        for _ in steps:
            seen.append(torch.get_num_threads())
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {2}


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (
            Losslessness,
            {"models": "mdlm", "rules": "ratio", "runs": 200, "length": 1, "top_k": 2, "gamma": 1, "steps": 1},
        ),
        (Doctor, {"drafter": "mdlm", "per_flavour": 1, "flavours": "stories", "tokens": 16}),
    ],
    ids=["losslessness", "doctor"],
)
def test_the_engine_of_other_runs_is_never_changed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kind: type[Exploration], values: dict[str, Any]
) -> None:
    """Nor its drafters: others decode with them at the same time. It may look for another number of threads."""
    shared = (engine, *(engine.drafter(name) for name in ("none", "mdlm")))

    def refuse(one: Any, name: str, value: Any) -> None:
        assert name == "_threads" or not any(one is other for other in shared), name
        object.__setattr__(one, name, value)

    for one in shared:
        monkeypatch.setattr(type(one), "__setattr__", refuse)
    explore(kind, engine, **values)


DRAFTS: dict[str, Any] = {"rules": "self,trie,multi_round", "steps": 1, "runs": 200}


@pytest.mark.parametrize(
    "values",
    [
        {**DRAFTS, "models": "coins", "num_drafts": 3},
        slow({**DRAFTS, "models": "tables", "num_drafts": 4, "gamma": 3, "length": 3, "seed": 2}),
        slow({**DRAFTS, "models": "mdlm_streak", "num_drafts": 2, "runs": 200}),
        slow({"models": "tables", "order": "random", "gamma": 3, "steps": 3, "length": 3}),
        {"models": "tables", "order": "value_confidence", "steps": 1, "seed": 3},
        slow({"models": "tables", "temperature": 0, "draft_temperature": 1}),
        slow({"models": "mdlm_streak", "order": "entropy", "top_k": 3, "runs": 200}),
    ],
    ids=str,
)
def test_exact_rules_keep_the_distribution_in_every_order(engine: Engine, values: dict[str, Any]) -> None:
    final = explore(Losslessness, engine, **{"rules": "ratio,block,delta,match", "runs": 200, **values}).result
    assert sum(row["exact"] for row in final.facts["joint"]) <= 1 + 1e-9
    for row in final.rows[-len(final.settings["rules"]) :]:
        assert row["lossless"]
        assert row["p_value"] > 1e-3, row
        assert row["distance"] <= 2 * row["floor_high"], row  # both 0 at temperature 0


def test_the_exact_distribution_is_the_networks_own(engine: Engine) -> None:
    what = parse(Losslessness, {"models": "mdlm", "length": 2, "top_k": 2})
    target, _, prompt = losslessness._models(what, engine)
    run = engine.target.start()
    run.read(prompt[:-1])
    first = to_probs(run.score(prompt[-1:]).logits, what.config("ratio", 0).sampling, engine.target.suppress)[0]
    distribution = losslessness.exact_distribution(what, target, prompt)
    assert len(distribution) == 4
    for token in first.nonzero()[:, 0].tolist():
        second = to_probs(run.score([token]).logits, what.config("ratio", 0).sampling, engine.target.suppress)[0]
        assert [distribution[token, next] for next in second.nonzero()[:, 0].tolist()] == pytest.approx(
            (first[token] * second[second > 0]).tolist(), abs=1e-6
        )
        run.rollback(1, ())


# The files.


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
    assert set(read_trace(out.parent / final["files"]["mdlm/2/1"]).lanes) == {"vanilla", "drafted"}
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


def test_all_runs_use_as_many_threads() -> None:
    decoder = FakeDecoder()
    what = parse(WindowMap, {**MAP, "flavours": "stories", "gammas": "2", "steps": "1"})
    cells = {cell.key: cell.config(what.base) for cell in what.cells()}
    runs = Runs(decoder, what.base, cells, what.prompts(decoder)[0], lambda: False)
    list(runs.fill())
    assert set(decoder.asked_threads) == {runs.threads} == {2}
