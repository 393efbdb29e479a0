"""Budget (SpecDiff-2, arXiv 2511.00606: accuracy within seconds): what is a faster decode worth where answers are voted
on? Each method attempts worked problems several times, at a temperature above 0, and the commonest answer counts.

No text depends on the budget, so nothing is decoded again for it: of the measured attempts, in order, those count that
are finished within it. Every lossless method draws its attempts from vanilla's law; more of them fit, that is all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from specdiff_core.bench.budget import ATTEMPTS, TEMPERATURE, Attempt, attempt_of, curves, in_turn, singles, votes
from specdiff_core.bench.grid import BASELINE
from specdiff_core.bench.prompts import OWN_PROBLEMS, Problem, Prompt, Text, problem
from specdiff_core.bench.workloads import answered, canonical
from specdiff_core.explorations.base import DRAFTING, Answer, Exploration, Step, Stopped, drafters_of, each_line, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import find_method
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

LONGEST = 60
"""Characters of an answer."""


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
    attempts: Annotated[int, Meta(ge=1, le=64, title="Attempts k", description="Of every method at every problem.")] = (
        ATTEMPTS
    )
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
            '"question | answer", or JSON lines {"question", "answer"}, where the answer may be worked out and end in '
            '"#### number" or hold \\boxed{…}. Numbers and expressions count as the same however they are written.',
        ),
    ] = ""
    temperature: Annotated[
        float, Meta(ge=0.1, le=2, title="Temperature", description="Of the target: attempts have to differ.")
    ] = TEMPERATURE
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
                found["vanilla"][place].append(attempt_of(fresh))
            if name not in runs.failed:
                found[name][place].append(attempt_of(runs.events))
            yield Step(done, total, f"{methods[name].label}, {prompts[(done - 1) // len(configs)].id}", answer)


class _Line(msgspec.Struct):
    answer: Text | float
    question: str = ""
    problem: str = ""


def read_problem(line: str) -> Problem:
    """A problem of the visitor's own: ``question | answer``, or a JSON object with ``question`` (GSM8K) or ``problem``
    (MATH-500) and ``answer``. An answer that ends in ``#### 12`` or holds ``\\boxed{\\frac{1}{2}}`` is worked out, a
    line for each step.

    Raises:
        ConfigError: question or answer are missing.
        msgspec.DecodeError: it is no such object.
    """
    if line.lstrip().startswith("{"):
        told = msgspec.json.decode(line, type=_Line)
        question, answer = told.question or told.problem, str(told.answer)
    else:
        question, _, answer = line.rpartition("|")
    if not question.strip():
        raise ConfigError('there is no question, nor "|" and an answer after one')
    worked, _, last = answer.rpartition("####")
    if "\\boxed{" in answer:
        worked, last = answer, answered(answer)
    if not (right := canonical(last)):
        raise ConfigError("there is no answer")
    if len(right) > LONGEST:
        raise ConfigError(f"the answer is longer than {LONGEST} characters")
    steps = [re.sub("<<.*?>>", "", step).strip() for step in worked.splitlines()]  # <<…>>: notes for a calculator
    return problem(question.strip(), *filter(None, steps), result=right)
