"""Temperature and calibration (the first open question of SpecDiff, arXiv 2408.05636): how much slower sampling is,
which drafter temperature fits, and whether the drafter's confidence is calibrated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, OnPrompts, Report, Step
from specdiff_core.explorations.fields import DEGREE, WINDOW_DRAFTERS, labels
from specdiff_core.explorations.figures import FROM_ZERO, Figure, Slider, axes
from specdiff_core.explorations.measured import RUN_COLUMNS, Runs, fastest
from specdiff_core.explorations.papers import BY_TEMPERATURE, beside
from specdiff_core.explorations.wording import interval_words, percent, plural, ratio, speedup, with_interval
from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.events import Test, Verified
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method
from specdiff_core.schema.settings import DecodeConfig, Rule, Sampling
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from torch import Tensor

    from specdiff_core.engine import Engine

BINS = 10
EVERY = 12
"""Tokens of vanilla's text between two places whose probabilities are recorded."""
SINGLE = 24
"""Tokens whose probabilities are recorded one by one."""


class Temperature(OnPrompts, frozen=True, kw_only=True):
    """α, τ and speed-up for every pair of temperatures, and the drafter's confidence against the target's."""

    name: ClassVar = "temperature"
    rank: ClassVar = 4
    title: ClassVar = "Temperature and calibration"
    question: ClassVar = "How much speed does temperature cost, and is the drafter's confidence calibrated?"
    takes: ClassVar = 45
    windows: ClassVar = True
    scales: ClassVar = ("temperatures", "draft_temperatures", "flavours", "per_flavour", "tokens")
    columns: ClassVar = RUN_COLUMNS | {"temperature": "of the target", "draft_temperature": "of the drafter"}

    drafter: Annotated[str, ask("Drafter", "It drafts one window per round.", enum=WINDOW_DRAFTERS, of="drafters")] = (
        "block"
    )
    gamma: Annotated[int, ask("Window γ", "Tokens drafted per round.", 1, 16)] = 5
    temperatures: Annotated[
        tuple[DEGREE, ...],
        ask("Temperatures", "The target’s.", least=1, most=6),
    ] = (0.0, 0.4, 0.7, 1.0)
    draft_temperatures: Annotated[
        tuple[DEGREE, ...],
        ask("Drafter temperatures", "Each is combined with every target temperature.", least=1, most=8),
    ] = (0.0, 0.4, 0.7, 1.0, 1.3)

    @property
    def base(self) -> DecodeConfig:
        """Settings that all runs share. Only ``ratio`` tests each token by its own p/q, which the calibration needs."""
        return dataclasses.replace(super().base, rule=Rule.RATIO)

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        prompts, skipped = self.prompts(engine)
        degrees = sorted(set(self.temperatures))
        drafts = sorted(set(self.draft_temperatures))
        groups: dict[float, Runs] = {}
        tests: dict[tuple[float, float], list[Test]] = {}
        places: list[dict[str, list[float]]] = []

        def answer() -> Answer:
            rows = []
            for degree, runs in groups.items():
                own = [
                    {"temperature": degree, "draft_temperature": draft, **runs.row(_key(degree, draft))}
                    for draft in drafts
                ]
                rows += runs.compared(own)
            reliable = [
                {"temperature": degree, "draft_temperature": draft, **reliability(tested)}
                for (degree, draft), tested in tests.items()
                if draft and tested
            ]
            facts = {"reliability": reliable, "places": places}
            races = {key: race for runs in groups.values() for key, race in runs.traces.items()}
            each = [row for degree, runs in groups.items() for row in runs.prompt_rows({"temperature": degree})]
            return Answer(rows=rows, facts={"threads": threads, "skipped": skipped, **facts}, runs=each, races=races)

        threads = engine.threads
        total = (len(degrees) * len(drafts) + 1) * len(prompts)
        for number, prompt in enumerate(prompts, start=1):
            places += self._places(engine, prompt, stop)
            if stop.is_set():
                return
            yield Step(number, total, f"probabilities: {prompt.id}", answer)
        for number, degree in enumerate(degrees):
            base = dataclasses.replace(self.base, temperature=degree)
            drafting = dataclasses.replace(base, drafter=self.drafter, gamma=self.gamma)
            configs = {_key(degree, draft): dataclasses.replace(drafting, draft_temperature=draft) for draft in drafts}
            runs = groups[degree] = Runs(engine, base, configs, prompts, stop, threads=threads)
            for done, per_degree, run in runs.fill():
                draft = run.config.draft_temperature or 0.0
                rounds = (event.tests for event in runs.events.get(run.lane, ()) if isinstance(event, Verified))
                tests.setdefault((degree, draft), []).extend(
                    test for tested in rounds for test in tested if test.kind == "ratio"
                )
                before = len(prompts) + number * per_degree
                yield Step(before + done, total, f"temperature {degree:g}, drafter {draft:g}", answer)
            if stop.is_set():
                return

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        best = {one: fastest(row for row in rows if row["temperature"] == one) for one in self.temperatures}
        measured = [(degree, row) for degree, row in sorted(best.items()) if row]
        answer, notes = "", list[str]()
        _, label = labels(self.pair, self.drafter)
        if len(measured) > 1:
            (cold, first), (warm, last) = measured[0], measured[-1]
            answer = (
                f"From temperature {cold:g} to {warm:g} the best speed-up of {label} at γ {self.gamma} goes "
                f"from {speedup(first['speedup'])} ({interval_words(first)}) to {speedup(last['speedup'])} "
                f"({interval_words(last)}), and τ from {ratio(first['tau'])} to {ratio(last['tau'])}."
            )
        if reliable := facts.get("reliability"):
            sure = [row for row in rows if not row["draft_temperature"] and row.get("alpha") is not None]
            reliable = [*reliable, *(row | {"ece": 1 - row["alpha"]} for row in sure)]
            low, high = (end(reliable, key=lambda row: row["ece"]) for end in (min, max))
            notes.append(
                f"On average the drafter's confidence q differs from the target's p by {ratio(low['ece'])} at best "
                f"(target {low['temperature']:g}, drafter {low['draft_temperature']:g}) and by "
                f"{ratio(high['ece'])} at worst (target {high['temperature']:g}, drafter "
                f"{high['draft_temperature']:g}): the expected calibration error."
                + (" At drafter temperature 0, q is 1, and the error is 1 − α." if sure else "")
            )
        sides = ("draft_temperature", "temperature of the drafter"), ("temperature", "temperature of the target")

        def heat(field: str, words: Any, **fields: Any) -> Figure:
            hover = lambda row: f"target {row['temperature']:g}, drafter {row['draft_temperature']:g}<br>{words(row)}"
            fields |= {"opens": "a cell lists its races", "empty": "No cell has been measured yet."}
            return draw.heat(rows, *sides, field, hover, **fields)

        return Report(
            answer=answer,
            notes=notes,
            figures=[
                heat("speedup", with_interval, key="speed", title="Speed-up over vanilla at the same temperature"),
                heat(
                    "tau",
                    lambda row: f"τ = {ratio(row['tau'])}, α = {ratio(row['alpha'])}",
                    around_one=False,
                    key="tau",
                    title="τ, tokens per round",
                    hint="with an exact rule, the drafter’s temperature changes this, never the text’s distribution",
                ),
                *_fall([row for _, row in measured]),
                *_matched(facts),
                _calibration(facts.get("reliability", [])),
            ],
            titles={
                row["race"]: f"{label} γ {self.gamma}, temperature {row['temperature']:g}, drafter "
                f"{row['draft_temperature']:g}"
                for row in rows
            },
        )

    def _places(self, engine: Engine, prompt: Prompt, stop: Stop) -> list[dict[str, list[float]]]:
        """The probabilities (:func:`shortened`) of the first drafted token and the target's at some places of vanilla's
        text, both at temperature 1; fewer if stopped."""
        from specdiff_core.drafters.base import Context, run_to_end
        from specdiff_core.maths.distributions import to_probs
        from specdiff_core.maths.randomness import Streams

        begun = engine.encode(prompt.prompt, self.base)
        vanilla = find_method(BASELINE).config(self.base)
        last = final(engine.decode(prompt.prompt, vanilla, detail=False, stop=stop))
        ids, places = [*begun, *(last.ids if last else ())], []
        drafter, sampling = engine.drafter(self.drafter), Sampling(temperature=1.0)
        sampler = Streams(self.seed, shared=False).draft(0)
        shared: dict[str, Any] = {"order": self.base.order, "sampling": sampling, "sampler": sampler}
        for length in range(len(begun), len(ids), EVERY):
            if stop.is_set():
                break
            target, session = engine.target.start(drafter.layers), drafter.start()
            session.observe(ids[: length - 1], target.read(ids[: length - 1]))
            context = Context.within(session.room, ids=ids[:length], gamma=self.gamma, **shared)
            q, scores = run_to_end(session.draft(context)).probs, target.score([ids[length - 1]])
            if q is not None and len(q):
                places.append(shortened(to_probs(scores.logits[-1], sampling, engine.target.suppress), q[0]))
        return places


