"""Accuracy within seconds: what attempts, votes and curves count, and the bench that measures them."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from specdiff_core import cli
from specdiff_core.bench import sweep
from specdiff_core.bench.budget import (
    Attempt,
    AttemptRow,
    aggregate,
    attempt_of,
    columns_of,
    curves,
    goal_of,
    grid_of,
    in_turn,
    majorities,
    reached,
    singles,
    stairs,
    votes,
)
from specdiff_core.bench.store import Budget, read_result
from specdiff_core.schema.events import Finished
from specdiff_core.schema.metrics import Metrics


def test_the_answer_given_most_often_counts() -> None:
    assert majorities([]) == [""]
    assert majorities(["", "", "5"]) == ["", "", "", "5"]  # what gives no answer has no vote
    assert majorities(["5", "", ""]) == ["", "5", "5", "5"]
    assert majorities(["4", "5", "5", "4"]) == ["", "4", "4", "5", "4"]  # of several, the first


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
    rows = {row["budget"]: row for row in curves(in_turn(found, ["5"]))}
    assert list(rows) == grid_of(in_turn(found, ["5"]))[: len(rows)]
    assert min(rows) <= 1 < max(rows) < 3.2  # 10^(4/8)
    # Turns 7 5 5, 5 5 7 and 5 7 5: of one attempt two are right, and of two as well, for ties go to the first.
    assert (rows[1.0]["accuracy"], rows[1.0]["attempts"]) == (pytest.approx(2 / 3), 1)
    two = min(budget for budget in rows if budget >= 2)
    assert (rows[two]["accuracy"], rows[two]["attempts"]) == (pytest.approx(2 / 3), 2)
    assert (rows[max(rows)]["accuracy"], rows[max(rows)]["attempts"], rows[max(rows)]["used_up"]) == (1, 3, 1)
    assert [row["accuracy"] for row in votes(in_turn(found, ["5"]))] == pytest.approx([2 / 3, 2 / 3, 1])


def test_before_the_first_attempt_is_finished_nothing_is_right() -> None:
    found = {"vanilla": [attempted((1.0, "5"))], "dflash": [attempted((0.5, "5"))]}
    at = {(row["method"], row["budget"]): row for row in curves(in_turn(found, ["5"]))}
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
    both_tried = in_turn({"vanilla": slow, "dflash": fast}, right)
    rows = curves(both_tried)
    at = {(row["method"], round(8 * math.log10(row["budget"]))): (row["accuracy"], row["attempts"]) for row in rows}
    both = [step for name, step in at if name == "dflash" and ("vanilla", step + 8) in at]
    assert len(both) > 8
    for step in both:
        assert at["dflash", step] == at["vanilla", step + 8]
    own = votes(both_tried)
    assert [row["accuracy"] for row in own[:8]] == [row["accuracy"] for row in own[8:]]
    single = singles(both_tried)
    assert single["dflash"]["difference"] == 0
    assert single["dflash"]["seconds"] == pytest.approx(single["vanilla"]["seconds"] / 10)
    assert single["vanilla"]["accuracy"] == votes(in_turn({"vanilla": slow}, right))[0]["accuracy"]


def test_a_method_that_is_wrong_more_often_is_beyond_the_noise() -> None:
    def attempts(wrong: int) -> list[list[Attempt]]:
        return [attempted(*((1.0, "no" if i < wrong else "5") for i in range(20))) for _ in range(10)]

    single = singles(in_turn({"vanilla": attempts(10), "dflash": attempts(11), "eagle": attempts(16)}, ["5"] * 10))
    assert abs(single["dflash"]["difference"]) < single["dflash"]["noise"]
    assert single["eagle"]["difference"] == pytest.approx(-0.3)
    assert single["eagle"]["noise"] < 0.3
    assert single["vanilla"]["noise"] is None
    bands = [row for row in votes(in_turn({"vanilla": [*attempts(0), *attempts(20)]}, ["5"] * 20)) if row["k"] == 1]
    assert 0.2 < bands[0]["low"] < 0.4 < 0.5 < 0.6 < bands[0]["high"] < 0.8  # half of 20 problems


def test_two_attempts_that_agree_have_noise_and_one_has_none_that_is_known() -> None:
    def single(*answers: str) -> dict[str, Any]:
        found = {
            "vanilla": [attempted(*[(1.0, "5")] * len(answers))],
            "dflash": [attempted(*((1.0, said) for said in answers))],
        }
        return singles(in_turn(found, ["5"]))["dflash"]

    assert single("6")["noise"] is None
    assert single("6", "6")["noise"] > 1  # 2 of 2 against 0 of 2, which chance makes


def test_the_noise_of_few_attempts_covers_what_chance_makes() -> None:
    draws = np.random.default_rng(3)
    beyond = 0
    for _ in range(1000):
        said = draws.integers(2, size=(2, 2, 3))  # methods, problems, attempts: each is right half the time
        found = {
            name: [attempted(*((1.0, str(one)) for one in own)) for own in each]
            for name, each in zip(("vanilla", "dflash"), said, strict=True)
        }
        single = singles(in_turn(found, ["1", "1"]))["dflash"]
        beyond += abs(single["difference"]) > single["noise"]
    assert beyond <= 20  # of the plain shares 40


def finished(text: str, reason: str = "end_of_text") -> list[Any]:
    return [Finished(reason=reason, text=text, ids=(1,), rounds=1, seconds=0.1234567)]


def test_an_attempt_that_was_cut_off_has_only_an_answer_that_it_states() -> None:
    assert attempt_of(finished("so 3 * 4 = 12")) == Attempt(0.12346, "12")
    assert attempt_of(finished("so 3 * 4 = 12", "stop_string")).answer == "12"
    assert attempt_of(finished("so 3 * 4 = 12", "length")).answer == ""
    assert attempt_of(finished("The answer is $1,200.50.\nThis", "length")).answer == "1200.5"


# The bench.


def attempt_rows(**attempts: list[list[tuple[float, str]]]) -> list[AttemptRow]:
    """Of each setting, problem by problem; a token takes a tenth of a second."""
    return [
        AttemptRow(
            prompt=f"p{problem}", flavour="math", repeat=repeat, setting=f"{drafter}/1/1", reason="end_of_text",
            text="", answer=answer, metrics=Metrics(committed=10, rounds=5, seconds=seconds),
        )
        for drafter, own in attempts.items()
        for problem, each in enumerate(own)
        for repeat, (seconds, answer) in enumerate(each)
    ]  # fmt: skip


def test_the_numbers_of_a_bench_by_hand() -> None:
    """Two problems, answers 5 and 6, two attempts at each; the drafter says the same in a quarter of the time."""
    slow = [[(1.0, "5"), (1.0, "4")], [(1.0, "6"), (1.0, "6")]]
    fast = [[(seconds / 4, answer) for seconds, answer in own] for own in slow]
    goal, (vanilla, block) = aggregate(attempt_rows(none=slow, block=fast), {"p0": "5", "p1": "6"})
    assert (vanilla.key, block.key) == ("none/1/1", "block/1/1")
    # The first attempt at the first problem is right in one of two turns, that at the second in both.
    assert vanilla.single.value == block.single.value == vanilla.voted.value == 0.75
    assert (block.seconds, block.speedup.value, block.difference) == (0.25, pytest.approx(4.0), 0.0)
    # Columns 1, 2 and 5: from the first end of all, 0.25 s, to where all but one have used up theirs, 0.5 s.
    assert [(one.seconds, one.accuracy.value, one.used_up) for one in block.within] == [(0.5, 0.75, 1.0)]
    assert [(one.seconds, one.accuracy.value, one.used_up) for one in vanilla.within] == [(0.5, 0.0, 0.0)]
    assert goal == 0.75 and (vanilla.reached, block.reached) == (1.0, 0.25)


def test_of_a_single_attempt_nothing_is_missing_later() -> None:
    slow, fast = [[(1.0, "5")], [(3.0, "6")]], [[(0.2, "5")], [(0.6, "7")]]
    goal, (vanilla, block) = aggregate(attempt_rows(none=slow, block=fast), {"p0": "5", "p1": "6"})
    assert [one.seconds for one in vanilla.within] == [one.seconds for one in block.within] == [0.2, 0.5, 1.0, 2.0, 5.0]
    assert [one.accuracy.value for one in vanilla.within] == [0.0, 0.0, 0.5, 0.5, 1.0]
    assert [one.accuracy.value for one in block.within] == [0.5] * 5
    assert goal == 1.0 and block.reached is None and block.noise is None
    never = attempt_rows(none=[[(1.0, "")]], block=[[(1.0, "")]])
    assert aggregate(never, {"p0": "5"})[0] is None


def test_seconds_to_an_accuracy_are_where_its_curve_first_is() -> None:
    tried = in_turn(
        {"vanilla": [attempted((1.0, "7"), (2.0, "5"), (3.0, "5")), attempted(*[(9.0, "5")] * 3)]}, ["5"] * 2
    )
    own = tried["vanilla"]
    # Turns 7 5 5, 5 5 7 and 5 7 5, ends 1 3 6, 2 5 6 and 3 4 6: right from 2 and 3 s, and the first of them from 6 s.
    right = {2.0: 1, 3.0: 2, 6.0: 3, 9.0: 6}
    assert {seconds: 6 * share for seconds, share in stairs(own).items() if share} == pytest.approx(
        {**right, 4.0: 2, 5.0: 2, 18.0: 6, 27.0: 6}
    )
    assert [reached(own, share) for share in (1 / 6, 0.5, 1.0, None)] == [2.0, 6.0, 9.0, None]
    assert goal_of(own) == pytest.approx(1 / 3), "before 6 s, when nothing is left at the first problem"
    assert columns_of(in_turn({"vanilla": [attempted((0.03, "5"), (0.5, "5"))]}, ["5"]), True) == [
        0.05, 0.1, 0.2, 0.5, 1.0,
    ]  # fmt: skip


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the weights for their digest takes longer than two short attempts."""
    monkeypatch.setattr(sweep, "weights_digest", lambda pair: "weights")


