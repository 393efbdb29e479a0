"""The budget: problems, attempts and votes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from exploring import StopWhen, changed, explore

from specdiff_core.engine import Engine
from specdiff_core.explorations.base import Step
from specdiff_core.explorations.budget import Budget
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.explorations.wording import ratio
from specdiff_core.measure.answers import canonical, final_answer
from specdiff_core.measure.problems import EXAMPLES, FORMS, PROBLEMS, VARIANTS, read_problem
from specdiff_core.measure.votes import Attempt, curves, read_attempt
from specdiff_core.schema import events
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import ASSETS
from specdiff_core.schema.trace import read_trace

pytestmark = pytest.mark.usefixtures("few_passes")


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
        assert canonical(final_answer(text)) == found.answer


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


def test_a_budget_is_measured_attempt_by_attempt(engine: Engine) -> None:
    """Also where somebody presses Stop: what was done by then is whole."""
    steps: list[Step] = []
    what = parse(Budget, {"methods": "specdiff", "problems": 2, "attempts": 2, "tokens": 8})
    final = ExplorationRun(what, engine, StopWhen(lambda: len(steps) >= 3)).advance(progress=steps.append)
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
