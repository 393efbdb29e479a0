"""Measuring without a model: settings, prompts, order, sweeps, numbers by hand, files."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from app_fakes import FakeDecoder
from fakes import ORIGIN
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.prompts import write_prompts
from benchmarks.report import KINDS
from specdiff_core import cli
from specdiff_core.measure.grid import VANILLA, BenchSetting, listed
from specdiff_core.measure.prompts import Prompt, own_prompts
from specdiff_core.measure.race import interleave, race, race_repeatedly
from specdiff_core.measure.runner import plan, sweep, weights_digest
from specdiff_core.measure.statistics import FEW, Resampled, chi_squared, costs, interval, ratios, student
from specdiff_core.measure.store import RowLog, Rows, RunRow, read_result
from specdiff_core.measure.sweep import SettingResult, Sweep, aggregate, speeds, sweep_result, whole_turns
from specdiff_core.provenance import command as command_text
from specdiff_core.provenance import git_state, provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event, Finished, Prefilled, RoundStarted, Span
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.pairs import EMBEDDED, PAIRS
from specdiff_core.schema.settings import DecodeConfig

pytestmark = pytest.mark.usefixtures("no_weights")
PROMPTS = tuple(Prompt(id=f"{f}-{i}", flavour=f, prompt=f"{f} {i}") for f in ("math", "code") for i in range(2))
BASE = DecodeConfig(max_new_tokens=12)
SETTINGS = (VANILLA, BenchSetting("block", 4, 2), BenchSetting("block", 4, 1, 0, 2, "trie"))
BLOCK = SETTINGS[1].key


def measured(path: Path | None = None, repeats: int = 2, **others: Any) -> RowLog[RunRow]:
    """A whole sweep of the scripted decoder."""
    given = {"engine": FakeDecoder(), "prompts": PROMPTS, "settings": SETTINGS, "base": BASE} | others
    *_, (done, total, log) = sweep(**given, repeats=repeats, path=path)
    assert done == total
    return log


def row(prompt: str, setting: str, seconds: float, tokens: int = 10, rounds: int = 5, **others: Any) -> RunRow:
    parts = {"draft": 0.2, "score": 0.5, "verify": 0.1, "prefill": 0.1}
    metrics = Metrics(
        rounds=rounds, committed=tokens, seconds=seconds, seconds_by={k: v * seconds for k, v in parts.items()},
        tested=8, accepted=6, tested_at=(5, 3), accepted_at=(3, 3), peak_bytes=7, waited_seconds=0.25 * seconds,
    )  # fmt: skip
    values = {"repeat": 0, "reason": "length", "text": "t", **others}
    return RunRow(prompt=prompt, flavour=prompt.split("-")[0], setting=setting, metrics=metrics, **values)


ROWS = [
    row("math-0", "none/1/1", 4.0), row("math-0", "block/8/1", 1.0),
    row("math-1", "none/1/1", 2.0), row("math-1", "block/8/1", 2.0, text="other"),
    row("code-0", "none/1/1", 9.0), row("code-0", "block/8/1", 3.0),
]  # fmt: skip


# What is measured.


def test_settings_one_by_one() -> None:
    keys = ["block/9/1", "block/9/1/12", "masked/8/1/0/4/trie", "block/16/1/auto", "block/9/1"]
    settings = listed(keys, BASE)
    assert [setting.key for setting in settings] == ["none/1/1", *keys[:-1]]
    assert all(BenchSetting.parse(setting.key) == setting for setting in settings)
    assert settings[-1].config(BASE).auto and not settings[1].config(BASE).auto
    alike = listed(["autoregressive/4/1", "autoregressive/4/4", "none/7/3", "block/9/4/12"], BASE)
    assert [setting.key for setting in alike] == ["none/1/1", "autoregressive/4/4", "block/9/1/12"]
    config = BenchSetting.parse("masked_streak/9/1/0/8/trie").config(BASE)
    assert (config.num_drafts, config.selection.value, config.tree_nodes) == (8, "trie", 0)
    assert BenchSetting.of_config(config).key == "masked_streak/9/1/0/8/trie"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("block/x/1", "is not a setting"),
        ("block", "is not a setting"),
        ("block/9/1/0/4/self/more", "is not a setting"),
        ("block/20/1", "doesn't support"),
        ("prompt_lookup/9/1/auto", "doesn't support"),
        ("autoregressive/4/4/12", "doesn't support"),
        ("block/9/1/0/4/self/auto", "doesn't support"),
        ("autoregressive/4/1/0/2/self", "doesn't support"),
        ("block/9/1/12/4/self", "be combined"),
        ("medusa/4/1", "no drafter"),
    ],
)
def test_a_setting_that_cannot_be_measured_is_refused(key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        listed([key], BASE)


def test_own_prompts_take_turns() -> None:
    assert len({prompt.id for prompt in own_prompts()}) == 20
    assert [prompt.flavour for prompt in own_prompts(3)] == ["dialogue", "stories", "math", "code"] * 3
    assert [prompt.id.rsplit("-", 1)[1] for prompt in own_prompts(3)] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4


# The numbers.


def test_speed_up_by_hand() -> None:
    """math: (4+2)/(1+2) = 2, code: 9/3 = 3, mean of flavours 2.5 (not 15/6)."""
    rows = whole_turns([*ROWS, row("math-0", "block/8/1", 99.0, repeat=-1)])
    vanilla, block = aggregate(rows)
    assert vanilla.drafter == "none"
    assert vanilla.speedup.value == pytest.approx(1.0)
    assert block.speedup_by_flavour["math"].value == pytest.approx(2.0)
    assert msgspec.structs.astuple(block.speedup_by_flavour["code"])[:3] == pytest.approx((3.0, 3.0, 3.0))
    assert block.speedup.value == pytest.approx(2.5)
    # Each of two prompts alone: 4/1 = 4, 2/2 = 1; with code's 3 their means are (4+3)/2 and (1+3)/2.
    for found, alone in ((block.speedup_by_flavour["math"], 4 / 1), (block.speedup, 3.5 / 2)):
        factor = alone ** (student(0.975, 1) / 2)
        assert (found.low, found.high) == pytest.approx((found.value / factor, found.value * factor))
    assert block.tau == pytest.approx(2.0) and block.rates["tau"].value == block.tau
    assert block.alpha == pytest.approx(18 / 24)
    assert block.alpha_at == pytest.approx((9 / 15, 1.0))
    assert block.seconds_by == pytest.approx({"draft": 1.2, "verify": 3.6, "prefill": 0.6, "other": 0.6})
    assert block.tokens_per_second == pytest.approx(30 / 6)
    assert (block.same_text_as_vanilla, block.prompts) == (2, 3)
    assert block.waiting == pytest.approx(0.25)
    assert sum((one.metrics for one in ROWS), Metrics()).peak_bytes == 7, "the largest, not the sum"


def test_an_interval_counts_tokens_is_seeded_and_holds_the_value() -> None:
    assert interval({"a": (10.0, 100)}, {"a": (4.0, 80)}, {"x": ["a"]})["x"].value == pytest.approx(0.1 / 0.05)
    assert costs([("a", 1.0, 20), ("b", 3.0, 5), ("a", 2.0, 30)]) == {"a": (3.0, 50), "b": (3.0, 5)}, "its repeats"
    slow = {str(i): (4.0 + i % 3, 10) for i in range(20)}
    fast = {str(i): (2.0 + i % 2, 10) for i in range(20)}
    found = interval(slow, fast, {"all": list(slow)})
    assert found == interval(slow, fast, {"all": list(slow)})
    assert found["mean"].low < found["mean"].value < found["mean"].high
    few, enough = (interval(slow, fast, {"many": list(slow), "few": list(slow)[:count]}) for count in (2, FEW))
    assert {one.by for one in few.values()} == {"student"} and {one.by for one in enough.values()} == {"bootstrap"}
    none = ratios({"a": (5.0, 0), "b": (5.0, 3)}, {"all": ["a", "b"]})["all"]
    assert (none.low, none.value, none.high) == pytest.approx((none.low, 0.3, 0.6 - none.low)), "0 has no logarithm"
    assert found["mean"].value == pytest.approx(sum(s for s, _ in slow.values()) / sum(s for s, _ in fast.values()))


def test_tau_and_alpha_are_means_of_the_kinds_as_the_speed_up_is() -> None:
    """A kind of text with many rounds must not weigh more in τ than in the speed-up: lookup's τ was 1.72 at 1.73×."""
    easy = [row(f"math-{i}", "block/8/1", 4.0, tokens=40, rounds=10) for i in range(3)]
    hard = [row(f"code-{i}", "block/8/1", 8.0, tokens=40, rounds=40) for i in range(3)]
    vanilla = [row(one.prompt, "none/1/1", 16.0, tokens=40, rounds=40) for one in (*easy, *hard)]
    _, block = aggregate([*vanilla, *easy, *hard])
    assert block.tau_by_flavour == {"math": 4.0, "code": 1.0}
    assert (block.tau, block.speedup.value) == pytest.approx((2.5, 3.0)), "pooled, τ would be 240 / 150"
    assert block.rates["tau"].low == pytest.approx(2.5), "prompts that do not differ"