def _calibration(reliable: list[dict[str, Any]]) -> Figure:
    """The target's probability by the drafter's confidence: a line for each temperature of the
    target, at the nearest drafter temperature."""
    nearest: dict[float, dict[str, Any]] = {}
    for row in sorted(reliable, key=lambda row: -abs(row["draft_temperature"] - row["temperature"])):
        nearest[row["temperature"]] = row
    points = [
        {"line": f"{degree:g}/{row['draft_temperature']:g}", **point}
        for degree, row in sorted(nearest.items())
        for point in row["bins"]
    ]
    ideal = draw.trace("calibrated", [0, 1], [0, 1], "@faint", dash="dash", width=1.2)

    def words(row: dict[str, Any]) -> str:
        where = f"{row['line']}: p is {ratio(row['p'])} where q is {ratio(row['q'])}"
        return f"{where}<br>{percent(row['accepted'])} of {row['tests']} tests accepted"

    return Figure(
        key="calibration",
        title="Is the drafter's confidence calibrated?",
        wide=True,
        hint="the target’s p by the drafter’s q; labels: target/drafter temperature",
        data=[ideal, *draw.lines(points, "line", "q", "p", words)] if points else [],
        layout=axes(
            "q(x), the drafter’s confidence in its token",
            "p(x), the target’s probability",
            xaxis={"range": [-0.02, 1.02]},
            yaxis={"range": [-0.02, 1.04]},
            showlegend=True,
        ),
        empty="Points appear once the drafter has sampled at a temperature above 0.",
    )


