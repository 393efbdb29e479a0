"""Is it lossless? The joint distribution of the first tokens under each rule against the exact one (``joint.py``).
The game :mod:`~specdiff_core.explorations.engines` is a setting of this question: ``models`` is ``engines``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from specdiff_core.explorations import engines
from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Exploration, Report, Step
from specdiff_core.explorations.fields import EMBEDDED
from specdiff_core.explorations.figures import Figure, axes
from specdiff_core.explorations.joint import PVALUE, Case, Joint, distances
from specdiff_core.explorations.wording import listed, ratio
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Order, RevealOrder, Rule

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.explorations.study.tables import CachedTarget, TokenIds

SELECTIONS = {"self": "delta", "trie": "delta", "multi_round": "ratio"}
"""Use of K drafts -> the rule that applies: the best is tested as a point mass, the target's own
draws walk all of them, or p/q tests one after the other."""
NAMES = (*(rule.value for rule in Rule), *SELECTIONS)


class Losslessness(Exploration, frozen=True, kw_only=True):
    """The distance between the distribution of each rule's text and the target's own."""

    name: ClassVar = "losslessness"
    rank: ClassVar = 3
    title: ClassVar = "Losslessness"
    question: ClassVar = "Does the text have the target's distribution, and would you notice if it did not?"
    takes: ClassVar = 40
    scales: ClassVar = ("rules", "runs")
    pairless: ClassVar = {"models": ("coins", "tables", "engines")}
    columns: ClassVar = {
        "rule": "verification rule",
        "runs": "runs so far",
        "distance": "total variation between the sampled and the exact joint distribution",
        "floor": "mean distance of as many exact samples",
        "floor_high": "99 % of such samples stay below",
        "bias_low": "the true distance is at least this (99 %)",
        "bias_high": "the true distance is at most this (99 %)",
        "p_value": "of Pearson’s χ² test",
        "lossless": "whether the rule is lossless",
    }

    pair: EMBEDDED = "embedded"  # the outcomes of other models are too many to count
    models: Annotated[
        Literal["coins", "tables", "masked", "masked_streak", "engines"],
        ask(
            "Models",
            "Coins: the smallest case in which p/q in any order fails. Tables: three symbols, random distributions. "
            "Or the embedded target with one of its drafters. Engines: which of seven engines are broken, and how? "
            "They ignore the rules, T and the order.",
        ),
    ] = "coins"
    rules: Annotated[
        tuple[str, ...],
        ask(
            "Rules",
            "Interleaved run by run. The last three use K drafts, the others one.",
            least=1,
            most=len(NAMES),
            enum=NAMES,
        ),
    ] = ("ratio", "delta", "naive")
    num_drafts: Annotated[
        int, ask("Drafts K", "Only for self, trie and multi_round, which need K ≥ 2 and T = 1.", 1, 8)
    ] = 1
    order: Order = RevealOrder.MAX_PROB
    gamma: Annotated[int, ask("Window γ", "Tokens drafted per round.", 1, 6)] = 2
    steps: Annotated[int, ask("Steps T", "Drafter passes per window, at most γ.", 1, 6)] = 2
    temperature: Annotated[float, ask("Temperature", "The target’s. At 0 every rule is exact.", 0, 2, more=True)] = 1.0
    draft_temperature: Annotated[
        float, ask("Drafter temperature", "It changes the text only under biased rules.", 0, 2)
    ] = 1.0
    top_k: Annotated[
        int, ask("Top-k", "For the embedded models: limits how many outcomes there are to count.", 2, 8, more=True)
    ] = 4
    length: Annotated[int, ask("Tokens", "Their joint distribution is compared.", 1, 3, more=True)] = 2
    runs: Annotated[int, ask("Runs of each rule", "More runs lower the noise floor.", 200, 100_000)] = 10_000
    prompt: Annotated[str, ask("Prompt", "For the embedded models.", most=400, more=True)] = "Once upon a time, a small"
    seed: Annotated[int, ask("Seed", "Seeds the tables and every draw.", 0, 2**30, more=True)] = 0

    def config(self, rule: str, seed: int) -> DecodeConfig:
        """The settings of one run.

        Raises:
            ConfigError: T is larger than γ.
        """
        base = {name: getattr(self, name) for name in ("gamma", "steps", "order", "temperature", "draft_temperature")}
        base |= {"selection": rule, "num_drafts": self.num_drafts} if rule in SELECTIONS else {}
        base |= {"top_k": self.top_k} if self.embedded else {}
        length = self.length + self.gamma + 1  # no window is cut short
        shared = {"drafter": "masked", "rule": SELECTIONS.get(rule, rule), "seed": seed, "ignore_eos": True}
        return DecodeConfig.parse({**base, **shared, "max_new_tokens": length})

    def check(self) -> None:
        """Reject inconsistent settings.

        Raises:
            ConfigError: no such rule, T larger than γ, or K, T and the rules do not fit together.
        """
        for rule in self.rules:
            self.config(rule, 0)
        chosen = [rule for rule in self.rules if rule in SELECTIONS]
        if chosen and self.num_drafts < 2:
            words, hint = f"{chosen[0]} needs several drafts, but K is 1.", "Set K to 2 or more."
        elif chosen and self.steps > 1:
            words, hint = f"K drafts come from one denoising step, but T is {self.steps}.", "Set T to 1."
        elif self.num_drafts > 1 and not chosen:
            words = f"K = {self.num_drafts} drafts, but {', '.join(self.rules)} test one."
            hint = f"Choose one of {', '.join(SELECTIONS)}, or set K to 1."
        else:
            return
        raise ConfigError(words, field="num_drafts", hint=hint)

    @property
    def embedded(self) -> bool:
        """Whether the models are the pair's."""
        return self.models not in self.pairless["models"]

    @property
    def drafters(self) -> tuple[str, ...]:
        return (self.models,) if self.embedded else ()

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        from specdiff_core.decoding.clock import DeviceClock

        clock = DeviceClock(engine.pair.placement.device, "total")
        if self.models == "engines":
            game = engines.Game(self.gamma, self.temperature, self.draft_temperature, self.seed)
            yield from game.play(self.runs, clock, stop)
            return
        self.check()
        target, drafter, prompt = _models(self, engine)
        rules = {rule: Case(functools.partial(self.config, rule), drafter) for rule in self.rules}
        joint = Joint(target, prompt, self.length, rules, self.seed)
        lossless = {rule: self.config(rule, 0).rule.lossless for rule in rules}

        def answer() -> Answer:
            rows = [row | {"lossless": lossless[row["rule"]]} for row in joint.curve()]
            return Answer(rows=rows, facts=joint.facts())

        for done in joint.sample(self.runs, clock, stop):
            yield Step(done, self.runs, f"{done:,} runs of each rule", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        if self.models == "engines":
            return engines.report(rows, facts)
        last = [row for row in rows if row["runs"] == facts["runs"]]
        within = [row["rule"] for row in last if row["distance"] <= row["floor_high"]]
        words = [f"{listed(within)} {'stays' if len(within) == 1 else 'stay'} within the noise of exact samples"]
        words = words if within else []
        words += [self._outside(row) for row in last if row["rule"] not in within]
        unseen = (
            f"The rule {row['rule']} is not exact, but you would not notice it here: its distance in total "
            f"variation is at most {ratio(row['bias_high'], 3)} (99 %); 100 times as many runs would narrow that to a "
            "tenth."
            for row in last
            if not row["lossless"] and row["rule"] in within and self.temperature
        )
        cold = "At temperature 0 every rule writes the most probable token, even one that is not exact."
        counted = f"{facts['outcomes']} outcomes are possible."
        return Report(
            answer=f"After {facts['runs']:,} runs of each rule, {'; '.join(words)}." if last else "",
            notes=[counted, *unseen, *([] if self.temperature else [cold])] if last else [],
            figures=[distances(rows), _joint(facts.get("joint", []))],
        )

    def _outside(self, row: dict[str, Any]) -> str:
        """How far a rule's text is from the noise, and whether that shows a bias."""
        if row["p_value"] >= PVALUE:
            return f"{row['rule']} is outside the noise of exact samples, perhaps by chance (p = {row['p_value']:.1g})"
        bounds = f"{ratio(row['bias_low'], 3)} to {ratio(row['bias_high'], 3)}"
        return (
            f"{row['rule']} is {bounds} away from the target’s distribution, in total variation (99 % interval, "
            "p < 10⁻⁶)"
        )


def _joint(outcomes: list[dict[str, Any]]) -> Figure:
    """The most probable outcomes: exact, and sampled with each rule."""
    rules = [name for name in (outcomes[0] if outcomes else ()) if name not in ("text", "exact")]
    x = [" ".join(map(str, row["text"])) for row in outcomes]
    data = [draw.bars(x, [row["exact"] for row in outcomes], "exact", "@target")] if outcomes else []
    for i, rule in enumerate(rules):
        exact = SETTINGS["rule"].read(SELECTIONS.get(rule, rule)).lossless
        colour = f"@lane-{i % draw.LANES + 1}" if exact else "@alarm"
        data.append(draw.bars(x, [row[rule] for row in outcomes], rule, colour, draw.HATCHES[i % len(draw.HATCHES)]))
    bars: dict[str, Any] = {"barmode": "group", "bargap": 0.25, "showlegend": True}
    layout = axes("first tokens (ids)", "share of runs", xaxis=draw.CATEGORY, yaxis=draw.FROM_ZERO, **bars)
    hint = "the most probable outcomes"
    return Figure(key="joint", title="The joint distribution", hint=hint, data=data, layout=layout)


def _models(settings: Losslessness, engine: Engine) -> tuple[CachedTarget, Any, TokenIds]:
    """The target, the drafter and the prompt of these settings."""
    from specdiff_core.explorations.study.tables import constructed, of_pair

    if not settings.embedded:
        return constructed(settings.seed, coins=settings.models == "coins")
    prompt = engine.encode(settings.prompt)
    if len(prompt) > 64:
        raise ConfigError("The prompt is too long for this test.", field="prompt", hint="A few words are enough.")
    return *of_pair(engine, settings.models), prompt
