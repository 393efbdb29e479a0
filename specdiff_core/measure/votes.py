"""Accuracy within a budget of seconds (the acceleration–compute figure of SpecDiff-2, arXiv
2511.00606): the most frequent answer of the attempts that finish in time counts. No text depends on
the budget, so one measurement of attempts gives the whole curve.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from specdiff_core.measure.answers import answered, canonical
from specdiff_core.measure.statistics import mean_interval
from specdiff_core.schema.events import Event
from specdiff_core.schema.summary import final

ATTEMPTS, TEMPERATURE = 8, 0.5
"""Defaults for each problem."""
PER_DECADE = 8
"""Budgets per factor of ten."""


class Attempt(NamedTuple):
    """One text: decode seconds, prefill included, and its answer in the form of
    :func:`~specdiff_core.measure.answers.canonical`; "" without one."""

    seconds: float
    answer: str


def attempt_of(events: Sequence[Event], begun: str = "") -> Attempt:
    """The attempt of a finished run. If it was cut off, only an explicitly stated answer counts.

    Args:
        begun: the beginning of a solution that the text continues; empty for none.
    """
    last = final(events)
    assert last is not None, "a decode ends with Finished or raises"
    ended = last.reason in ("end_of_text", "stop_string")
    return Attempt(round(last.seconds, 5), canonical(answered(begun + last.text, ended=ended)))


def majorities(answers: Sequence[str]) -> list[str]:
    """The majority of the first 0, 1, 2, … answers. The earliest wins a tie; empty answers have no vote."""
    votes, first, leading = Counter[str](), dict[str, int](), ""
    leaders = [leading]
    for answer in answers:
        if answer:
            votes[answer] += 1
            first.setdefault(answer, len(first))
            if not leading or (votes[answer], -first[answer]) > (votes[leading], -first[leading]):
                leading = answer
        leaders.append(leading)
    return leaders


class _Tried:
    """The attempts of a method at one problem, in all rotations, so that each attempt comes first
    once: this reduces the noise."""

    def __init__(self, attempts: Sequence[Attempt], right: str) -> None:
        self.count, self.attempts = len(attempts), attempts
        turns = [[*attempts[first:], *attempts[:first]] for first in range(self.count)]
        self.ends = [list(accumulate(attempt.seconds for attempt in turn)) for turn in turns]
        self._right = [[answer == right for answer in majorities([run.answer for run in turn])] for turn in turns]

    def voted(self, count: int) -> float:
        """The share of rotations whose first ``count`` attempts vote for the right answer."""
        return sum(turn[count] for turn in self._right) / self.count

    def within(self, seconds: float) -> tuple[float, float]:
        """The share of rotations with the right answer after ``seconds``, and the mean number of finished attempts."""
        fit = [bisect_right(ends, seconds) for ends in self.ends]
        return sum(turn[n] for turn, n in zip(self._right, fit, strict=True)) / self.count, sum(fit) / self.count


Attempts = Mapping[str, Sequence[Sequence[Attempt]]]  # method -> problem -> its attempts, in order
Tried = Mapping[str, Sequence[_Tried]]  # method -> the problems that it has attempted


def rotated(attempts: Attempts, right: Sequence[str]) -> Tried:
    """The rotations for all tables below. They are expensive, so compute them once."""
    pairs = {name: zip(problems, right, strict=True) for name, problems in attempts.items()}
    tried = {name: [_Tried(*pair) for pair in group if pair[0]] for name, group in pairs.items()}
    return {name: problems for name, problems in tried.items() if problems}


def grid_of(tried: Tried) -> list[float]:
    """Budgets from no finished attempt to all of them, evenly spaced on a logarithmic axis."""
    problems = [problem for group in tried.values() for problem in group]
    first = min((run.seconds for problem in problems for run in problem.attempts), default=1.0)
    last = max((problem.ends[0][-1] for problem in problems), default=1.0)
    low, high = (math.log10(max(seconds, 1e-6)) * PER_DECADE for seconds in (first, last))
    return [round(10 ** (step / PER_DECADE), 6) for step in range(math.floor(low), math.ceil(high) + 1)]


def curves(tried: Tried) -> list[dict[str, Any]]:
    """A row for each method and budget of :func:`grid_of`: the share of problems whose majority is right, with a 95 %
    interval over problems. A curve ends when all attempts are used up."""
    rows, budgets = [], grid_of(tried)
    for name, group in tried.items():
        for budget in budgets:
            stats = [problem.within(budget) for problem in group]
            rows.append(
                {
                    "method": name,
                    "budget": budget,
                    **shared([score for score, _ in stats]),
                    "attempts": sum(fit for _, fit in stats) / len(stats),
                    "used_up": sum(problem.ends[0][-1] <= budget for problem in group) / len(stats),
                    "problems": len(stats),
                }
            )
            if rows[-1]["used_up"] == 1:
                break
    return rows


def votes(tried: Tried) -> list[dict[str, Any]]:
    """A row for each method and number of attempts, over the problems with that many."""
    return [
        {"method": name, "k": count, **shared([problem.voted(count) for problem in voting]), "problems": len(voting)}
        for name, problems in tried.items()
        for count in range(1, max(problem.count for problem in problems) + 1)
        if (voting := [problem for problem in problems if problem.count >= count])
    ]


def singles(tried: Tried) -> dict[str, dict[str, Any]]:
    """By method: accuracy and mean seconds of an attempt, and the share without an answer."""
    by_method: dict[str, dict[str, Any]] = {}
    for name, problems in tried.items():
        attempts = [attempt for problem in problems for attempt in problem.attempts]
        by_method[name] = {
            "accuracy": sum(problem.voted(1) for problem in problems) / len(problems),
            "attempts": len(attempts),
            "seconds": sum(attempt.seconds for attempt in attempts) / len(attempts),
            "no_answer": sum(not attempt.answer for attempt in attempts) / len(attempts),
        }
    return by_method


def shared(scores: Sequence[float]) -> dict[str, float]:
    """The mean over problems with the ends of its 95 % interval."""
    mean = mean_interval(scores)
    return {"accuracy": mean.value, "low": max(0.0, mean.low), "high": min(1.0, mean.high)}
