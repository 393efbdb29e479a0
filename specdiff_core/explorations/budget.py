"""Budget (SpecDiff-2, arXiv 2511.00606: accuracy within seconds): what is a faster decode worth where answers are voted
on? Each method attempts worked problems several times, at a temperature above 0, and the commonest answer counts.

No text depends on the budget, so nothing is decoded again for it: of the measured attempts, in order, those count that
are finished within it. Every lossless method draws its attempts from vanilla's law; more of them fit, that is all.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
from msgspec import Meta

from specdiff_core.bench.grid import BASELINE
from specdiff_core.bench.prompts import OWN_PROBLEMS, Problem, Prompt, Text, problem
from specdiff_core.bench.report import mean_interval
from specdiff_core.explorations.base import DRAFTING, Answer, Exploration, Step, Stopped, drafters_of, each_line, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event, Finished
from specdiff_core.schema.methods import find_method
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

PER_DECADE = 8
"""Budgets of the grid from one second to ten."""
Z99 = 2.576
"""Of a 99 % interval: several methods are held against vanilla at once."""
NUMBER = r"\$?(-?\d[\d,]*(?:\.\d+)?)"


class Attempt(NamedTuple):
    """One text: its decode seconds, the prompt's included, and the answer that it ends with; "" if with none."""

    seconds: float
    answer: str


class Budget(Exploration, frozen=True, kw_only=True):
    """Accuracy on worked problems against seconds, by majority of the attempts that fit."""

    name: ClassVar = "budget"
    title: ClassVar = "Budget"
    question: ClassVar = "With so many seconds for each problem, how many answers are right?"

    methods: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema=enum(DRAFTING, "methods"))], ...],
        Meta(min_length=1, max_length=6, title="Methods", description="Each beside vanilla, on the same problems."),
    ] = ("specdiff", "dflash", "eagle", "markov_tree")
    given: Annotated[
        Literal["all", "most", "none"],
        Meta(
            title="Sums that are given",
            description="Of the solution: all, all but the last line, or none. A target as small as the embedded one "
            "cannot calculate, but may finish what is worked out.",
        ),
    ] = "all"
    attempts: Annotated[int, Meta(ge=1, le=64, title="Attempts k", description="Of every method at every problem.")] = 8
    problems: Annotated[
        int,
        Meta(
            ge=2,
            le=len(OWN_PROBLEMS),
            title="Problems",
            description="Of this project; yours go under More settings. More problems, narrower intervals.",
        ),
    ] = len(OWN_PROBLEMS)
    texts: Annotated[
        str,
        Meta(
            max_length=20_000,
            title="Your own problems",
            extra_json_schema={"more": True},
            description="In place of this project's, and all of them: one a line, "
            '"question | number", or JSON lines {"question", "answer"}, where the answer may be worked out and end in '
            '"#### number". An attempt is right if the first number that it writes after "answer is" equals this one.',
        ),
    ] = ""
    temperature: Annotated[
        float, Meta(ge=0.1, le=2, title="Temperature", description="Of the target: attempts have to differ.")
    ] = 0.5
    tokens: Annotated[
        int, Meta(ge=8, le=256, title="New tokens", description="Of an attempt at most; without an answer, no vote.")
    ] = 64
    seed: Annotated[int, Meta(ge=0, le=2**30, title="Seed", description="Of everything that is drawn.")] = 0

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return drafters_of(self.pair, self.methods)

    @property
    def base(self) -> DecodeConfig:
        """What all runs share; a text may end by itself."""
        return DecodeConfig(pair=self.pair, max_new_tokens=self.tokens, temperature=self.temperature, seed=self.seed)

    def asked(self, problem: Problem) -> str:
        """The prompt of a problem."""
        lines = len(problem.steps)
        return problem.begun({"all": lines, "most": lines - 1, "none": 0}[self.given])

    def chosen(self, engine: Engine) -> tuple[Sequence[Problem], list[str]]:
        """The problems, and what is wrong with the lines that are none.

        Raises:
            ConfigError: the visitor's own were asked for, and fewer than two can be used: one has no interval.
        """
        if not self.texts.strip():
            return OWN_PROBLEMS[: self.problems], []
        seen: set[str] = set()

        def read(line: str, _: int) -> Problem:
            found = read_problem(line)
            if found.prompt in seen:
                raise ConfigError("this question stands there twice")
            engine.encode(self.asked(found), self.base)
            seen.add(found.prompt)
            return found

        problems, skipped = each_line(self.texts, read)
        if len(problems) < 2:
            told = f"Of your problems {len(problems) or 'none'} can be used, and two are needed. "
            raise ConfigError(
                told + "; ".join(skipped[:3]), field="texts", hint='Give one a line: "What is 3 + 4? | 7".'
            )
        return problems, skipped

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        problems, skipped = self.chosen(engine)
        right = [problem.answer for problem in problems]
        prompts = [
            Prompt(id=f"problem {number}, attempt {attempt}", flavour="math", prompt=self.asked(problem))
            for attempt in range(1, self.attempts + 1)  # all problems once before any twice
            for number, problem in enumerate(problems, start=1)
        ]
        methods = {name: find_method(name) for name in dict.fromkeys(("vanilla", *self.methods))}
        configs = {name: method.config(self.base) for name, method in methods.items() if name != "vanilla"}
        if not configs:
            raise ConfigError("Vanilla runs anyway.", field="methods", hint="Choose a method to hold against it.")
        runs = Runs(engine, self.base, configs, prompts, stopped)
        found: dict[str, list[list[Attempt]]] = {name: [[] for _ in problems] for name in methods}

        def answer() -> Answer:
            tried = in_turn(found, right)
            rows = curves(tried)
            for row in rows:
                key = BASELINE.key if row["method"] == "vanilla" else row["method"]
                row |= {"race": key if key in runs.races else None, "waiting": runs.sums(key)[0].waiting}
            facts = {
                **runs.facts(),
                "skipped": [*skipped, *(f"{methods[name].label}: {why}" for name, why in runs.failed.items())],
                "prompts": {},
                "problems": [{"prompt": self.asked(one), "answer": one.answer} for one in problems],
                "given": self.given if any(self.asked(one) != one.prompt for one in problems) else "none",
                "single": singles(tried),
                "votes": votes(tried),
                "attempts": {
                    name: [
                        {"seconds": [one.seconds for one in own], "answers": [one.answer for one in own]}
                        for own in each
                    ]
                    for name, each in found.items()
                },
            }
            return Answer(rows=rows, facts=facts, races=runs.races)

        for done, total, name in runs.fill():
            place = (done - 1) // len(configs) % len(problems)
            if fresh := runs.fresh_vanilla():
                found["vanilla"][place].append(_attempt(fresh))
            if name not in runs.failed:
                found[name][place].append(_attempt(runs.events))
            yield Step(done, total, f"{methods[name].label}, {prompts[(done - 1) // len(configs)].id}", answer)