def test_two_settings_are_compared_prompt_by_prompt_and_the_rows_give_the_interval_again() -> None:
    """One is 5 % slower on each prompt, which intervals over prompts that differ threefold cannot show."""
    measured = [row(f"math-{i}", "none/1/1", 3.0) for i in range(6)]
    for i in range(6):
        seconds = 0.5 * (1 + i)
        measured += [row(f"math-{i}", "block/8/1", seconds), row(f"math-{i}", "block/4/1", 1.05 * seconds)]
    measured += [row("math-9", "block/8/1", 7.0)]  # of which the other has no run
    rows = Rows("none/1/1", measured)
    *_, slower = aggregate(whole_turns(measured))
    assert slower.behind and 1 < slower.behind.low <= slower.behind.value == pytest.approx(1.05)
    every = {"all": [f"math-{i}" for i in range(6)]}
    best, other = (rows.speedups(key, every)["all"] for key in ("block/8/1", "block/4/1"))
    assert other.high > best.low, "the intervals overlap"
    paired = rows.speedups("block/8/1", every, "block/4/1")["all"]
    assert 1 < paired.low <= paired.value == pytest.approx(1.05)
    table = [one for key in rows.by_setting for one in rows.by_prompt(key, {"setting": key})]
    spent = {
        key: {one["prompt"]: (one["seconds"], one["committed"]) for one in table if one["setting"] == key}
        for key in ("block/8/1", "block/4/1")
    }
    again = interval(spent["block/4/1"], spent["block/8/1"], every)["all"]
    assert msgspec.structs.astuple(again) == pytest.approx(msgspec.structs.astuple(paired)[:3] + (paired.by,))


