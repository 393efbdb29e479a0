"""Budget (SpecDiff-2, arXiv 2511.00606: accuracy within seconds): how much does faster decoding
help when answers are chosen by vote? Each method attempts problems several times, at a temperature
above 0; the most frequent answer counts.

No text depends on the budget, so each budget just counts the measured attempts that finish within it. Every lossless
method draws its attempts from vanilla's distribution; a faster one finishes more of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import msgspec

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Exploration, Report, ShouldStop, Step, each_line
from specdiff_core.explorations.fields import METHOD, SEED
from specdiff_core.explorations.figures import FROM_ZERO, Figure, Row, axes, percent, ratio
from specdiff_core.explorations.runs import Runs
from specdiff_core.measure.answers import answered, canonical
from specdiff_core.measure.prompts import OWN_PROBLEMS, SHORT_QUESTIONS, Problem, Prompt, Text
from specdiff_core.measure.votes import ATTEMPTS, TEMPERATURE, Attempt, attempt_of, curves, rotated, singles, votes
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import find_method
from specdiff_core.schema.settings import DecodeConfig, Template

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

LONGEST_ANSWER = 60
"""Maximum characters of an answer."""


class Budget(Exploration, frozen=True, kw_only=True):
    """Accuracy on problems by seconds, by majority of the attempts that fit."""

    name: ClassVar = "budget"
    title: ClassVar = "Budget"
    question: ClassVar = "How many answers are right with a given number of seconds per problem?"
    takes: ClassVar = 90
    scales: ClassVar = ("methods", "attempts", "problems", "tokens")
    columns: ClassVar = {
        "method": "name of the method",
        "budget": "seconds per problem",
        "accuracy": "share of problems whose majority answer is right, averaged over which attempt comes first",
        "low": "95 % interval over problems, lower end",
        "high": "95 % interval over problems, upper end",
        "attempts": "mean number of attempts finished within the budget",
        "used_up": "share of problems whose measured attempts all finished within the budget",
        "problems": "problems measured so far",
        "race": "the race that the row comes from",
        "waiting": "threads that waited for a processor, on average",
    }

    methods: Annotated[
        tuple[METHOD, ...], ask("Methods", "Each is compared with vanilla on the same problems.", least=1, most=6)
    ] = ("specdiff", "dflash", "eagle", "markov_tree")
    source: Annotated[
        Literal["solutions", "short"],
        ask(
            "Kind of problems",
            "solutions: word problems with worked solutions, for the embedded pair. short: sums and short questions, "
            "which a target such as SmolLM2 can answer.",
        ),
    ] = "solutions"
    given: Annotated[
        Literal["all", "most", "none"],
        ask(
            "Solution lines given",
            "All, all but the last, or none. A target as small as the embedded one cannot calculate, but it can "
            "finish a worked solution. Short questions have none.",
        ),
    ] = "all"
    attempts: Annotated[int, ask("Attempts k", "For each method and problem.", 1, 64)] = ATTEMPTS
    problems: Annotated[
        int,
        ask(
            "Problems",
            "This project's; add your own under More settings. More problems, narrower intervals.",
            2,
            len(OWN_PROBLEMS),
        ),
    ] = len(OWN_PROBLEMS)
    texts: Annotated[
        str,
        ask(
            "Your own problems",
            'They replace this project\'s: one per line, "question | answer", or JSON lines {"question", '
            '"answer"}, where the answer may be a solution that ends in "#### number" or contains \\boxed{…}. '
            "Equivalent numbers and expressions match.",
            most=20_000,
            more=True,
        ),
    ] = ""
    temperature: Annotated[float, ask("Temperature", "Above 0, so that attempts differ.", 0.1, 2)] = TEMPERATURE
    tokens: Annotated[int, ask("New tokens", "Limit of an attempt; one without an answer has no vote.", 8, 256)] = 64
    seed: SEED = 0

    @property
    def base(self) -> DecodeConfig:
        """Settings that all runs share. A text may end by itself; a short answer ends with its line."""
        return DecodeConfig(
            pair=self.pair,
            max_new_tokens=self.tokens,
            temperature=self.temperature,
            seed=self.seed,
            stop="\\n" if self.shots else "",
            template=Template.PLAIN if self.shots else Template.AUTO,
        )

    @property
    def shots(self) -> bool:
        """Whether this project's short questions are asked."""
        return self.source == "short" and not self.texts.strip()

    def prompt_of(self, problem: Problem) -> str:
        """The prompt of a problem."""
        lines = len(problem.steps)
        return problem.begun({"all": lines, "most": lines - 1, "none": 0}[self.given])

    def chosen(self, engine: Engine) -> tuple[Sequence[Problem], list[str]]:
        """The problems, and why lines were left out.

        Raises:
            ConfigError: fewer than two of the visitor's own can be used: one has no interval.
        """
        if not self.texts.strip():
            return (SHORT_QUESTIONS if self.shots else OWN_PROBLEMS)[: self.problems], []
        check = lambda problem: engine.encode(self.prompt_of(problem), self.base)
        problems, skipped = each_line(self.texts, read_problem, check)
        if len(problems) < 2:
            words = f"{len(problems) or 'None'} of your problems can be used, but two are needed: "
            raise ConfigError(
                words + "; ".join(skipped[:3]), field="texts", hint='Give one per line: "What is 3 + 4? | 7".'
            )
        return problems, skipped

    def explore(self, engine: Engine, stopped: ShouldStop) -> Iterator[Step]:
        problems, skipped = self.chosen(engine)
        right = [problem.answer for problem in problems]
        prompts = [
            Prompt(id=f"problem {number}, attempt {attempt}", flavour="math", prompt=self.prompt_of(problem))
            for attempt in range(1, self.attempts + 1)  # all problems once before any twice
            for number, problem in enumerate(problems, start=1)
        ]
        methods = {name: find_method(name) for name in dict.fromkeys(("vanilla", *self.methods))}
        configs = {name: method.config(self.base) for name, method in methods.items() if name != "vanilla"}
        if not configs:
            raise ConfigError("Vanilla always runs.", field="methods", hint="Choose a method to compare with it.")
        runs = Runs(engine, self.base, configs, prompts, stopped)
        attempts = {name: [list[Attempt]() for _ in problems] for name in methods}
        begun = "The answer is" if self.shots else ""

        def answer() -> Answer:
            tried = rotated(attempts, right)
            rows = curves(tried)
            for row in rows:
                name = row["method"]
                row |= {"race": name if name in runs.races else None, "waiting": runs.total(name).waiting}
            facts = {
                "threads": runs.threads,
                "skipped": skipped + runs.left_out(),
                "problems": [{"prompt": self.prompt_of(problem), "answer": problem.answer} for problem in problems],
                "given": self.given if any(self.prompt_of(one) != one.prompt for one in problems) else "none",
                "single": singles(tried),
                "votes": votes(tried),
                "attempts": {
                    name: [
                        {"seconds": [text.seconds for text in group], "answers": [text.answer for text in group]}
                        for group in by_problem
                    ]
                    for name, by_problem in attempts.items()
                },
            }
            return Answer(rows=rows, facts=facts, races=runs.races)

        for done, total, run in runs.fill():
            for name, events in runs.events.items():
                attempts[name][run.turn % len(problems)].append(attempt_of(events, begun))
            yield Step(done, total, f"{methods[run.lane].label}, {run.prompt.id}", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        vanilla = facts.get("single", {}).get("vanilla")
        others = {name: row for name, row in facts.get("single", {}).items() if name != "vanilla"}
        if not vanilla or not others:
            return Report()
        label = {name: look.label for name, look in draw.styles(facts["single"]).items()}
        quickest = min(others, key=lambda name: others[name]["seconds"])
        goal = max((row["accuracy"] for row in rows if row["method"] == "vanilla" and not row["used_up"]), default=0.0)
        slow, fast = (seconds_to(rows, name, goal) for name in ("vanilla", quickest))
        apart = separated(rows)
        if apart and goal and slow and fast:
            answer = (
                f"To get {percent(goal)} of the problems right, vanilla needs {_lasting(slow)} per problem and "
                f"{label[quickest]} needs {_lasting(fast)}."
            )
        else:
            answer = (
                f"An attempt takes {_lasting(vanilla['seconds'])} with vanilla and "
                f"{_lasting(others[quickest]['seconds'])} with {label[quickest]}."
            )
        planned = len(facts["problems"]) * self.attempts
        if not apart and all(row["attempts"] == planned for row in (vanilla, *others.values())):
            answer += (
                f" These {len(facts['problems'])} problems can’t separate the methods: at every budget, each "
                "interval overlaps vanilla’s. More problems or attempts would narrow the intervals."
            )
        single = [f"vanilla {percent(vanilla['accuracy'])} ({vanilla['attempts']} attempts)"]
        single += [f"{label[name]} {percent(row['accuracy'])}" for name, row in others.items()]
        small = self.pair == "embedded"
        given = {
            "all": "The whole solution was given, and the target only had to finish the text"
            + (": a model this small cannot calculate." if small else "."),
            "most": "All lines of the solution but the last were given.",
            "none": "The target had to solve each problem by itself"
            + (": a model this small is hardly ever right." if small else "."),
        }
        most = [row for row in facts["votes"] if row["method"] == "vanilla"][-1]
        return Report(
            answer=answer,
            notes=[
                "Every method here is lossless, so one attempt should be as accurate as vanilla’s. Only the time per "
                "attempt, and so the number of attempts within a budget, should differ.",
                f"Accuracy of one attempt: {'; '.join(single)}. Attempts without an answer don’t vote: "
                f"{percent(vanilla['no_answer'])} of vanilla’s.",
                given[facts.get("given", self.given)],
                f"The bands are wide: with {draw.plural(most['k'], 'attempt')}, vanilla’s {percent(most['accuracy'])} "
                f"has a 95 % interval of {percent(most['low'])} to {percent(most['high'])} over "
                f"{draw.plural(most['problems'], 'problem')}. A method inside it may be just as accurate.",
            ],
            figures=_figures(rows, facts["votes"]),
            titles={name: find_method(name).label for name in others},
        )


SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def _figures(rows: Sequence[Row], votes: Sequence[Row]) -> list[Figure]:
    """Accuracy by seconds, and by the number of attempts."""

    def fits(row: Row) -> str:
        used_up = f"<br>{percent(row['used_up'])} of the problems used up all attempts" if row["used_up"] else ""
        return f"{_lasting(row['budget'])} per problem, {row['attempts']:.1f} attempts fit{used_up}"

    log = {"type": "log", "tickvals": SECONDS, "ticktext": [f"{seconds:g}" for seconds in SECONDS]}
    share = FROM_ZERO | {"tickformat": ".0%"}
    return [
        Figure(
            key="seconds",
            title="Right answers by time per problem",
            hint="bands: 95 % interval over problems; open marks: some problems used up all attempts",
            opens="a point opens a race",
            data=_bands(rows, "budget", fits),
            layout=axes("seconds per problem", "majority correct", xaxis=log, yaxis=share, showlegend=True),
        ),
        Figure(
            key="votes",
            title="Right answers by number of attempts",
            hint="regardless of time; bands: 95 % interval over problems",
            data=_bands(votes, "k", lambda row: f"majority of {row['k']}"),
            layout=axes("attempts k", "majority correct", yaxis=share, showlegend=True),
        ),
    ]


def _lasting(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{ratio(seconds)} s"


def seconds_to(rows: Sequence[Row], method: str, accuracy: float) -> float | None:
    """Seconds at which a method's majority reaches an accuracy, interpolated over log seconds; None
    if it never does."""
    curve = [row for row in rows if row["method"] == method]
    i = next((i for i, row in enumerate(curve) if row["accuracy"] >= accuracy), None)
    if not i:
        return curve[0]["budget"] if i == 0 else None
    before, after = curve[i - 1], curve[i]
    fraction = (accuracy - before["accuracy"]) / (after["accuracy"] - before["accuracy"])
    seconds: float = before["budget"] * (after["budget"] / before["budget"]) ** fraction
    return seconds


def separated(rows: Sequence[Row]) -> bool:
    """Whether some method's interval lies above or below vanilla's at the same budget."""
    vanilla = {row["budget"]: row for row in rows if row["method"] == "vanilla"}
    pairs = [(row, vanilla[row["budget"]]) for row in rows if row["budget"] in vanilla]
    return any(row["low"] > base["high"] or row["high"] < base["low"] for row, base in pairs)


def _bands(rows: Sequence[Row], x: str, words: Callable[[Row], str]) -> list[dict[str, Any]]:
    """A line for each method over its interval; open marks where some problems used all attempts."""

    def hover(row: Row) -> str:
        low, high = percent(row["low"]), percent(row["high"])
        return f"{words(row)}<br>{percent(row['accuracy'])} right, 95 % interval {low} to {high}"

    bands, traces = [], draw.lines(rows, "method", x, "accuracy", hover)
    for trace, (name, look) in zip(traces, draw.styles(row["method"] for row in rows).items(), strict=True):
        curve = [row for row in rows if row["method"] == name]
        ends = [row["high"] for row in curve] + [row["low"] for row in reversed(curve)]
        trace["marker"]["symbol"] = [f"{look.mark}-open" if row.get("used_up") else look.mark for row in curve]
        around = [row[x] for row in [*curve, *reversed(curve)]]
        band: dict[str, Any] = {"fillcolor": look.colour, "opacity": 0.07}
        bands.append(draw.trace("", around, ends, look.colour, dash="solid", width=0, fill="toself", **band))
    return [*bands, *traces]


class _Line(msgspec.Struct):
    answer: Text | float
    question: str = ""
    problem: str = ""
    prompt: str = ""


def read_problem(line: str, number: int = 0) -> Problem:
    """Read a visitor's problem: ``question | answer``, or a JSON object with ``question`` (GSM8K)
    or ``problem`` (MATH-500) and ``answer``. An answer that ends in ``#### 12`` or contains
    ``\\boxed{\\frac{1}{2}}`` is a solution, one line per step.

    Raises:
        ConfigError: the question or the answer is missing.
        msgspec.DecodeError: it is not such an object.
    """
    if line.lstrip().startswith("{"):
        parsed = msgspec.json.decode(line, type=_Line)
        question, answer = parsed.question or parsed.problem or parsed.prompt, str(parsed.answer)
    else:
        question, _, answer = line.rpartition("|")
    if not question.strip():
        raise ConfigError('there is no question, nor "|" and an answer after one')
    worked, _, last = answer.rpartition("####")
    if "\\boxed{" in answer:
        worked, last = answer, answered(answer)
    if not (right := canonical(last)):
        raise ConfigError("there is no answer")
    if len(right) > LONGEST_ANSWER:
        raise ConfigError(f"the answer is longer than {LONGEST_ANSWER} characters")
    steps = [re.sub("<<.*?>>", "", step).strip() for step in worked.splitlines()]  # <<…>>: notes for a calculator
    return Problem(f"Question: {question.strip()}\nAnswer:", tuple(filter(None, steps)), right)
