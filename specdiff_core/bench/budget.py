"""Accuracy within seconds (the acceleration–compute figure of SpecDiff-2, arXiv 2511.00606): problems are attempted by
vanilla and by every setting, and of the attempts that are finished within a budget the commonest answer counts.

No text depends on the budget, so nothing is decoded for it: one measurement of attempts gives the whole curve.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import msgspec

from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.report import costs, interval, mean_interval
from specdiff_core.bench.store import Budget, BudgetEntry, Interval, Row, RowLog, W, Within, lane_of
from specdiff_core.bench.workloads import answered, canonical
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

ATTEMPTS, TEMPERATURE = 8, 0.5
"""Of a problem, unless others are asked for."""
PER_DECADE = 8
"""Budgets of the grid from one second to ten."""
Z99 = 2.576
"""Of a 99 % interval: several methods are held against vanilla at once."""


class Attempt(NamedTuple):
    """One text: its decode seconds, the prompt's included, and the answer that it ends with, as
    :func:`~specdiff_core.bench.workloads.canonical` writes it; "" if with none."""

    seconds: float
    answer: str


def attempt_of(events: Sequence[Event]) -> Attempt:
    """What a finished run is as an attempt. One that was cut off has only an answer that it states."""
    last = final(events)
    assert last is not None, "a decode ends with Finished or raises"
    ended = last.reason in ("end_of_text", "stop_string")
    return Attempt(round(last.seconds, 5), canonical(answered(last.text, ended=ended)))


class AttemptRow(Row, kw_only=True):
    """One attempt, not scored yet; ``repeat`` counts them."""

    answer: str

    @classmethod
    def of_run(cls: type[W], events: Sequence[Event], **where: Any) -> W:
        return super().of_run(events, answer=attempt_of(events).answer, **where)


def majorities(answers: Sequence[str]) -> list[str]:
    """Of none of the answers, the first, the first two and so on, the one given most often, the earliest of several;
    texts without one have no vote."""
    votes, first, leading = Counter[str](), dict[str, int](), ""
    told = [leading]
    for answer in answers:
        if answer:
            votes[answer] += 1
            first.setdefault(answer, len(first))
            if not leading or (votes[answer], -first[answer]) > (votes[leading], -first[leading]):
                leading = answer
        told.append(leading)
    return told


class _Tried:
    """The attempts of a method at one problem, as if each in turn had been the first: so every attempt counts as often
    as any other, and the share that is right has less noise."""

    def __init__(self, attempts: Sequence[Attempt], right: str) -> None:
        self.count, self.attempts = len(attempts), attempts
        turns = [[*attempts[first:], *attempts[:first]] for first in range(self.count)]
        self.ends = [list(accumulate(attempt.seconds for attempt in turn)) for turn in turns]
        self._right = [[said == right for said in majorities([one.answer for one in turn])] for turn in turns]

    def voted(self, count: int) -> float:
        """The share of turns whose first ``count`` attempts vote for the right answer."""
        return sum(turn[count] for turn in self._right) / self.count

    def within(self, seconds: float) -> tuple[float, float]:
        """The share of turns that are right after so many seconds, and how many attempts are finished on average."""
        fit = [bisect_right(ends, seconds) for ends in self.ends]
        return sum(turn[n] for turn, n in zip(self._right, fit, strict=True)) / self.count, sum(fit) / self.count

    def changes(self) -> Iterator[Iterator[tuple[float, int]]]:
        """Of every turn: its ends, and whether the vote becomes right there (1), wrong (-1) or neither."""
        for ends, right in zip(self.ends, self._right, strict=True):
            yield ((end, now - before) for end, before, now in zip(ends, right, right[1:], strict=False))


Found = Mapping[str, Sequence[Sequence[Attempt]]]  # method -> problem -> its attempts, in order


Tried = Mapping[str, Sequence[_Tried]]  # method -> the problems that it has attempted


def in_turn(found: Found, right: Sequence[str]) -> Tried:
    """What all tables of an answer count: it is the costly part, so an answer makes it once."""
    pairs = {name: zip(each, right, strict=True) for name, each in found.items()}
    tried = {name: [_Tried(own, answer) for own, answer in pair if own] for name, pair in pairs.items()}
    return {name: own for name, own in tried.items() if own}


def grid_of(tried: Tried) -> list[float]:
    """Budgets from where no attempt is finished to where all are, evenly on a logarithmic axis."""
    problems = [one for own in tried.values() for one in own]
    first = min((attempt.seconds for one in problems for attempt in one.attempts), default=1.0)
    last = max((one.ends[0][-1] for one in problems), default=1.0)
    low, high = (math.log10(max(seconds, 1e-6)) * PER_DECADE for seconds in (first, last))
    return [round(10 ** (step / PER_DECADE), 6) for step in range(math.floor(low), math.ceil(high) + 1)]


def curves(tried: Tried, budgets: Sequence[float] = (), *, beyond: bool = False) -> list[dict[str, Any]]:
    """A row for each method and budget, by default those of :func:`grid_of`: the share of problems whose majority is
    right, with a 95 % bootstrap interval over problems. A curve ends where all attempts at all problems are used up:
    what more of them would bring was not measured; ``beyond``: no more of them were wanted."""
    rows, budgets = [], budgets or grid_of(tried)
    for name, own in tried.items():
        for budget in budgets:
            each = [one.within(budget) for one in own]
            rows.append(
                {
                    "method": name,
                    "budget": budget,
                    **shared([score for score, _ in each]),
                    "attempts": sum(fit for _, fit in each) / len(each),
                    "used_up": sum(one.ends[0][-1] <= budget for one in own) / len(each),
                    "problems": len(each),
                }
            )
            if rows[-1]["used_up"] == 1 and not beyond:
                break
    return rows


def votes(tried: Tried) -> list[dict[str, Any]]:
    """A row for each method and number of attempts, whatever they took, of the problems that have so many."""
    return [
        {"method": name, "k": count, **shared([one.voted(count) for one in own]), "problems": len(own)}
        for name, each in tried.items()
        for count in range(1, max(one.count for one in each) + 1)
        if (own := [one for one in each if one.count >= count])
    ]


def singles(tried: Tried) -> dict[str, dict[str, Any]]:
    """By method: accuracy and mean seconds of one attempt, and the difference from vanilla's accuracy at the same
    problems with its 99 % noise (that of the attempts only: the problems are the same). Of one attempt at a problem
    nobody knows the noise; of a few, shares are smoothed for it, or two that agree by chance would have none."""
    told: dict[str, dict[str, Any]] = {}
    spread: dict[str, tuple[float, float | None]] = {}  # accuracy, its variance
    for name, own in tried.items():
        attempts = [attempt for one in own for attempt in one.attempts]
        accuracy = sum(one.voted(1) for one in own) / len(own)
        spread[name] = (accuracy, _variance([(one.voted(1), one.count) for one in own]))
        (base, before), (_, variance) = spread.get("vanilla", spread[name]), spread[name]
        known = name != "vanilla" and variance is not None and before is not None
        told[name] = {
            "accuracy": accuracy,
            "attempts": len(attempts),
            "seconds": sum(attempt.seconds for attempt in attempts) / len(attempts),
            "no_answer": sum(not attempt.answer for attempt in attempts) / len(attempts),
            "difference": accuracy - base,
            "noise": Z99 * math.sqrt((variance or 0) + (before or 0)) if known else None,
        }
    return told


def _variance(shares: Sequence[tuple[float, int]]) -> float | None:
    """Of the mean of shares, each of so many attempts; None where one is of a single attempt."""
    if any(count < 2 for _, count in shares):
        return None
    smooth = [((share * count + 1) / (count + 2), count) for share, count in shares]
    return sum(share * (1 - share) / (count - 1) for share, count in smooth) / len(shares) ** 2


def shared(scores: Sequence[float]) -> dict[str, float]:
    """The mean over problems with the ends of its 95 % bootstrap interval."""
    mean = mean_interval(scores)
    return {"accuracy": mean.value, "low": mean.low, "high": mean.high}


# The bench.


def check_problems(prompts: Sequence[Prompt], base: DecodeConfig, attempts: int) -> None:
    """Refuse what could not be scored.

    Raises:
        ConfigError: a prompt has no answer, or all attempts at it would be the same text.
    """
    if attempts < 1:
        raise ConfigError("--attempts must be at least 1.", field="attempts", hint="Eight show what a vote is worth.")
    if without := [prompt.id for prompt in prompts if not canonical(prompt.answer)]:
        message = f"{len(without)} of {len(prompts)} prompts have no answer, the first of them {without[0]}."
        hint = 'Give every line of the file an "answer", choose gsm8k or math500, or leave --prompts out.'
        raise ConfigError(message, field="prompts", hint=hint)
    if base.temperature == 0 and attempts > 1:
        message = f"At temperature 0 all {attempts} attempts at a problem are the same text."
        raise ConfigError(message, field="temperature", hint="Take --attempts 1, or a temperature above 0.")


def budget_result(log: RowLog[AttemptRow], prompts: Sequence[Prompt], provenance: Provenance) -> Budget:
    """The attempts of a bench as it is stored."""
    rows, right = [row for row in log.rows if row.repeat >= 0], {one.id: canonical(one.answer) for one in prompts}
    goal, entries = aggregate(rows, right)
    flavours = Counter(prompt.flavour for prompt in prompts)
    return log.result(Budget, provenance=provenance, prompts=flavours, goal=goal, cells=entries)


def aggregate(rows: Sequence[AttemptRow], right: Mapping[str, str]) -> tuple[float | None, list[BudgetEntry]]:
    """The accuracy that all are timed to (see :func:`goal_of`), and the numbers of every setting, the baseline first.

    Args:
        right: prompt id -> its answer, as :func:`~specdiff_core.bench.workloads.canonical` writes it.
    """
    of: dict[str, list[AttemptRow]] = {BASELINE.key: []}
    for row in sorted(rows, key=lambda row: row.repeat):  # an interrupted bench may have measured them in another order
        of.setdefault(row.setting, []).append(row)

    def by_problem(own: Sequence[AttemptRow]) -> list[list[Attempt]]:
        attempts: dict[str, list[Attempt]] = {id: [] for id in right}
        for row in own:
            attempts[row.prompt].append(Attempt(row.metrics.seconds, row.answer))
        return list(attempts.values())

    tried = in_turn({lane_of(key): by_problem(own) for key, own in of.items()}, list(right.values()))
    spent = {
        key: costs((row.prompt, row.metrics.seconds, row.metrics.committed) for row in own) for key, own in of.items()
    }
    single, voted, goal = singles(tried), votes(tried), goal_of(tried[lane_of(BASELINE.key)])
    one = all(attempted.count == 1 for own in tried.values() for attempted in own)
    table = curves(tried, columns_of(tried, one), beyond=one)
    entries = []
    for key, own in of.items():
        lane, facts = lane_of(key), single[lane_of(key)]
        columns, by_count = ([row for row in each if row["method"] == lane] for each in (table, voted))
        entries.append(
            BudgetEntry(
                **msgspec.structs.asdict(BenchSetting.parse(key)),
                single=_accuracy(by_count[0]),
                voted=_accuracy(by_count[-1]),
                difference=facts["difference"],
                noise=facts["noise"],
                no_answer=facts["no_answer"],
                seconds=facts["seconds"],
                speedup=interval(spent[BASELINE.key], spent[key], {"all": list(right)})["all"],
                within=[Within(row["budget"], _accuracy(row), row["attempts"], row["used_up"]) for row in columns],
                reached=reached(tried[lane], goal),
                waiting=sum((row.metrics for row in own), Metrics()).waiting,
                attempts=len(own),
            )
        )
    return goal, entries


def _accuracy(row: Mapping[str, float]) -> Interval:
    return Interval(row["accuracy"], row["low"], row["high"])


def columns_of(tried: Tried, all_to_their_end: bool) -> list[float]:
    """Budgets for a table: 1, 2 and 5 times the powers of ten, from where the first attempt of all is finished to where
    all methods but one have used up theirs, or all of them."""
    first = min(attempt.seconds for own in tried.values() for one in own for attempt in one.attempts)
    *_, last, longest = (0.0, *sorted(max(one.ends[0][-1] for one in own) for own in tried.values()))
    last = longest if all_to_their_end or not last else last
    low, high = (math.floor(math.log10(max(seconds, 1e-6))) for seconds in (first, last))
    steps = [float(f"{digit}e{power}") for power in range(low, high + 2) for digit in (1, 2, 5)]
    return [step for before, step in zip((0.0, *steps), steps, strict=False) if step >= first and before < last]


def stairs(own: Sequence[_Tried]) -> dict[float, float]:
    """The curve of one method where all problems have as many attempts: the seconds at which its accuracy changes, in
    their order, and what it is from then on."""
    changes = sorted((end, step) for one in own for turn in one.changes() for end, step in turn)
    total = accumulate(step for _, step in changes)
    return {end: right / (own[0].count * len(own)) for (end, _), right in zip(changes, total, strict=True)}


def goal_of(own: Sequence[_Tried]) -> float | None:
    """The highest accuracy of a method while it has attempts left at every problem, or of all there is where each has
    only one; None where it is never right."""
    until = min(one.ends[0][-1] for one in own) if own[0].count > 1 else math.inf
    return max((accuracy for seconds, accuracy in stairs(own).items() if seconds < until), default=0.0) or None


def reached(own: Sequence[_Tried], accuracy: float | None) -> float | None:
    """The seconds from which a method is as often right; None where it never is."""
    if accuracy is None:
        return None
    return next((seconds for seconds, share in stairs(own).items() if share >= accuracy), None)