@pytest.mark.parametrize("counts", [[2], [4], [8], [5, 5]])
def test_intervals_over_few_prompts_contain_the_value_as_often_as_they_say(counts: list[int]) -> None:
    rng = np.random.default_rng(0)
    groups = {str(group): [f"{group}-{i}" for i in range(count)] for group, count in enumerate(counts)}
    prompts, ratio, hits = list(chain(*groups.values())), 2 * math.exp(-(0.25**2) / 2), np.zeros(2)
    for _ in range(200):
        slow, noise = rng.lognormal(0, 0.1, len(prompts)), rng.lognormal(0, 0.25, len(prompts))
        before = {prompt: (float(seconds), 64) for prompt, seconds in zip(prompts, slow, strict=True)}
        after = {prompt: (before[prompt][0] * float(one) / 2, 64) for prompt, one in zip(prompts, noise, strict=True)}
        sampled = Resampled([len(prompts)])
        total, count = sampled.sums(0, [[value, 1] for value in rng.normal(size=len(prompts))])
        speed, mean = interval(before, after, groups)["mean"], sampled.interval(total / count, positive=False)
        hits += speed.low <= ratio <= speed.high, mean.low <= 0 <= mean.high
    assert (hits / 200 > (0.9, 0.85 if len(prompts) >= FEW else 0.9)).all()


