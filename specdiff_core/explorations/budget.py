"""Budget (SpecDiff-2, arXiv 2511.00606: accuracy within seconds): how much does faster decoding help when answers are
chosen by vote? Each method attempts problems several times, at a temperature above 0; the most frequent answer counts.

All methods are lossless, so their attempts have one distribution, the target's (docs/theory.md, Exactness): one
accuracy curve is measured from all of them, and only the time of an attempt depends on the method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Exploration, Report, Step, each_line
from specdiff_core.explorations.fields import METHOD, SEED
from specdiff_core.explorations.figures import FROM_ZERO, Figure, axes
from specdiff_core.explorations.measured import Runs
from specdiff_core.explorations.wording import Row, listed, percent, plural, ratio, speedup
from specdiff_core.measure.problems import EXAMPLES, PROBLEMS, read_problem
from specdiff_core.measure.prompts import Problem, Prompt
from specdiff_core.measure.votes import Attempt, curves, read_attempt
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method
from specdiff_core.schema.settings import DecodeConfig, Template

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

PUBLISHED = {"vanilla": 0.55, "SpecDiff": 0.81, "SpecDiff-2": 0.90}
"""Accuracy on MATH-500 of a 72B target after :data:`PUBLISHED_SECONDS`, read off SpecDiff-2's figure."""
PUBLISHED_SECONDS = 15