def test_a_budget_is_measured_resumed_and_reported(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the embedded pair; a resumed run measures only what is missing."""
    result, report = tmp_path / "b.json", tmp_path / "B.md"
    words = f"bench budget --first 2 --attempts 2 --max-new-tokens 16 --settings block/9/1 --threads 1 --json {result}"
    assert cli.main(words.split()) == 0, capsys.readouterr().err
    stored = read_result(result, Budget)
    assert (stored.settings["temperature"], stored.repeats, stored.prompts) == (0.5, 2, {"math": 2})
    assert [(entry.key, entry.attempts) for entry in stored.entries] == [("none/1/1", 4), ("block/9/1", 4)]
    rows = result.with_suffix(".rows.jsonl")
    head, *lines = rows.read_text().splitlines()
    assert len(lines) == 2 + 8 and json.loads(head)["kind"] == "budget"  # a warm-up of both
    rows.write_text("\n".join([head, *lines[:-3]]) + "\n")
    assert cli.main(words.split()) == 0
    again = rows.read_text().splitlines()
    assert again[: 1 + len(lines) - 3] == [head, *lines[:-3]], "what was there stays"
    fresh = [json.loads(line) for line in again[1 + len(lines) - 3 :]]
    kept = [json.loads(line) for line in lines]
    assert [row["repeat"] for row in fresh] == [-1, -1, *(row["repeat"] for row in kept[-3:])]
    name = ("prompt", "repeat", "cell", "text", "answer")
    assert [[row[key] for key in name] for row in fresh[2:]] == [[row[key] for key in name] for row in kept[-3:]]
    assert cli.main(["bench", "report", str(result), "--out", str(report)]) == 0
    text = report.read_text()
    assert "### Accuracy within a time budget: 2 problems, 2 attempts each\n" in text and "in 2 sittings" in text
    for heading in ("| setting        | ", "| as often right after |", "| majority of 2 |"):
        assert heading in text
    assert text.count("| block γ 9, T 1 |") == 2 and str(tmp_path) not in text
    assert cli.main([*words.replace("--attempts 2", "--attempts 3").split()]) == 2
    assert "another benchmark: repeats differ" in capsys.readouterr().err


def test_published_problems_are_scored_by_their_answers(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Greedy, one attempt, with a stand-in for the package that streams them."""
    package = ModuleType("datasets")
    rows = [{"question": f"What is {number} + 1?", "answer": f"It is so.\n#### {number + 1}"} for number in range(9)]
    package.load_dataset = lambda *_, **__: iter(rows)
    monkeypatch.setitem(sys.modules, "datasets", package)
    result = tmp_path / "b.json"
    words = f"bench budget --prompts gsm8k --count 2 --attempts 1 --temperature 0 --max-new-tokens 8 --json {result}"
    assert cli.main([*words.split(), "--settings", "block/4/1", "--threads", "1"]) == 0, capsys.readouterr().err
    stored, told = read_result(result, Budget), capsys.readouterr().out
    assert stored.prompts == {"math": 2} and {entry.attempts for entry in stored.entries} == {2}
    assert "2 problems, 1 attempt each" in told and "majority" not in told and "†" not in told
    assert {entry.noise for entry in stored.entries} == {None}


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        ("--prompts {file}", "1 of 2 prompts have no answer, the first of them b", '"answer"'),
        ("--temperature 0", "At temperature 0 all 8 attempts", "--attempts 1"),
        ("--attempts 0", "at least 1", "Eight"),
        ("--settings block", "no setting", ""),
    ],
)
def test_what_cannot_be_scored_is_refused_before_models_are_loaded(
    words: str, message: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.jsonl"
    lines = [{"id": "a", "flavour": "x", "prompt": "1?", "answer": "1"}, {"id": "b", "flavour": "x", "prompt": "2?"}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert cli.main(["bench", "budget", *words.format(file=file).split()]) == 2
    told = capsys.readouterr().err
    assert message in told and hint in told and "loading" not in told