def test_the_quantiles_of_students_t() -> None:
    for freedom, quantile in ((1, 12.706), (3, 3.182), (9, 2.262), (1000, 1.962)):
        assert student(0.975, freedom) == pytest.approx(quantile, abs=1e-3)


def test_the_test_of_counts() -> None:
    seen, expected = np.array([10, 20, 30]), np.array([20.0, 20.0, 20.0])
    assert chi_squared(seen, expected) == pytest.approx(math.exp(-5))  # χ² = 10 with two degrees of freedom
    assert chi_squared(np.array([100, 1, 0]), np.array([99.0, 1.0, 1.0])) == pytest.approx(0.4751, abs=1e-4)
    assert chi_squared(np.array([5]), np.array([5.0])) == 1.0


def test_only_whole_turns_count() -> None:
    """A row without its baseline would tilt the ratio."""
    more = [*ROWS, row("code-0", "none/1/1", 100.0, repeat=1)]
    assert aggregate(whole_turns(more))[1].speedup.value == pytest.approx(2.5)
    with pytest.raises(ConfigError, match="every setting"):
        aggregate([row("math-0", "block/8/1", 1.0)])


def test_texts_that_loop_are_counted_and_left_out_beside() -> None:
    """math-0 loops: without it math is 2/2 = 1, and its mean with code's 3 is 2."""

    def found(looping: Callable[[RunRow], bool]) -> tuple[SettingResult, ...]:
        return tuple(aggregate([msgspec.structs.replace(one, loops=looping(one)) for one in ROWS]))

    vanilla, block = found(lambda one: one.prompt == "math-0")
    assert (vanilla.looping, block.looping) == (1, 1) and block.speedup.value == pytest.approx(2.5)
    assert block.speedup_varied is not None and block.speedup_varied.value == pytest.approx(2.0)
    assert block.tau_varied == pytest.approx(20 / 10)
    assert [one.looping for one in found(lambda one: one.setting != "none/1/1")] == [0, 0], "vanilla's text decides"
    assert [(one.looping, one.speedup_varied) for one in found(lambda one: True)] == [(3, None)] * 2


# A sweep.


LANES = {name: dataclasses.replace(BASE, gamma=gamma) for gamma, name in enumerate("vabc", start=1)}


def test_every_other_turn_runs_backwards_so_drift_cancels() -> None:
    runs = list(plan(PROMPTS, LANES, 2))
    turns = [runs[i : i + len(LANES)] for i in range(0, len(runs), len(LANES))]
    assert [turn[0].turn for turn in turns] == list(range(8))
    when: dict[str, list[int]] = {name: [] for name in LANES}
    for number, run in enumerate(runs):
        when[run.lane].append(number)
    assert len({sum(times) for times in when.values()}) == 1
    for turn in turns:
        assert {run.lane for run in turn} == set(LANES)
        assert len({(run.prompt.id, run.repeat, run.config.seed) for run in turn}) == 1
    assert len({(run.prompt.id, run.repeat) for run in runs}) == len({run.config.seed for run in runs}) == 8
    assert all(run.config.gamma == LANES[run.lane].gamma for run in runs)


def test_lanes_that_share_a_baseline_follow_it() -> None:
    runs = list(plan(PROMPTS[:2], LANES, share=2))
    assert "".join(run.lane for run in runs) == "vabvc" + "vcbva"


