"""Accuracy within a budget of seconds (the acceleration–compute figure of SpecDiff-2, arXiv 2511.00606): the most
frequent answer of the attempts counts.

The attempts of all lossless methods have one distribution, the target's (docs/theory.md, Exactness), so all of them
together measure one accuracy for each number of attempts. Only the seconds of an attempt depend on the method.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from specdiff_core.measure.answers import canonical, final_answer
from specdiff_core.measure.statistics import Resampled
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    import numpy as np


class Attempt(NamedTuple):
    """One text: decode seconds, prefill included, and its answer in the form of
    :func:`~specdiff_core.measure.answers.canonical`; "" without one."""

    seconds: float
    answer: str


def read_attempt(events: Sequence[Event]) -> Attempt:
    """The attempt of a finished run. If it was cut off, only an explicitly stated answer counts."""
    last = final(events)
    assert last is not None, "a decode ends with Finished or raises"
    ended = last.reason in ("end_of_text", "stop_string")
    return Attempt(round(last.seconds, 5), canonical(final_answer(last.text, ended=ended)))


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


Attempts = Mapping[str, Sequence[Sequence[Attempt]]]  # method -> problem -> its attempts, in order


def majority_shares(answers: Sequence[str], right: str, most: int) -> list[float]:
    """How often the majority of 0, 1, …, ``most`` of these answers is right, averaged over which comes first: this
    reduces the noise."""
    turns = [majorities([*answers[first:], *answers[:first]][:most]) for first in range(len(answers))]
    return [sum(turn[count] == right for turn in turns) / len(turns) for count in range(most + 1)]


def curves(attempts: Attempts, right: Sequence[str]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """The accuracy within seconds, from the problems that every method attempted.

    Returns:
        rows: for each method and number of attempts k, their mean ``seconds``; the ``accuracy`` of a majority of k,
            pooled over all methods, with its 95 % interval over problems; and the ``gain`` over vanilla's accuracy
            after as many seconds, with its paired interval. Between whole attempts, vanilla's is interpolated; the
            gain is None where vanilla finished none, or more than were measured.
        singles: by method, its number of ``attempts``, their own ``accuracy``, mean ``seconds`` and share without an
            answer; and the ``speedup`` of an attempt, vanilla's mean seconds over its own, with its paired interval.
    """
    import numpy as np

    problems = [number for number in range(len(right)) if all(own[number] for own in attempts.values())]
    if not problems:
        return [], {}
    pooled = [  # the first attempt of every method, then the second, …
        [one.answer for one in chain(*zip_longest(*(own[number] for own in attempts.values()))) if one]
        for number in problems
    ]
    most = min(map(len, pooled))
    scores = [majority_shares(answers, right[number], most) for answers, number in zip(pooled, problems, strict=True)]
    sampled = Resampled([len(problems)])
    accuracy = sampled.sums(0, scores) / sampled.sums(0, [[1]] * len(problems))  # [1 + most, 1 + resamples]
    seconds, singles = dict[str, np.ndarray](), dict[str, dict[str, Any]]()  # of an attempt: [1 + resamples]
    for name, own in attempts.items():
        tried = [own[number] for number in problems]
        spent, count = sampled.sums(0, [[sum(one.seconds for one in each), len(each)] for each in tried])
        seconds[name] = spent / count
        speed = sampled.interval(seconds[BASELINE] / seconds[name])
        pairs = [(one.answer, right[number]) for number in problems for one in own[number]]
        singles[name] = {
            "attempts": len(pairs),
            "accuracy": sum(answer == wanted for answer, wanted in pairs) / len(pairs),
            "seconds": float(seconds[name][0]),
            "no_answer": sum(not answer for answer, _ in pairs) / len(pairs),
            "speedup": speed.value,
            "low": speed.low,
            "high": speed.high,
        }
    rows = []
    for name in attempts:
        for count in range(1, most + 1):
            share = sampled.interval(accuracy[count], positive=False)
            row = {"method": name, "attempts": count, "seconds": count * float(seconds[name][0])}
            row |= {"accuracy": share.value, "low": max(0.0, share.low), "high": min(1.0, share.high)}
            row |= dict.fromkeys(("gain", "gain_low", "gain_high"))
            finished = count * seconds[name] / seconds[BASELINE]  # attempts of vanilla
            if name != BASELINE and 1 <= finished[0] <= most:
                gain = sampled.interval(accuracy[count] - _at(accuracy, finished), positive=False)
                row |= {"gain": gain.value, "gain_low": gain.low, "gain_high": gain.high}
            short = {field: round(value, 6) if isinstance(value, float) else value for field, value in row.items()}
            rows.append(short | {"problems": len(problems)})
    return rows, singles


def _at(accuracy: np.ndarray, finished: np.ndarray) -> np.ndarray:
    """Interpolates ``accuracy [1 + most, n]`` at numbers of attempts ``finished [n]``, in each column."""
    import numpy as np

    whole = np.clip(finished.astype(int), 0, len(accuracy) - 2)
    part, columns = np.minimum(finished - whole, 1.0), np.arange(len(finished))
    before, after = accuracy[whole, columns], accuracy[whole + 1, columns]
    mixed: np.ndarray = before + part * (after - before)
    return mixed
