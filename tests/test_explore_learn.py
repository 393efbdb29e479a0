"""Drafters that learn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

import specdiff_core as lab
from specdiff_core.engine import Engine
from specdiff_core.explorations import learn
from specdiff_core.explorations.base import Step
from specdiff_core.explorations.learn import Learn
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.explorations.study import twins
from specdiff_core.schema import events
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.trace import read_trace
from specdiff_core.train.answers import collate

pytestmark = pytest.mark.usefixtures("few_passes")

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
    texts = twins.Texts(engine, 0, threading.Event())
    prompts = what.prompts(engine)[0][:3]
    corpus = texts.write([(engine.encode(prompt.prompt), 0.0) for prompt in prompts], 40)
    twin = twins.Twin(engine, tmp_path, gamma=learn.GAMMA, streak=True, seed=0)
    for step in range(60):  # until it knows them by heart, more or less
        twin.learn(collate(corpus), step, 1.0)
    accepted, _ = twin.measure(corpus)
    raced = learn.with_drafters(engine, {learn.STREAK: twin.export(tmp_path / "export")})
    config = lab.DecodeConfig(drafter=learn.STREAK, gamma=learn.GAMMA, max_new_tokens=48, ignore_eos=True)
    rounds = 0
    for prompt, measured in zip(prompts, accepted, strict=True):
        run = [event.accepted for event in raced.decode(prompt.prompt, config) if isinstance(event, events.Verified)]
        assert measured[:-1] == run[: len(measured) - 1]
        rounds += len(measured) - 1
    assert rounds >= 6 and learn._tau(accepted) > 1.2


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


@pytest.mark.parametrize(("low", "words"), [(1.01, "streak-distillation drafts better"), (0.97, "chance")])
def test_a_speed_up_of_the_race_stands_beside_its_own_tokens_and_interval(low: float, words: str) -> None:
    rows = [
        {"objective": learn.LABELS[name], "seconds": seconds, "step": 1, "tau": tau, "alpha_at": [0.5], "guess": []}
        for name, tau in ((learn.TOKENS, 1.74), (learn.STREAK, 1.84)) for seconds in (0.0, 60.0)
    ]  # fmt: skip
    raced = {"race": learn.STREAK, "prompts": 4, "speedup": 1.26, "low": 0.92, "high": 1.73, "tau": 1.94}
    facts = {"change": {"value": 1.06, "low": low, "high": 1.11}, "race": {learn.STREAK: raced}, "learnt": ["one"]}
    report = parse(Learn, {}).report(rows, facts)
    assert "1.84" in report.answer and "1.26" not in report.answer and words in report.answer
    (note,) = (note for note in report.notes if "1.26×" in note)
    assert "0.92 to 1.73" in note and "1.94" in note and "contains 1" in note