def test_a_race_is_one_text_and_servers_run_alone() -> None:
    own, other = FakeDecoder(), FakeDecoder()
    lanes = {"vanilla": dataclasses.replace(BASE, drafter="none"), "drafted": BASE, "server": BASE}
    order = [lane for lane, _ in race(own, "Once", lanes, others={"server": other}, threads=1)]
    assert order[: order.index("server")].count("server") == 0 and set(order[order.index("server") :]) == {"server"}
    runs = race_repeatedly(own, "Once", lanes, repeats=2, others={"server": other})
    assert {lane: len(each) for lane, each in runs.items()} == dict.fromkeys(lanes, 2)
    assert [config.drafter for _, config in own.calls] == ["none", "block"] * 3
    assert own.warm_ups == ["none", "block"] * 3 and other.warm_ups == ["block"] * 3
    assert own.asked_threads == [1, 1, *[None] * 4] and len(other.calls) == 3
    for repeats in (0, 1.5):
        with pytest.raises(ConfigError, match="at least 1"):
            race_repeatedly(own, "Once", lanes, repeats=repeats)
    own.fail = ConfigError("It can't.")
    with pytest.raises(ConfigError, match="It can't"):
        race_repeatedly(own, "Once", lanes)


# The clock of a race.


class Timed:
    """A lane whose events last ``seconds``, on a clock of its own; every third has no time."""

    def __init__(self, name: str, seconds: Sequence[float], fail: Exception | None = None) -> None:
        self.name, self.now, self.last, self.over = name, 0.0, 0.0, False
        self._seconds, self._fail = seconds, fail

    def events(self, stopped: Callable[[], bool] = lambda: False) -> Iterator[Event]:
        for number, seconds in enumerate(self._seconds):
            if stopped():
                break
            self.last, began = seconds, self.now
            self.now += seconds
            yield Prefilled(tokens=1, span=Span(name=self.name, start=began, seconds=seconds))
            if number % 3 == 0:
                yield RoundStarted(round=number, length=1, anchor=1)
        self.over = True
        if self._fail:
            raise self._fail
        yield Finished(reason="length", text="", ids=(), rounds=1, seconds=self.now)


@given(lanes=st.lists(st.lists(st.floats(0.01, 9), min_size=1), min_size=2, max_size=4), stop=st.integers(0, 30))
def test_no_lane_is_ahead_by_more_than_its_last_event(lanes: list[list[float]], stop: int) -> None:
    """Also when one fails or ends, which leaves the others racing; Stop ends all at one moment."""
    error = ValueError("broken")
    timed = {str(i): Timed(str(i), seconds, error if i == 1 else None) for i, seconds in enumerate(lanes)}
    steps, met = 0, dict[str, list[Any]]({name: [] for name in timed})
    stopped = lambda: steps > stop > 0
    for lane, event in interleave({name: one.events(stopped) for name, one in timed.items()}):
        steps += 1
        met[lane].append(event)
        behind = min((one.now for one in timed.values() if not one.over), default=math.inf)
        assert timed[lane].now - timed[lane].last <= behind + 1e-9 or timed[lane].over
    assert met.pop("1")[-1] is error
    assert all(isinstance(events[-1], Finished) for events in met.values())
    if not stopped():
        assert all(events[-1].seconds == pytest.approx(sum(lanes[int(lane)])) for lane, events in met.items())
    else:
        cut = [one for one in timed.values() if one.now < sum(lanes[int(one.name)]) - 1e-9]
        assert all(abs(one.now - two.now) <= max(one.last, two.last) + 1e-9 for one in cut for two in cut)


def test_a_text_is_vanillas_only_if_it_is_in_every_repeat() -> None:
    log = measured(prompts=PROMPTS[:2])
    before = sweep_result(log, ORIGIN).entries[1].same_text_as_vanilla
    next(r for r in log.rows if r.repeat == 0 and r.setting == BLOCK).text = "another"
    assert sweep_result(log, ORIGIN).entries[1].same_text_as_vanilla == before - 1