def _attempt(events: Sequence[Event]) -> Attempt:
    last = events[-1]
    assert isinstance(last, Finished), "a run that was not stopped has an end"
    return Attempt(round(last.seconds, 5), answer_of(last.text))


class _Line(msgspec.Struct):
    question: Text
    answer: Text | float


def read_problem(line: str) -> Problem:
    """A problem of the visitor's own: ``question | number``, or a JSON object with ``question`` and ``answer``. An
    answer that ends in ``#### 12`` is worked out, a sum a line, as GSM8K has them.

    Raises:
        ConfigError: question or number are missing.
        msgspec.DecodeError: it is no such object.
    """
    if line.lstrip().startswith("{"):
        told = msgspec.json.decode(line, type=_Line)
        question, answer = told.question, str(told.answer)
    else:
        question, _, answer = line.rpartition("|")
        if not question.strip():
            raise ConfigError('there is no question with "|" and a number after it')
    worked, _, last = answer.rpartition("####")
    if not (number := re.fullmatch(NUMBER, last.strip())):
        raise ConfigError(f"the answer {last.strip()[:40]!r} is no number")
    steps = [re.sub("<<.*?>>", "", step).strip() for step in worked.splitlines()]  # <<…>>: notes for a calculator
    return problem(question.strip(), *filter(None, steps), result=_plain(number[1]))


def answer_of(text: str) -> str:
    """The number in "The answer is 12.", the first of these; "" where there is none."""
    said = re.search(f"answer is {NUMBER}", text)
    return _plain(said[1]) if said else ""


def _plain(number: str) -> str:
    """``1,200.50`` and ``1200.5`` as the same characters."""
    whole, _, rest = number.replace(",", "").partition(".")
    sign, whole, rest = whole[: whole.startswith("-")], whole.lstrip("-0") or "0", rest.rstrip("0")
    return f"{sign if whole != '0' or rest else ''}{whole}{'.' if rest else ''}{rest}"


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


def curves(tried: Tried) -> list[dict[str, Any]]:
    """A row for each method and budget: the share of problems whose majority is right, with a 95 % bootstrap interval
    over problems. A curve ends where all attempts at all problems are used up: what more of them would bring was not
    measured."""
    rows, grid = [], grid_of(tried)
    for name, own in tried.items():
        for budget in grid:
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
            if rows[-1]["used_up"] == 1:
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
