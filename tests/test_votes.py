"""Accuracy within seconds: the count of attempts, votes and curves; and when two answers are the same."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from specdiff_core.measure.answers import answered, canonical
from specdiff_core.measure.votes import Attempt, attempt_of, curves, grid_of, majorities, rotated, singles, votes
from specdiff_core.schema.events import Finished


def test_answers_counted_one_by_one_are_those_counted_anew() -> None:
    draws = np.random.default_rng(2)
    for _ in range(300):
        answers = [str(number or "") for number in draws.integers(0, 4, size=draws.integers(1, 9))]
        anew = []
        for count in range(len(answers) + 1):
            counts = Counter(answer for answer in answers[:count] if answer)
            anew.append(max(counts, key=counts.__getitem__, default=""))
        assert majorities(answers) == anew


def attempted(*attempts: tuple[float, str]) -> list[Attempt]:
    return [Attempt(*one) for one in attempts]


def test_attempts_count_in_order_as_far_as_they_are_finished() -> None:
    found = {"vanilla": [attempted((1.0, "7"), (1.0, "5"), (1.0, "5"))]}
    rows = {row["budget"]: row for row in curves(rotated(found, ["5"]))}
    assert list(rows) == grid_of(rotated(found, ["5"]))[: len(rows)]
    assert min(rows) <= 1 < max(rows) < 3.2  # 10^(4/8)
    # Turns 7 5 5, 5 5 7 and 5 7 5: of one attempt two are right, and of two as well, for ties go to the first.
    assert (rows[1.0]["accuracy"], rows[1.0]["attempts"]) == (pytest.approx(2 / 3), 1)
    two = min(budget for budget in rows if budget >= 2)
    assert (rows[two]["accuracy"], rows[two]["attempts"]) == (pytest.approx(2 / 3), 2)
    assert (rows[max(rows)]["accuracy"], rows[max(rows)]["attempts"], rows[max(rows)]["used_up"]) == (1, 3, 1)
    assert [row["accuracy"] for row in votes(rotated(found, ["5"]))] == pytest.approx([2 / 3, 2 / 3, 1])


def test_before_the_first_attempt_is_finished_nothing_is_right() -> None:
    found = {"vanilla": [attempted((1.0, "5"))], "dflash": [attempted((0.5, "5"))]}
    at = {(row["method"], row["budget"]): row for row in curves(rotated(found, ["5"]))}
    between = next(budget for name, budget in at if name == "vanilla" and 0.5 <= budget < 1)
    assert at["vanilla", between]["accuracy"] == at["vanilla", between]["attempts"] == 0
    assert at["dflash", min(budget for name, budget in at if name == "dflash" and budget >= 0.5)]["accuracy"] == 1
    # Where all attempts are used up, the curve ends: more of them were not measured.
    assert max(budget for name, budget in at if name == "dflash") < max(
        budget for name, budget in at if name == "vanilla"
    )


def test_a_quicker_decoder_of_the_same_texts_is_earlier_by_its_speed_up() -> None:
    draws = np.random.default_rng(1)
    slow = [attempted(*((float(draws.uniform(1, 2)), str(draws.integers(3))) for _ in range(8))) for _ in range(5)]
    fast = [[Attempt(one.seconds / 10, one.answer) for one in own] for own in slow]  # a decade: the grid's own
    right = ["0", "1", "2", "0", "1"]
    both_tried = rotated({"vanilla": slow, "dflash": fast}, right)
    rows = curves(both_tried)
    at = {(row["method"], round(8 * math.log10(row["budget"]))): (row["accuracy"], row["attempts"]) for row in rows}
    both = [step for name, step in at if name == "dflash" and ("vanilla", step + 8) in at]
    assert len(both) > 8
    for step in both:
        assert at["dflash", step] == at["vanilla", step + 8]
    own = votes(both_tried)
    assert [row["accuracy"] for row in own[:8]] == [row["accuracy"] for row in own[8:]]
    single = singles(both_tried)
    assert single["dflash"]["accuracy"] == single["vanilla"]["accuracy"]
    assert single["dflash"]["seconds"] == pytest.approx(single["vanilla"]["seconds"] / 10)
    assert single["vanilla"]["accuracy"] == votes(rotated({"vanilla": slow}, right))[0]["accuracy"]


def test_a_band_covers_what_half_of_the_problems_would_give() -> None:
    found = {"vanilla": [attempted(*[(1.0, said)] * 20) for said in 10 * ["5"] + 10 * ["no"]]}
    (band,) = (row for row in votes(rotated(found, ["5"] * 20)) if row["k"] == 1)
    assert 0.2 < band["low"] < 0.4 < 0.5 < 0.6 < band["high"] < 0.8


def finished(text: str, reason: str = "end_of_text") -> list[Any]:
    return [Finished(reason=reason, text=text, ids=(1,), rounds=1, seconds=0.1234567)]


def test_an_attempt_that_was_cut_off_has_only_an_answer_that_it_states() -> None:
    assert attempt_of(finished("so 3 * 4 = 12")) == Attempt(0.12346, "12")
    assert attempt_of(finished("so 3 * 4 = 12", "stop_string")).answer == "12"
    assert attempt_of(finished("so 3 * 4 = 12", "length")).answer == ""
    assert attempt_of(finished("The answer is $1,200.50.\nThis", "length")).answer == "1200.5"


@pytest.mark.parametrize(
    ("text", "answer", "right"),
    [
        ("so \\boxed{\\frac{1}{2}}", "\\dfrac12", True),
        ("so \\boxed{0.5}", "\\frac{1}{2}", True),
        ("first \\boxed{3}, no, \\boxed{4}.", "4", True),
        ("first \\boxed{3}, no, \\boxed{4}.", "3", False),
        ("\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}", "(3,\\frac{\\pi}{2})", True),
        ("\\boxed{90^\\circ}", "90", True),
        ("\\boxed{\\text{Evelyn}}", "\\text{Evelyn}", True),
        ("\\boxed{1,200}", "1200", True),
        ("\\boxed{(1,200)}", "(1,200)", True),
        ("\\boxed{-\\frac{3}{4}}", "-0.75", True),
        ("\\boxed{x = 5}", "5", True),
        ("She pays 3 * 6 = 18 dollars.\n#### 18", "18", True),
        ("The answer is $18.00.", "18", True),
        ("The answer is 18. Then 20 came.", "18", True),
        ("In all she has 1,234 apples.", "1234", True),
        ("The answer is **18**.", "18", True),
        ("**Answer:** \\(18\\)", "18", True),
        ("The final answer is $18$. I hope it is correct.", "18", True),
        ("The answer is 18 dollars, because 3 * 6 = 18.", "18.0", True),
        ("The answer is 2 and 3.", "2", False),
        ("The answer is 2 pi.", "2", False),
        ("The answer is 7.\n\nQuestion: What is 1 + 1?\nAnswer: The answer is 2.", "7", True),
        ("The answer is (C).", "\\text{(C)}", True),
        ("The answer is Evelyn.", "\\text{Evelyn}", True),
        ("\\boxed{{1}, {2}}", "{1}, {2}", True),
        ("#### 7\nNext question", "7", True),
        ("\\boxed{864}", "864 \\mbox{ inches}^2", True),
        ("\\boxed{11111111100}", "11,\\! 111,\\! 111,\\! 100", True),
        ("\\boxed{\\frac1{3}}", "1/3", True),
        ("\\boxed{\\sqrt2}", "\\sqrt{2}", True),
        ("\\boxed{[1,2]}", "x \\in [1,2]", True),
        ("\\boxed{1e999999999}", "5", False),
        ("it costs 12 dollars", "13", False),
        ("\\boxed{unfinished", "5", False),
        ("no number here", "5", False),
        ("", "", False),
    ],
)
def test_an_answer_is_right_however_it_is_set(text: str, answer: str, right: bool) -> None:
    said = canonical(answered(text))
    assert (bool(said) and said == canonical(answer)) is right


@pytest.mark.parametrize(("answer", "same"), [
    ("1,200.50", "1200.5"), ("-3.50", "-3.5"), ("0.0", "0"), ("-0", "0"), ("\\dfrac{2}{4}", "0.5"), ("2/6", "1/3"),
    ("\\frac{3}{0}", "\\frac{3}{0}"), ("9" * 6000, "9" * 6000), ("", ""), ("$ $", ""), ("x^2 + 1", "x^2+1"),
])  # fmt: skip
def test_all_ways_to_write_an_answer_are_one(answer: str, same: str) -> None:
    assert canonical(answer) == same
    assert canonical(same) == same