def test_a_sweep_is_warm_before_every_run(tmp_path: Path) -> None:
    engine = FakeDecoder()
    log = measured(tmp_path / "rows.jsonl", engine=engine)
    total = len(PROMPTS) * len(SETTINGS) * 2
    header, *runs = (config.drafter for _, config in engine.calls)
    assert header == "none" and len(runs) == total and runs == engine.warm_ups
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1 + len(log.rows)
    result = sweep_result(log, ORIGIN)
    assert [entry.drafter for entry in result.entries] == ["none", "block", "block"]
    assert all(entry.same_text_as_vanilla == len(PROMPTS) for entry in result.entries)
    assert (result.prompts, result.sessions) == ({"math": 2, "code": 2}, 1)


def test_an_interrupted_sweep_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    steps = sweep(FakeDecoder(), PROMPTS, SETTINGS, BASE, repeats=2, path=path)
    for _ in range(6):
        next(steps)
    steps.close()
    with path.open("a") as file:
        file.write('{"prompt": "math-0", "cut o')  # the process died while writing
    engine = FakeDecoder()
    log = measured(path, engine=engine)
    keys = [(r.prompt, r.repeat, r.setting) for r in log.rows]
    assert len(keys) == len(set(keys)) == 24
    assert {r.session for r in log.rows} == {0, 1} and sweep_result(log, ORIGIN).sessions == 2
    assert len(engine.calls) == 1 + 24 - 5, "the header, and only what was missing"
    finished = FakeDecoder()
    measured(path, engine=finished)
    assert len(finished.calls) == 1


def test_new_weights_are_another_benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    spec = dataclasses.replace(EMBEDDED, target=str(folder), drafters=())
    monkeypatch.setitem(PAIRS, "own", spec)
    found = {weights_digest("own")}
    for raw in (b"one", b"another"):
        (folder / "model.safetensors").write_bytes(raw)
        found.add(weights_digest("own"))
    assert len(found) == 3 and weights_digest("nobody") == ""


def test_rows_of_another_benchmark_are_never_mixed_in(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    measured(path, prompts=PROMPTS[:1], repeats=1)
    with pytest.raises(ConfigError, match=r"another benchmark: settings"):
        measured(path, prompts=PROMPTS[:1], repeats=1, base=dataclasses.replace(BASE, seed=3))


@pytest.mark.parametrize(
    "text", ["", "garbage\n", "[1]\n", "null\n", "{}\n{}\n", '{}\n{"session": "x"}\n', "[" * 200_000 + "\n"]
)
def test_damaged_rows_are_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.rows.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=r"r\.rows\.jsonl is damaged"):
        RowLog(tmp_path / "r.rows.jsonl", {}, RunRow)


# Results and reports.


def test_provenance_names_no_folder(tmp_path: Path) -> None:
    found = provenance(["bench", "--prompts", str(tmp_path / "p.jsonl"), "--gamma", "4,8"])
    assert found["command"] == "python -m specdiff_core bench --prompts p.jsonl --gamma 4,8"
    assert str(tmp_path) not in json.dumps(found)
    assert found["threads"] >= 1 and found["instruction_set"]
    assert found["versions"]["torch"]
    assert git_state(tmp_path) == {"commit": "", "dirty": False}
    assert command_text([f"--prompts={tmp_path}/p.jsonl"]).endswith("--prompts=p.jsonl")
    assert command_text(["x y"]) == "python -m specdiff_core 'x y'"


def test_the_result_ships_in_the_form_that_is_read(tmp_path: Path) -> None:
    result = sweep_result(measured(prompts=PROMPTS[:2], repeats=1), ORIGIN)
    path = tmp_path / "r.json"
    path.write_bytes(msgspec.json.encode(result))
    assert read_result(path, Sweep) == read_result(path, *KINDS) == result
    for text in ("[" * 200_000, '{"kind": [], "schema": 1}', '{"kind": "poem", "schema": 1}', '{"kind": "sweep"}'):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"r\.json is not a result"):
            read_result(path, *KINDS)