class Budget(Exploration, frozen=True, kw_only=True):
    """Accuracy on problems by seconds, by majority of the attempts that fit."""

    name: ClassVar = "budget"
    rank: ClassVar = 6
    title: ClassVar = "Budget"
    question: ClassVar = "How many answers are right with a given number of seconds per problem?"
    takes: ClassVar = 200
    scales: ClassVar = ("methods", "attempts", "problems", "tokens")
    columns: ClassVar = {
        "method": "name of the method",
        "attempts": "attempts that vote",
        "seconds": "mean seconds that this method takes for them",
        "accuracy": "share of problems whose majority answer is right: one curve, pooled over all methods",
        "low": "95 % interval over problems, lower end",
        "high": "95 % interval over problems, upper end",
        "gain": "accuracy minus vanilla’s after as many seconds",
        "gain_low": "95 % interval, paired by problem, lower end",
        "gain_high": "95 % interval, paired by problem, upper end",
        "problems": "problems measured so far",
        "race": "the race that the row comes from",
        "waiting": "threads that waited for a processor, on average",
    }

    methods: Annotated[
        tuple[METHOD, ...], ask("Methods", "Each races vanilla on the same problems.", least=1, most=6)
    ] = ("specdiff", "dflash", "eagle", "markov_tree")
    given: Annotated[
        Literal["all", "most", "none", "examples"],
        ask(
            "Given",
            "All lines of the solution, all but the last, or none; or two other problems with their solutions. A "
            "target as small as the embedded one cannot calculate, but it can finish a solution.",
        ),
    ] = "all"
    attempts: Annotated[
        int, ask("Attempts", "Of each method at each problem. Those of all methods vote together.", 1, 64)
    ] = 2
    problems: Annotated[
        int,
        ask(
            "Problems",
            "This project's; add your own under More settings. More problems, narrower intervals.",
            2,
            len(PROBLEMS),
        ),
    ] = len(PROBLEMS)
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
    temperature: Annotated[float, ask("Temperature", "Above 0, so that attempts differ.", 0.1, 2)] = 0.5
    tokens: Annotated[int, ask("New tokens", "Limit of an attempt; one without an answer has no vote.", 8, 256)] = 64
    seed: SEED = 0

    @property
    def base(self) -> DecodeConfig:
        """Settings that all runs share. A text may end by itself; after examples, an answer ends with its line."""
        examples = self.given == "examples"
        return DecodeConfig(
            pair=self.pair,
            max_new_tokens=self.tokens,
            temperature=self.temperature,
            seed=self.seed,
            stop="\\n" if examples else "",
            template=Template.PLAIN if examples else Template.AUTO,
        )

    def prompt_of(self, problem: Problem) -> str:
        """The prompt of a problem."""
        lines = len(problem.steps)
        begun = problem.begun({"all": lines, "most": lines - 1}.get(self.given, 0))
        return EXAMPLES + begun if self.given == "examples" else begun

    def chosen(self, engine: Engine) -> tuple[Sequence[Problem], list[str]]:
        """The problems, and why lines were left out.

        Raises:
            ConfigError: fewer than two of the visitor's own can be used: one has no interval.
        """
        if not self.texts.strip():
            return PROBLEMS[: self.problems], []
        check = lambda problem: engine.encode(self.prompt_of(problem), self.base)
        problems, skipped = each_line(self.texts, read_problem, check)
        if len(problems) < 2:
            words = f"{len(problems) or 'None'} of your problems can be used, but two are needed: "
            raise ConfigError(
                words + "; ".join(skipped[:3]), field="texts", hint='Give one per line: "What is 3 + 4? | 7".'
            )
        return problems, skipped

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        problems, skipped = self.chosen(engine)
        prompts = [
            Prompt(id=f"problem {number}, attempt {attempt}", flavour="math", prompt=self.prompt_of(problem))
            for attempt in range(1, self.attempts + 1)  # all problems once before any twice
            for number, problem in enumerate(problems, start=1)
        ]
        methods = {name: find_method(name) for name in dict.fromkeys((BASELINE, *self.methods))}
        configs = {name: method.config(self.base) for name, method in methods.items() if name != BASELINE}
        if not configs:
            raise ConfigError("Vanilla always runs.", field="methods", hint="Choose a method to compare with it.")
        runs = Runs(engine, self.base, configs, prompts, stop)
        attempts = {name: [list[Attempt]() for _ in problems] for name in methods}
        begun = any(self.prompt_of(one) != one.prompt for one in problems)

        def answer() -> Answer:
            tried = {name: own for name, own in attempts.items() if name not in runs.failed}
            rows, singles = curves(tried, [problem.answer for problem in problems])
            for row in rows:
                name = row["method"]
                row |= {"race": name if name in runs.traces else None, "waiting": runs.total(name).waiting}
            facts = {
                "threads": runs.threads,
                "skipped": skipped + runs.left_out(),
                "problems": [{"prompt": problem.prompt, "answer": problem.answer} for problem in problems],
                "given": self.given if begun else "none",
                "single": singles,
                "attempts": {
                    name: {
                        "seconds": [[text.seconds for text in group] for group in by_problem],
                        "answers": [[text.answer for text in group] for group in by_problem],
                    }
                    for name, by_problem in tried.items()
                },
            }
            return Answer(rows=rows, facts=facts, races=runs.traces)

        for done, total, number in runs.race():
            for name, events in runs.events.items():
                attempts[name][number % len(problems)].append(read_attempt(events))
            yield Step(done, total, prompts[number].id, answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        single = facts.get("single", {})
        others = {name: row for name, row in single.items() if name != BASELINE}
        if not others:
            return Report()
        label = {name: look.label for name, look in draw.styles(single).items()}
        quickest = max(others, key=lambda name: others[name]["speedup"])
        vanilla, best = single[BASELINE], others[quickest]
        answer = (
            f"All methods are equally accurate; an attempt takes {_duration(vanilla['seconds'])} with vanilla "
            f"and {_duration(best['seconds'])} with {label[quickest]}, {speedup(best['speedup'])} "
            f"({_between(best['low'], best['high'])})."
        )
        apart = [row for row in rows if row["method"] == quickest and row["gain"] is not None]
        if apart:
            last = apart[-1]
            answer += (
                f" In {_duration(last['seconds'])} per problem, {percent(last['accuracy'], 1)} instead of "
                f"{percent(last['accuracy'] - last['gain'], 1)} are right: {_points(last['gain'])} "
                f"({_between(last['gain_low'], last['gain_high'], 100, 1)})."
            )
            if last["gain_low"] <= 0 <= last["gain_high"]:
                answer += " That difference may be chance."
        count = sum(row["attempts"] for row in single.values())
        speeds = [
            f"{label[name]} {speedup(row['speedup'])} ({_between(row['low'], row['high'])})"
            for name, row in others.items()
        ]
        alone = [f"{label[name]} {percent(row['accuracy'])}" for name, row in single.items()]
        small = self.pair == "embedded"
        given = {
            "all": "The whole solution was given, and the target only had to finish the text"
            + (": a model this small cannot calculate." if small else "."),
            "most": "All lines of the solution but the last were given.",
            "none": "The target had to solve each problem by itself"
            + (": a model this small is hardly ever right." if small else "."),
            "examples": "The target had to solve each problem by itself, after two solved ones.",
        }
        return Report(
            answer=answer,
            notes=[
                "Every method here is lossless: its attempts have the target’s distribution (proofs: docs/theory.md, "
                f"Exactness). So all {count:,} attempts of all methods make one accuracy curve, and only the time per "
                "attempt differs.",
                f"An attempt’s speed-up, measured side by side and paired by problem, with its 95 % interval: "
                f"{'; '.join(speeds)}.",
                f"Each method’s attempts by themselves, which differ by chance only: {'; '.join(alone)}. Attempts "
                "without an answer don’t vote.",
                given[facts.get("given", self.given)],
                f"Published: on MATH-500 with a 72B target, {PUBLISHED_SECONDS} seconds give "
                f"{listed([f'{name} {percent(share)}' for name, share in PUBLISHED.items()])} "
                "(SpecDiff-2, arXiv 2511.00606, read off its figure). Their target thinks longer in that time; ours "
                "votes more often.",
            ],
            figures=_figures(rows),
            titles={name: find_method(name).label for name in others},
        )


RIGHT = "problems whose most frequent answer is right"
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
LOG = {"type": "log", "tickvals": SECONDS, "ticktext": [f"{seconds:g}" for seconds in SECONDS]}


def _figures(rows: Sequence[Row]) -> list[Figure]:
    """Accuracy by seconds, the gain over vanilla in as many seconds, and accuracy by number of attempts."""

    def words(row: Row) -> str:
        fits = f"{plural(row['attempts'], 'attempt')} in {_duration(row['seconds'])}"
        return (
            f"{fits}<br>{percent(row['accuracy'])} right, 95 % interval {percent(row['low'])} to {percent(row['high'])}"
        )

    def gain(row: Row) -> str:
        bounds = _between(row["gain_low"], row["gain_high"], 100, 1)
        return f"in {_duration(row['seconds'])}: {_points(row['gain'])} ({bounds}, paired)"

    share = FROM_ZERO | {"tickformat": ".0%"}
    there = draw.trace(
        f"published: SpecDiff-2, 72B, MATH-500, {PUBLISHED_SECONDS} s",
        [PUBLISHED_SECONDS] * len(PUBLISHED),
        PUBLISHED.values(),
        "@muted",
        dash="dot",
        mark=["line-ew-open", "circle-open", "star-open"],
        words=[[None, f"published: {name}, {percent(accuracy)}"] for name, accuracy in PUBLISHED.items()],
        size=11,
        visible="legendonly",  # far to the right of ours
    )
    pooled = [row for row in rows if row["method"] == BASELINE]
    ends = [row["high"] for row in pooled] + [row["low"] for row in reversed(pooled)]
    around = [row["attempts"] for row in [*pooled, *reversed(pooled)]]
    band = draw.trace("", around, ends, "@target", dash="solid", width=0, fill="toself", fillcolor="@target-tint")
    curve = [[None, words(row)] for row in pooled]
    numbers = [row["attempts"] for row in pooled]
    gains = [
        {name: row[name] for name in ("method", "race", "seconds")}
        | {"gain": row["gain"], "low": row["gain_low"], "high": row["gain_high"], "words": gain(row)}
        for row in rows
        if row["gain"] is not None
    ]
    return [
        Figure(
            key="seconds",
            title="Right answers by time per problem",
            hint="one accuracy for each number of attempts, pooled over all methods; only the time differs; click the "
            "published figure to lay it over",
            opens="a point opens a race",
            data=[*draw.lines(rows, "method", "seconds", "accuracy", words), there],
            layout=axes("seconds per problem", RIGHT, xaxis=LOG, yaxis=share, showlegend=True),
        ),
        Figure(
            key="gain",
            title="More right answers than vanilla in the same time",
            hint="95 % intervals, paired by problem",
            opens="a point opens a race",
            data=draw.lines(gains, "method", "seconds", "gain", lambda row: row["words"], whiskers=True),
            layout=axes("seconds per problem", "share of problems", xaxis=LOG, yaxis=share, showlegend=True),
            empty="Shown once vanilla has finished an attempt in the time of several others.",
        ),
        Figure(
            key="votes",
            title="Right answers by number of attempts",
            hint="all methods pooled; band: 95 % interval over problems",
            data=[
                band,
                draw.trace(
                    "all methods",
                    numbers,
                    [row["accuracy"] for row in pooled],
                    "@target",
                    dash="solid",
                    mark="circle",
                    words=curve,
                ),
            ],
            layout=axes("attempts", RIGHT, yaxis=share),
        ),
    ]


def _duration(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{ratio(seconds)} s"


def _between(low: float, high: float, scale: float = 1, digits: int = 2) -> str:
    return f"{ratio(scale * low, digits)} to {ratio(scale * high, digits)}"


def _points(share: float) -> str:
    return f"{100 * share:+.1f} points"
