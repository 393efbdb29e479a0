"""The methods against each other, by hand: which cells are compared, what counts as met, and the papers' shapes."""

from __future__ import annotations

from typing import Any

import pytest

from specdiff_core.bench.rivals import of_methods, of_selection, of_streak, rivals_section, shapes, shapes_section


def cell(drafter: str, gamma: int, speed: float, tau: float, **others: Any) -> dict[str, Any]:
    return {
        "drafter": drafter, "gamma": gamma, "steps": 1, "nodes": 0, "drafts": 1, "selection": "self", "auto": False,
        "speedup": {"mean": speed},
        "speedup_by_flavour": {"dialogue": {"value": speed + 1}, "math": {"value": speed - 1}},
        "tau": tau, "tau_by_flavour": {"dialogue": tau + 1, "math": tau - 1}, "tokens_per_second": 100 * speed,
        "alpha_at": [0.8] * gamma, **others,
    }  # fmt: skip


def sweep(*cells: dict[str, Any], temperature: float = 0.0, **settings: Any) -> dict[str, Any]:
    own = {"temperature": temperature, "rule": "ratio", "draft_temperature": None, **settings}
    return {"kind": "sweep", "settings": own, "cells": [cell("none", 1, 1.0, 1.0), *cells]}


def test_the_best_of_ours_is_held_against_the_best_of_theirs() -> None:
    result = sweep(
        cell("block", 9, 3.3, 4.0),
        cell("block", 9, 3.0, 5.0, nodes=9),
        cell("autoregressive", 4, 2.0, 3.0),
        cell("autoregressive", 9, 2.15, 3.0, auto=True),
        cell("eagle", 4, 3.4, 3.0),
        cell("eagle", 4, 2.5, 3.0, nodes=6),
    )
    found = {outcome.figure.split(":")[0]: outcome for outcome in of_methods(result)}
    assert found["best method over vanilla, mean"].measured == "3.40×" and found["best method over vanilla, mean"].met
    dialogue = found["best method over vanilla, dialogue"]
    assert dialogue.measured == "4.40×" and not dialogue.met and "needs τ = 4.09" in dialogue.why  # 4.5 · 4 / 4.4
    lane = found["best diffusion drafter over the AR lane"]
    assert lane.measured == "1.535×" and lane.met and "best of 2 over best of 2" in lane.figure  # 3.3 / 2.15
    assert found["best diffusion drafter over EAGLE-2"].measured == "1.320×"
    chain = found["best diffusion drafter over EAGLE, chain or tree"]
    assert not chain.met and "3.30× against 3.40×" in chain.why
    assert not list(of_methods(sweep(cell("block", 9, 3.3, 4.0)))), "without rivals there is nothing to say"


def test_streak_is_held_against_the_same_window() -> None:
    result = sweep(
        cell("mdlm", 4, 1, 2.0), cell("mdlm", 9, 1, 2.4), cell("mdlm_streak", 9, 1, 2.7), cell("mdlm_streak", 16, 1, 9)
    )
    (outcome,) = of_streak(result)
    assert outcome.measured == "1.125×" and not outcome.met and "2.40 to 2.70" in outcome.why
    assert not list(of_streak(sweep(cell("mdlm", 4, 1, 2.0), cell("mdlm_streak", 9, 1, 2.7))))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "most probable tokens, several are drawn"),
        ({"draft_temperature": 1.0}, "drawn and tested alike"),
        ({"temperature": 1.0}, "a selected one as a point mass"),
    ],
)
def test_what_else_differs_between_one_draft_and_eight_is_said(settings: dict[str, Any], words: str) -> None:
    several = cell("mdlm_streak", 9, 1, 2.1, drafts=8)
    (outcome,) = of_selection(sweep(cell("mdlm_streak", 9, 1, 2.0), several, cell("mdlm", 9, 1, 1.0), **settings))
    assert outcome.measured == "1.050×" and not outcome.met and words in outcome.why
    (better,) = of_selection(sweep(cell("mdlm_streak", 9, 1, 1.5), several, **settings))
    assert better.met and not better.why


def test_shapes_are_judged_by_the_numbers() -> None:
    rising = [cell("block", 8, 3 - t / 4, 4 + t / 4, steps=t) for t in (1, 2, 4)]
    assert [row[3] for row in shapes([sweep(*rising)])] == ["yes", "yes"]
    falling = [cell("block", 8, 3 + t / 4, 4 - t / 4, steps=t) for t in (1, 2, 4)]
    assert [row[3] for row in shapes([sweep(*falling)])] == ["no", "no"]
    widths = [cell("block", gamma, speed, 4) for gamma, speed in ((4, 1.0), (8, 2.0), (16, 1.5))]
    assert [row[3][:2] for row in shapes([sweep(*widths)])] == ["no"]
    before = cell("mdlm", 8, 1, 2, alpha_at=[0.6] * 8)
    for tail, answer in ((0.7, "yes"), (0.5, "no")):
        after = cell("mdlm_streak", 8, 1, 2, alpha_at=[0.6, *[tail] * 7])
        assert [row[3] for row in shapes([sweep(before, after)])] == [answer]


def test_sections_say_nothing_where_nothing_was_measured() -> None:
    assert rivals_section([]) == shapes_section([]) == ""
    warm = sweep(cell("block", 9, 3.3, 4.0), cell("autoregressive", 4, 2.0, 3.0), temperature=1.0)
    assert rivals_section([warm]) == "", "goals are greedy"
    assert "best diffusion drafter over the AR lane" in rivals_section(
        [{**warm, "settings": {**warm["settings"], "temperature": 0}}]
    )