def test_the_table_has_a_row_for_each_setting() -> None:
    log = measured(repeats=1)
    log.rows = [*ROWS, row("code-1", "none/1/1", 9.0), row("code-1", "block/8/1", 3.0)]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in speeds(sweep_result(log, ORIGIN)).split("\n")]
    assert rows[3][:3] == ["block γ 8, T 1", "2.50× (?)", "0.07–87.50"] and rows[2][2] == "baseline"
    assert rows[3][3:5] == ["2.00×", "3.00× (?)"], "with τ = 2 a speed-up of 3 is a disturbed clock"
    log.rows = ROWS[2:]  # one prompt of each flavour
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in speeds(sweep_result(log, ORIGIN)).split("\n")]
    assert rows[3][:3] == ["block γ 8, T 1", "2.00× (?)", "–"], "3 and 1, over τ = 2 and 2"


# The command line.


def test_a_prompt_that_does_not_fit_is_named_first(
    decoder: FakeDecoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def encode(prompt: str) -> tuple[int, ...]:
        if len(prompt) > 100:
            raise ConfigError("The prompt is too long.", hint="Shorten it.")
        return (1,)

    decoder.encode = encode
    write_prompts(tmp_path / "p.jsonl", [*PROMPTS, Prompt(id="long-one", flavour="math", prompt="word " * 200)])
    words = f"bench sweep --prompts {tmp_path}/p.jsonl --settings none/1/1 --json {tmp_path}/r.json"
    assert cli.main(words.split()) == 2
    assert "error: long-one: The prompt is too long" in capsys.readouterr().err
    assert not decoder.calls and not (tmp_path / "r.rows.jsonl").exists()


def test_a_sweep_from_the_command_line(
    decoder: FakeDecoder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_prompts(tmp_path / "p.jsonl", PROMPTS)
    words = f"bench sweep --prompts {tmp_path}/p.jsonl --settings block/4/1,block/4/1/0/2/self,block/4/1/0/2/trie"
    words += f" --repeats 1 --max-new-tokens 12 --json {tmp_path}/r.json"
    assert cli.main(words.split()) == 0, capsys.readouterr().err
    stored = json.loads((tmp_path / "r.json").read_text())
    assert (stored["kind"], stored["schema"], stored["prompts"]) == ("sweep", 1, {"math": 2, "code": 2})
    entries = [(entry["num_drafts"], entry["selection"]) for entry in stored["entries"]]
    assert entries == [(1, "self"), (1, "self"), (2, "self"), (2, "trie")]
    assert str(tmp_path) not in json.dumps(stored) and "| block γ 4, K 2 trie |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--settings ,", "is not a setting"),
        ("--settings block/64/1", "Give a whole number"),
        ("--repeats 0", "at least 1"),
        ("--first 0", "leaves no prompt"),
        ("--json /", "is not a file"),
        ("--settings block/4/1/0/2/best", "Choose one of: self"),
        ("--prompts nothing.jsonl", "nothing.jsonl"),
    ],
)
def test_a_wrong_flag_is_named(
    words: str, message: str, decoder: FakeDecoder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "sweep", *words.split()]) == 2
    assert message in capsys.readouterr().err


def test_stop_ends_a_race_that_still_warms_up() -> None:
    stop, passes = threading.Event(), list[str]()

    class Cold:
        def warm_up(self, config: DecodeConfig, progress: Any, threads: int = 0) -> None:
            for _ in range(9):
                passes.append(config.drafter)
                stop.set()
                progress("Warming up")

    cold: Any = Cold()
    lanes = {"vanilla": DecodeConfig(drafter="none"), "drafted": DecodeConfig()}
    assert list(race(cold, "Once", lanes, stop=stop)) == [] and passes == ["none"]