def _fall(best: Sequence[Mapping[str, Any]]) -> Iterator[Figure]:
    """Speed-up by the target's temperature, at the fastest drafter temperature of each."""
    if len(best) < 2:
        return

    def words(row: Mapping[str, Any]) -> str:
        return f"target {row['temperature']:g}, drafter {row['draft_temperature']:g}"

    yield Figure(
        key="fall",
        title="Speed-up by the target’s temperature",
        hint="at the fastest drafter temperature, which chance favours; click a published curve to lay it over",
        **beside(BY_TEMPERATURE, best, "temperature", words),
        layout=draw.speeds("temperature of the target", showlegend=True),
    )


def _matched(facts: Mapping[str, Any]) -> Iterator[Figure]:
    """α by the drafter's temperature, which the page computes from the recorded probabilities."""
    if facts.get("places"):
        yield Figure(
            key="matched",
            title="Which drafter temperature fits?",
            hint=f"computed from the probabilities of {plural(len(facts['places']), 'first drafted token')}; "
            "open marks: measured, all positions",
            formula="matched",
            sliders=[
                Slider("target", "target", "Temperature of the target", 0, 1.5, 0.05, 0.7),
                Slider("drafter", "drafter", "Temperature of the drafter", 0, 2, 0.05, 0.7),
            ],
            layout=axes("temperature of the drafter", "α, share accepted", yaxis=FROM_ZERO, showlegend=True),
        )


def shortened(p: Tensor, q: Tensor) -> dict[str, list[float]]:
    """Two distributions ``[V]`` as groups of tokens with similar probabilities: the likeliest 24 one by one, then 2, 4,
    8, …, split by whether p or q is larger, so that Σ min(p, q) stays exact. Of each group: ``counts``, its tokens;
    ``p`` and ``q``, ln of the mean probabilities."""
    import torch

    order = torch.maximum(p, q).argsort(descending=True)
    sizes, remaining = [1] * min(SINGLE, len(order)), len(order) - SINGLE
    while remaining > 0:
        sizes.append(min(2 * sizes[-1], remaining))
        remaining -= sizes[-1]
    above = (p > q)[order]
    groups = [
        group
        for tokens, side in zip(torch.split(order, sizes), torch.split(above, sizes), strict=True)
        for group in (tokens[side], tokens[~side])
    ]
    groups = [group for group in groups if len(group)]

    def logs(of: Tensor) -> list[float]:
        return [round(math.log(max(1e-12, float(of[group].mean()))), 2) for group in groups]

    return {"counts": [float(len(group)) for group in groups], "p": logs(p), "q": logs(q)}


def _key(degree: float, draft: float) -> str:
    return f"{degree:g}/{draft:g}"


def reliability(tests: Sequence[Test]) -> dict[str, Any]:
    """Drafted tokens in bins of the drafter's q(x): the target's mean p, and the share accepted.
    ``ece``: the expected calibration error Σ n_b/N · |mean q − mean p| (arXiv 1706.04599), with the
    target's p in place of hits."""
    bins: list[list[Test]] = [[] for _ in range(BINS)]
    for test in tests:
        bins[min(BINS - 1, int(test.q * BINS))].append(test)
    points = [
        {
            "tests": len(group),
            "q": sum(test.q for test in group) / len(group),
            "p": sum(test.p for test in group) / len(group),
            "accepted": sum(test.accepted for test in group) / len(group),
        }
        for group in bins
        if group
    ]
    ece = sum(point["tests"] * abs(point["q"] - point["p"]) for point in points) / len(tests)
    return {"bins": points, "tests": len(tests), "ece": ece}
