"""Is it lossless? The joint distribution of the first tokens, sampled many thousand times with the
real loop, against the exact one.

The logits of each prefix are computed once and kept, so a run takes a millisecond or two; drafting,
testing and committing are the loop's own. An exact rule's distance falls as 1/√N along with the
noise; a biased rule's doesn't.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Exploration, Report, Step
from specdiff_core.explorations.fields import EMBEDDED
from specdiff_core.explorations.figures import Figure, axes, ratio
from specdiff_core.explorations.study import engines
from specdiff_core.measure.statistics import chi_squared
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, Verified
from specdiff_core.schema.fields import ask
from specdiff_core.schema.settings import SETTINGS, DecodeConfig, Order, RevealOrder, Rule

if TYPE_CHECKING:
    from torch import Tensor

    from specdiff_core.engine import Engine
    from specdiff_core.explorations.study.tables import CachedTarget, TokenIds

BATCH = 50
"""Runs of each rule between two points at which other runs may decode."""
PVALUE = 1e-6
"""A rule with a smaller p-value is reported as biased."""
LEVEL = 0.99
"""Level of the noise band: of several exact rules, one would leave a 95 % band too often."""
FIRST, POINTS = 10, 16
"""The first point of a curve, in runs, and the number of points."""
DRAWS = 400
"""Samples of the exact distribution for the noise floor."""
NOISE = "noise: 99 % of exact samples stay below"

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
        if self.game:
            base |= {"steps": 1, "order": "left_to_right", "top_k": engines.KEPT}
            rule = "ratio"
        length = self.size + self.gamma + 1  # no window is cut short
        shared = {"drafter": "masked", "rule": SELECTIONS.get(rule, rule), "seed": seed, "ignore_eos": True}
        return DecodeConfig.parse({**base, **shared, "max_new_tokens": length})

    def check(self) -> None:
        """Reject inconsistent settings.

        Raises:
            ConfigError: no such rule, T larger than γ, or K, T and the rules do not fit together.
        """
        for rule in self.rules:
            self.config(rule, 0)
        if self.game:
            if self.gamma > 2:
                raise ConfigError(
                    f"With γ = {self.gamma}, there are too many outcomes to count.", field="gamma", hint="Set γ to 2."
                )
            return
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
    def game(self) -> bool:
        """Whether the engines to compare have bugs."""
        return self.models == "engines"

    @property
    def size(self) -> int:
        """Tokens to compare; of the game's engines, a whole round."""
        return self.gamma + 1 if self.game else self.length

    @property
    def embedded(self) -> bool:
        """Whether the models are the pair's."""
        return self.models not in self.pairless["models"]

    @property
    def drafters(self) -> tuple[str, ...]:
        return (self.models,) if self.embedded else ()

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        from specdiff_core.decoding.clock import DeviceClock
        from specdiff_core.decoding.loop import speculate
        from specdiff_core.explorations.study.broken import ENGINES, Misreporting
        from specdiff_core.models.device import cpu_threads

        self.check()
        target, drafter, prompt = _models(self, engine)
        hidden = engines.hidden(self.seed) if self.game else {}
        bugs = {letter: ENGINES[name] for letter, name in hidden.items()}
        rules = tuple(bugs or dict.fromkeys(self.rules))
        drafters = {rule: Misreporting(drafter, bugs[rule]) if bugs else drafter for rule in rules}
        exact = exact_distribution(self, target, prompt)
        counts: dict[str, Counter[TokenIds]] = {rule: Counter() for rule in rules}
        accepted = Counter[str]()  # runs that accepted the first drafted token
        rows, due = list[dict[str, Any]](), float(FIRST)
        clock = DeviceClock(engine.pair.placement.device, "total")

        def answer() -> Answer:
            """The curves so far with a point for now, and the exact and sampled joint distributions."""
            done = counts[rules[0]].total()
            points = [] if rows and rows[-1]["runs"] == done else _points(self, exact, counts)
            joint = [
                {"text": list(text), "exact": exact[text], **{rule: hits[text] / done for rule, hits in counts.items()}}
                for text in sorted(exact, key=lambda text: -exact[text])[:16]
            ]
            facts = {"joint": joint, "outcomes": len(exact), "runs": done, "threads": 1}
            rows_now = [*rows, *points]
            if bugs:
                facts |= engines.clues(self.config("ratio", 0), exact, counts, accepted, drafter, target, prompt)
                facts |= {"hidden": hidden, "mistakes": engines.MISTAKES, "found": found(rows_now)}
            return Answer(rows=rows_now, facts=facts)

        def play(rule: str, seed: int) -> TokenIds:
            written: list[int] = []
            config = self.config(rule, seed)
            change: dict[str, Any] = {}
            if bugs:
                change = {"streams": bugs[rule].streams(seed, shared=False), "verifier": bugs[rule].verify}
            # CachedTarget stands in for the target.
            for event in speculate(prompt, config, target, drafters[rule], clock, detail=False, **change):  # type: ignore[arg-type]
                if isinstance(event, Verified) and event.round == 0:
                    accepted[rule] += event.accepted > 0
                if isinstance(event, Committed):
                    written += event.ids
                    if len(written) >= self.size:
                        break
            return tuple(written[: self.size])

        after = 0
        while after < self.runs and not stop.is_set():
            until = min(math.ceil(due), after + BATCH, self.runs)
            with cpu_threads(1):  # more threads don't help; not across a yield: other runs decode then
                while after < until and not stop.is_set():
                    for number, rule in enumerate(rules):  # each with its own draws: one bad sample affects one rule
                        counts[rule][play(rule, self.seed + after * len(rules) + number)] += 1
                    after += 1
            if after >= min(due, self.runs):  # evenly spaced on a logarithmic axis
                due = after * (self.runs / FIRST) ** (1 / POINTS)
                rows += _points(self, exact, counts)
            yield Step(after, self.runs, f"{after:,} runs of each rule", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        if self.game:
            return engines.report(rows, facts, _distances(rows, hide=True))
        last = [row for row in rows if row["runs"] == facts["runs"]]
        within = [row["rule"] for row in last if row["distance"] <= row["floor_high"]]
        words = [f"{draw.listed(within)} {'stays' if len(within) == 1 else 'stay'} within the noise of exact samples"]
        words = words if within else []
        words += [self._outside(row) for row in last if row["rule"] not in within]
        unseen = (
            f"The rule {row['rule']} is not exact, but you would not notice it here: its bias is at most "
            f"{ratio(row['bias_high'], 3)} (99 %); 100 times as many runs would narrow that to a tenth."
            for row in last
            if not row["lossless"] and row["rule"] in within and self.temperature
        )
        cold = "At temperature 0 every rule writes the most probable token, even one that is not exact."
        counted = f"{facts['outcomes']} outcomes are possible."
        return Report(
            answer=f"After {facts['runs']:,} runs of each rule, {'; '.join(words)}." if last else "",
            notes=[counted, *unseen, *([] if self.temperature else [cold])] if last else [],
            figures=[_distances(rows), _joint(facts.get("joint", []))],
        )

    def _outside(self, row: dict[str, Any]) -> str:
        """How far a rule's text is from the noise, and whether that shows a bias."""
        if row["p_value"] >= PVALUE:
            return f"{row['rule']} is outside the noise of exact samples, perhaps by chance (p = {row['p_value']:.1g})"
        bounds = f"{ratio(row['bias_low'], 3)} to {ratio(row['bias_high'], 3)}"
        return f"{row['rule']} has a bias of {bounds} (99 %, p < 10⁻⁶)"


def found(rows: list[dict[str, Any]]) -> dict[str, int | None]:
    """Rule -> the fewest runs, of the points of its curve, from which on its p-value stays below :data:`PVALUE`; None
    if it does not."""
    after: dict[str, int | None] = {}
    for row in rows:
        if row["p_value"] >= PVALUE:
            after[row["rule"]] = None
        elif after.get(row["rule"]) is None:
            after[row["rule"]] = row["runs"]
    return after


def exact_distribution(settings: Losslessness, target: CachedTarget, prompt: TokenIds) -> dict[TokenIds, float]:
    """The joint distribution of the first tokens, multiplied out from the target's distributions."""
    from specdiff_core.maths.distributions import to_probs

    exact: dict[TokenIds, float] = {(): 1.0}
    sampling = settings.config("ratio", 0).sampling
    for _ in range(settings.size):
        longer: dict[TokenIds, float] = {}
        for text, weight in exact.items():
            probs = to_probs(target.logits((*prompt, *text))[None], sampling, target.suppress)[0]
            for token in probs.nonzero()[:, 0].tolist():
                longer[text + (token,)] = weight * float(probs[token])
        exact = longer
    return exact


def _points(
    settings: Losslessness, exact: Mapping[TokenIds, float], counts: Mapping[str, Counter[TokenIds]]
) -> Iterator[dict[str, Any]]:
    """A row for each rule: the total variation between its texts and the exact distribution; the
    mean and 99 % quantile for as many exact samples; and bounds of the true distance, which differs
    by less than that quantile (triangle inequality)."""
    import numpy as np

    p, runs = np.array(list(exact.values())), next(iter(counts.values())).total()
    drawn = np.random.default_rng([settings.seed, runs]).multinomial(runs, p / p.sum(), size=DRAWS) / runs
    noise = np.abs(drawn - p).sum(-1) / 2
    high = float(np.quantile(noise, LEVEL))
    for rule, sampled in counts.items():
        observed, size = np.array([sampled[text] for text in exact]), sampled.total()
        stray = size - int(observed.sum())  # texts that the target cannot write
        distance = float(np.abs(observed / size - p).sum() + stray / size) / 2
        yield {
            "rule": rule,
            "runs": runs,
            "distance": distance,
            "floor": float(noise.mean()),
            "floor_high": high,
            "bias_low": max(0.0, distance - high),
            "bias_high": distance + high,
            "p_value": 0.0 if stray else chi_squared(observed, p * size),
        } | ({} if settings.game else {"lossless": settings.config(rule, 0).rule.lossless})


def _distances(rows: list[dict[str, Any]], *, hide: bool = False) -> Figure:
    """Distance by number of runs, with the noise of exact samples."""
    rules = list(dict.fromkeys(row["rule"] for row in rows))
    first = [row for row in rows if row["rule"] == rules[0]] if rules else []
    exact = {row["rule"]: hide or row["lossless"] for row in rows}
    style = {
        rule: look if exact[rule] else draw.Style("@alarm", "x", "solid", f"{rule} (not exact)")
        for rule, look in draw.styles(rules).items()
    }
    noise = draw.trace(
        NOISE,
        [row["runs"] for row in first],
        [row["floor_high"] for row in first],
        "@target",
        dash="dot",
        width=1.4,
        hover=f"{NOISE}: %{{y:.4f}}",
        fill="tozeroy",
        fillcolor="@target-tint",
    )

    def words(row: draw.Row) -> str:
        return f"{row['rule']}, {row['runs']:,} runs: distance {row['distance']:.4f}<br>p = {row['p_value']:.1g}"

    ticks = [digit * 10.0**power for power in range(-5, 6) for digit in (1, 2, 5)]
    log = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    return Figure(
        key="distances",
        title="Distance to the exact distribution",
        wide=True,
        data=[noise, *draw.lines(rows, "rule", "runs", "distance", words, style=style)] if rows else [],
        hint="total variation of the first tokens' joint distribution; for an exact rule it falls as 1/√N",
        layout=axes("runs of each rule", "total variation", xaxis=log, yaxis=log, showlegend=True),
        empty="A line for each rule appears after its first runs.",
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
    return Figure(
        key="joint",
        title="The joint distribution",
        hint="the most probable outcomes",
        data=data,
        layout=axes(
            "first tokens (ids)",
            "share of runs",
            xaxis=draw.CATEGORY,
            yaxis=draw.FROM_ZERO,
            barmode="group",
            bargap=0.25,
            showlegend=True,
        ),
    )


def _models(settings: Losslessness, engine: Engine) -> tuple[CachedTarget, Any, TokenIds]:
    """The target, the drafter and the prompt of these settings."""
    from specdiff_core.explorations.study.tables import CachedTarget, constructed

    if settings.game:
        return engines.models(settings.seed)
    if not settings.embedded:
        return constructed(settings.seed, coins=settings.models == "coins")
    from specdiff_core.models.device import on_device

    prompt = engine.encode(settings.prompt)
    if len(prompt) > 64:
        raise ConfigError("The prompt is too long for this test.", field="prompt", hint="A few words are enough.")
    real = engine.target

    def ask(text: TokenIds) -> Tensor:
        run = real.start()
        run.read(text[:-1])
        return run.score(text[-1:]).logits[0]

    drafter: Any = engine.drafter(settings.models)
    logits = functools.cache(lambda ids, gamma: drafter.logits(on_device(ids, drafter.device), gamma))
    cached: Any = dataclasses.replace(drafter)
    cached.logits = lambda ids, gamma: logits(tuple(ids.tolist()), gamma)
    return CachedTarget(ask, real.vocab_size, real.suppress), cached, prompt
