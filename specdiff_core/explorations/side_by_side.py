"""Two runs side by side: two methods after the same prompt, compared round by round. At a rejection, a run can be
decoded again with another token.
"""

from __future__ import annotations

import dataclasses
import gzip
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Exploration, Report, Step
from specdiff_core.explorations.fields import DRAFTING, TEMPERATURE
from specdiff_core.explorations.figures import FROM_ZERO, Figure, axes
from specdiff_core.explorations.wording import Row, escaped, plural, quoted, ratio
from specdiff_core.measure.prompts import OWN_TEXTS
from specdiff_core.measure.store import short_times
from specdiff_core.measure.ties import first_difference
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, DraftReady, Event, RoundStarted, Verified, pieces_of, spell
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig, Rule
from specdiff_core.schema.summary import final, header_of
from specdiff_core.schema.trace import dump_trace

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

REPRODUCIBLE = [BASELINE, *(name for name in DRAFTING if not find_method(name).settings.get("auto"))]
"""All methods but those that decide by measured times: a run must be reproducible."""
BRANCH = "what if"
TRACE = "runs"
"""The name of the one trace, which holds all runs."""


class SideBySide(Exploration, frozen=True, kw_only=True):
    """The rounds of two runs along the text, and of a third that branches off at a rejection."""

    name: ClassVar = "side-by-side"
    rank: ClassVar = 8
    title: ClassVar = "Two runs side by side"
    question: ClassVar = "Where does each run accept and reject, and what if a token had been different?"
    takes: ClassVar = 5
    scales: ClassVar = ("tokens",)
    columns: ClassVar = {
        "run": "a, b, or the branch",
        "round": "number of the round",
        "position": "of its first token, counting new tokens only",
        "drafted": "tokens drafted; of a tree, nodes",
        "accepted": "drafted tokens that were accepted",
        "rejected": "the drafted token that was rejected",
        "added": "the token that the target added",
        "added_as": "residual and target: after a rejection; bonus: after a fully accepted draft",
        "p": "the target’s probability of the rejected token; in a tree, of all tokens drafted there",
        "q": "the drafter’s probability of the rejected token",
        "threshold": "acceptance probability of that test",
        "u": "the draw: accepted if below the threshold; empty where shared noise or a tree decides",
        "milliseconds": "from the round before to this commit, on the decode clock; the first includes the prompt",
        "waiting": "threads that waited for a processor, on average",
        "text": "text of the round",
    }

    a: Annotated[str, ask("Run A", "Method of the first run.", enum=REPRODUCIBLE, of="methods")] = "specdiff"
    b: Annotated[str, ask("Run B", "Method of the second run.", enum=REPRODUCIBLE, of="methods")] = "dflash"
    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 128)] = 48
    temperature: TEMPERATURE = 0.0
    rule: Annotated[Rule, ask("Rule", "At temperature 0, and under match, both runs should write the same text.")] = (
        Rule.BLOCK
    )
    prompt: Annotated[str, ask("Prompt", "Both runs continue it.", least=1, most=2000)] = OWN_TEXTS["stories"][0]
    seed: Annotated[int, ask("Seed", "For both runs.", 0, 2**31 - 1, more=True)] = 0

    branch: Annotated[Literal["none", "a", "b"], ask("What if", "The run to branch from.", more=True)] = "none"
    round: Annotated[
        int, ask("In round", "Replace the token that the target added in this round.", 1, 128, more=True)
    ] = 1
    take: Annotated[int, ask("Token", "Id of the replacement; −1: draw it again.", -1, 2**31 - 1, more=True)] = -1
    branch_seed: Annotated[
        int, ask("Seed of the branch", "For the draws after the replacement.", 0, 2**31 - 1, more=True)
    ] = 1

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of both runs."""
        return self.a, self.b

    def config(self, run: str) -> DecodeConfig:
        """The settings of run ``a`` or ``b``.

        Raises:
            ConfigError: the method is unknown, or decides by measured times.
        """
        method = find_method(getattr(self, run))
        if method.name not in REPRODUCIBLE:
            hint = f"Choose from: {', '.join(REPRODUCIBLE)}."
            raise ConfigError(f"Runs of {method.label} are not reproducible.", field=run, hint=hint)
        shared = {"temperature": self.temperature, "seed": self.seed, "max_new_tokens": self.tokens}
        return method.config(DecodeConfig.parse({"pair": self.pair, "rule": self.rule, "ignore_eos": True, **shared}))

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        if self.take >= engine.target.vocab_size or self.take in engine.target.suppress:
            raise ConfigError(f"{self.take} isn’t a token of this target.", field="take", hint="Choose a candidate.")
        runs: dict[str, list[Event]] = {}
        facts: dict[str, Any] = {"threads": engine.threads}

        def decode(name: str, prompt: str, config: DecodeConfig, after: Sequence[int] = ()) -> bool:
            """Whether it was not stopped."""
            engine.warm_up(config, threads=facts["threads"])
            options = {"stop": stop, "threads": facts["threads"], "after": after}
            events = [short_times(event) for event in engine.decode(prompt, config, **options)]
            if stop.is_set():
                return False
            runs[name] = events
            return True

        answer = partial(_answer, self, runs, facts, engine)
        configs, total = {name: self.config(name) for name in ("a", "b")}, 2 + (self.branch != "none")
        facts["must_be_equal"] = self.temperature == 0 or configs["a"].rule.same_text
        for done, (name, config) in enumerate(configs.items(), start=1):
            if not decode(name, self.prompt, config):
                return
            yield Step(done, total, find_method(getattr(self, name)).label, answer)
        if self.branch == "none":
            return
        prompt, config, before = self.prompt, configs[self.branch], before_round(runs[self.branch], self.round)
        after = [*before, *([self.take] if self.take >= 0 else [])]
        facts["branch"] = {"run": self.branch, "round": self.round, "position": len(before) + 1, "take": self.take}
        remaining = max(1, config.max_new_tokens - len(after))
        if decode(BRANCH, prompt, dataclasses.replace(config, max_new_tokens=remaining, seed=self.branch_seed), after):
            yield Step(total, total, "the branch", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        named = {name: f"{name.upper()}: {label}" for name, label in facts.get("labels", {}).items()}
        runs = {name: [row for row in rows if row["run"] == name] for name in dict.fromkeys(row["run"] for row in rows)}
        summary = " ".join(
            f"Run {named[name]}: {plural(len(rounds), 'round')}, τ = "
            f"{ratio(sum(row['accepted'] + 1 for row in rounds) / len(rounds))}, "
            f"{plural(sum(row['rejected'] is not None for row in rounds), 'rejection')}."
            for name, rounds in runs.items()
            if name in named
        )
        answer, branch = self._agreement(facts), facts.get("branch", {})
        return Report(
            answer=answer or summary,
            notes=[*([summary] if answer else []), *(self._branched(branch) if "tokens" in branch else ())],
            figures=[_by_time(runs, named)] if rows else [],
            titles={TRACE: self.title},
            lanes={name: named[name] for name in ("a", "b") if name in named},
        )

    def _agreement(self, facts: Mapping[str, Any]) -> str:
        """Whether both runs wrote the same text, and whether they had to."""
        if "first_difference" not in facts:
            return ""
        parted, why = facts["first_difference"], "at temperature 0" if self.temperature == 0 else "under match"
        if facts["must_be_equal"] and parted is None:
            return f"Both wrote the same {self.tokens} tokens, as expected {why}: rejections only cost time."
        if facts["must_be_equal"]:
            return (
                f"The texts differ from token {parted} on, but should match {why}: two tokens were probably so close "
                "that rounding decided, as can happen in a tree."
            )
        if parted is None:
            return "Both wrote the same text by chance: each run has its own draws."
        exact = ", from the same distribution" if facts.get("lossless", True) else ". The rule is not exact"
        return f"The texts differ from token {parted} on: each run has its own draws{exact}."

    def _branched(self, branch: Mapping[str, Any]) -> Iterator[str]:
        run, position = branch["run"].upper(), branch["position"]
        if branch["take"] < 0:
            yield f"What if: run {run} was resampled from token {position} on, with seed {self.branch_seed}."
        else:
            instead = f" in place of {quoted(branch['instead_of'])}" if "instead_of" in branch else ""
            yield (
                f"What if: at token {position} of run {run}, {quoted(branch['token'])} was forced{instead} and "
                "decoding continued. It was not drawn, so the branch is not a sample from the target’s distribution."
            )
        if "same" in branch:
            tokens = plural(branch["tokens"], "token")
            yield f"{branch['same']} of the branch’s {tokens} match the run’s. Its times are not comparable."


def _by_time(runs: Mapping[str, Sequence[Row]], named: Mapping[str, str]) -> Figure:
    """New tokens by decode time, without the branch."""
    points = []
    for name in named:
        at, tokens = 0.0, 0
        for row in runs.get(name, ()):
            at, tokens = at + row["milliseconds"], tokens + row["accepted"] + 1
            points.append({"run": named[name], "at": at, "tokens": tokens})

    def words(row: Row) -> str:
        return f"{escaped(row['run'])}: {row['tokens']} tokens after {row['at']:.1f} ms"

    return Figure(
        key="time",
        title="Tokens by time",
        hint="one run each, so no interval; prefill included",
        wide=True,
        data=draw.lines(points, "run", "at", "tokens", words),
        layout=axes("milliseconds of decode clock", "new tokens", yaxis=FROM_ZERO, showlegend=True),
    )


def _answer(settings: SideBySide, runs: Mapping[str, Sequence[Event]], facts: dict[str, Any], engine: Engine) -> Answer:
    """The answer from the completed runs; ``facts``: what is known without them."""
    facts, starts = dict(facts), dict.fromkeys(runs, 1)
    pieces = pieces_of(event for events in runs.values() for event in events)
    texts = {name: last.ids for name, events in runs.items() if (last := final(events))}
    facts["lossless"] = all(header.lossless for events in runs.values() if (header := header_of(events)))
    facts["labels"] = {name: find_method(getattr(settings, name)).label for name in ("a", "b")}
    if "b" in texts:
        facts["first_difference"] = first_difference(texts["a"], texts["b"])
    if BRANCH in texts:
        branch = facts["branch"]
        forced = [settings.take] if settings.take >= 0 else []
        starts[BRANCH] = branch["position"] + len(forced)
        token = pieces.get(settings.take) or str(engine.pair.tokenizer.decode(forced))
        facts["branch"] = branch | {"token": token, "tokens": len(texts[BRANCH])}
        if old := texts.get(branch["run"], ())[branch["position"] - 1 :]:
            same = sum(map(eq, old[len(forced) :], texts[BRANCH]))
            facts["branch"] |= {"instead_of": pieces.get(old[0], ""), "same": same}
    rows = [row for name, events in runs.items() for row in round_rows(name, events, starts[name], pieces)]
    trace = dump_trace(dict(runs), title=settings.title)
    return Answer(rows=rows, facts=facts, races={TRACE: gzip.compress(trace, 9, mtime=0)})


def before_round(events: Sequence[Event], round: int) -> list[int]:
    """The new tokens of a run before the token that the target added in a round (from 1).

    Raises:
        ConfigError: the run has no such round.
    """
    before, rounds = list[int](), [event for event in events if isinstance(event, Committed)]
    for event in rounds:
        if event.round + 1 == round:
            return [*before, *event.ids[:-1]]
        before += event.ids
    hint = f"Choose one from 1 to {len(rounds)}."
    raise ConfigError(f"That run has no round {round}.", field="round", hint=hint)


def round_rows(name: str, events: Sequence[Event], start: int, pieces: Mapping[int, str]) -> Iterator[dict[str, Any]]:
    """A row for each round: drafted, accepted and rejected tokens with their numbers; no times for a branch.

    Args:
        start: position of the run's first token among the new ones, from 1.
    """
    drafted, at, measured = 0, 0.0, name != BRANCH
    waiting = fold(events).waiting if measured else None
    verdict: Verified | None = None
    for event in events:
        if isinstance(event, RoundStarted):
            drafted, verdict = 0, None
        elif isinstance(event, DraftReady):
            drafted = len(event.ids)
        elif isinstance(event, Verified):
            verdict = event
        elif isinstance(event, Committed) and verdict is not None:
            rejected = next((test for test in verdict.tests[-1:] if not test.accepted), None)
            yield {
                "run": name,
                "round": event.round + 1,
                "position": start,
                "drafted": drafted,
                "accepted": verdict.accepted,
                "rejected": pieces.get(rejected.id, "") if rejected else None,
                "added": pieces.get(verdict.extra, ""),
                "added_as": verdict.source,
                "p": rejected.p if rejected else None,
                "q": rejected.q if rejected else None,
                "threshold": rejected.threshold if rejected else None,
                "u": rejected.draw if rejected else None,
                "milliseconds": round(1000 * (event.at - at), 4) if measured else None,
                "waiting": waiting,
                "text": "".join(spell([pieces.get(token, "") for token in event.ids])),
            }
            start, at = start + len(event.ids), event.at
