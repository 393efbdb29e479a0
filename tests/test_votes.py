"""Accuracy within seconds: the count of attempts, votes and curves; and when two answers are the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from specdiff_core.measure.answers import canonical, final_answer
from specdiff_core.measure.votes import Attempt, curves, majorities, majority_shares, read_attempt
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


def test_the_majority_is_averaged_over_which_attempt_comes_first() -> None:
    # Turns 7 5 5, 5 5 7 and 5 7 5: of one attempt two are right, and of two as well, because ties go to the first.
    assert majority_shares(["7", "5", "5"], "5", 3) == pytest.approx([0, 2 / 3, 2 / 3, 1])
    assert majority_shares(["7", "5", "5"], "5", 1) == pytest.approx([0, 2 / 3])


def drawn(count: int, speeds: dict[str, float], each: int = 2) -> tuple[dict[str, list[list[Attempt]]], list[str]]:
    """Attempts at ``count`` problems of methods that write one distribution at these speeds."""
    draws = np.random.default_rng(1)
    easy = draws.uniform(0.2, 0.8, count)
    say = lambda share: "5" if draws.uniform() < share else str(draws.integers(100, 104))
    found = {
        name: [attempted(*((draws.uniform(0.8, 1.2) / speed, say(share)) for _ in range(each))) for share in easy]
        for name, speed in speeds.items()
    }
    return found, ["5"] * count


def test_all_methods_share_one_accuracy_curve_and_differ_in_time() -> None:
    found, right = drawn(40, {"vanilla": 1.0, "dflash": 2.0})
    rows, singles = curves(found, right)
    of = {name: [row for row in rows if row["method"] == name] for name in found}
    assert [row["attempts"] for row in of["dflash"]] == [1, 2, 3, 4]
    for shared in ("accuracy", "low", "high"):
        assert [row[shared] for row in of["dflash"]] == [row[shared] for row in of["vanilla"]]
    pooled = [
        majority_shares([one.answer for one in (v[0], d[0], v[1], d[1])], "5", 4)
        for v, d in zip(*found.values(), strict=True)
    ]
    assert [row["accuracy"] for row in of["vanilla"]] == pytest.approx(np.mean(pooled, axis=0)[1:].tolist(), abs=1e-6)
    for name, own in of.items():
        mean = np.mean([one.seconds for each in found[name] for one in each])
        assert [row["seconds"] for row in own] == pytest.approx([count * mean for count in range(1, 5)], abs=1e-6)
        assert singles[name]["seconds"] == pytest.approx(mean)
    assert singles["dflash"]["low"] < 2 < singles["dflash"]["high"] < 2.2
    assert singles["vanilla"]["speedup"] == singles["vanilla"]["low"] == singles["vanilla"]["high"] == 1


def test_the_gain_compares_equal_times_and_is_paired_by_problem() -> None:
    found, right = drawn(200, {"vanilla": 1.0, "dflash": 2.0, "ddtree": 0.9}, each=3)
    rows, _ = curves(found, right)
    at = {(row["method"], row["attempts"]): row for row in rows}
    seconds = {name: at[name, 1]["seconds"] for name in found}
    accuracy = [0.0, *(at["vanilla", count]["accuracy"] for count in range(1, 10))]
    for name, count in (("dflash", 9), ("dflash", 6), ("ddtree", 8)):
        row, finished = at[name, count], count * seconds[name] / seconds["vanilla"]
        assert row["gain"] == pytest.approx(row["accuracy"] - np.interp(finished, range(10), accuracy), abs=1e-5)
        assert row["gain_low"] <= row["gain"] <= row["gain_high"]
    assert at["dflash", 9]["gain_low"] > 0, "nine votes against four and a half"
    assert at["dflash", 9]["gain_high"] - at["dflash", 9]["gain_low"] < at["dflash", 9]["high"] - at["dflash", 9]["low"]
    assert at["dflash", 1]["gain"] is None, "vanilla has finished none"
    assert at["ddtree", 9]["gain"] is None, "more of vanilla's than were measured"
    assert at["vanilla", 5]["gain"] is None


def test_only_problems_that_every_method_attempted_count() -> None:
    found, right = drawn(12, {"vanilla": 1.0, "dflash": 2.0})
    found["dflash"][-1] = []
    rows, singles = curves(found, right)
    assert {row["problems"] for row in rows} == {11} and singles["vanilla"]["attempts"] == 22
    assert curves({"vanilla": [[]], "dflash": [[]]}, ["5"]) == ([], {})


def finished(text: str, reason: str = "end_of_text") -> list[Any]:
    return [Finished(reason=reason, text=text, ids=(1,), rounds=1, seconds=0.1234567)]


def test_an_attempt_that_was_cut_off_has_only_an_answer_that_it_states() -> None:
    assert read_attempt(finished("so 3 * 4 = 12")) == Attempt(0.12346, "12")
    assert read_attempt(finished("so 3 * 4 = 12", "stop_string")).answer == "12"
    assert read_attempt(finished("so 3 * 4 = 12", "length")).answer == ""
    assert read_attempt(finished("The answer is $1,200.50.\nThis", "length")).answer == "1200.5"


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
    said = canonical(final_answer(text))
    assert (bool(said) and said == canonical(answer)) is right


@pytest.mark.parametrize(("answer", "same"), [
    ("1,200.50", "1200.5"), ("-3.50", "-3.5"), ("0.0", "0"), ("-0", "0"), ("\\dfrac{2}{4}", "0.5"), ("2/6", "1/3"),
    ("\\frac{3}{0}", "\\frac{3}{0}"), ("9" * 6000, "9" * 6000), ("", ""), ("$ $", ""), ("x^2 + 1", "x^2+1"),
])  # fmt: skip
def test_all_ways_to_write_an_answer_are_one(answer: str, same: str) -> None:
    assert canonical(answer) == same
    assert canonical(same) == same
