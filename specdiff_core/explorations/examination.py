"""The examination of a drafter: it drafts along greedy texts of the target as declared, with one declaration changed at
a time (``study/variants.py``), and on the target that it was trained for. Besides, kinds of text are compared, runs at
the temperature with greedy ones, and the passes of a round are timed. :mod:`~specdiff_core.explorations.doctor` judges
the numbers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from specdiff_core.explorations.base import Answer, Step
from specdiff_core.measure.prompts import Prompt, own_prompts
from specdiff_core.measure.statistics import LEVEL, Interval, Resampled, paired
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError, ContextOverflow
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import NONE

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.explorations.doctor import Doctor
    from specdiff_core.explorations.study import drafting
    from specdiff_core.explorations.study.variants import Variant

REPEATS = 3  # of each timed pass
FEWEST = 6  # texts needed for an interval: fewer agree by chance too often
TARGET, TEXT = "target", "text"
"""What texts are named after that another target wrote, or that this project's prompts begin."""


class Examination:
    """The checks of a drafter, and their results so far."""

    def __init__(self, settings: Doctor, engine: Engine, stop: Stop) -> None:
        from specdiff_core.explorations.study import drafting
        from specdiff_core.explorations.study.variants import TEMPLATE, SpecialIds, Variant, variants

        self.settings, self.engine, self.stop, self.name = settings, engine, stop, settings.drafter
        drafter, spec = engine.drafter(self.name), engine.pair.spec.drafter(self.name)
        if spec.drafting == "nothing":
            raise ConfigError("Vanilla decoding has no drafter.", field="drafter", hint="Choose another drafter.")
        self.prompts, skipped = settings.prompts(engine)
        layers, ids = engine.target.model.config.num_hidden_layers, SpecialIds.of(engine.target, engine.pair.tokenizer)
        self.changes, why = variants(drafter, layers, ids)
        self.ways = drafting.ways(engine, settings.base)
        if len(self.ways) == 1:
            why[TEMPLATE] = "the tokenizer has no chat template"
        self.declared = Variant("", "", "as declared", drafter)
        self.layers = sorted({layer for one in (self.declared, *self.changes) for layer in one.drafter.layers})
        window = getattr(drafter, "window", settings.gamma + 1) - 1  # a shift needs one more
        self.gamma = max(1, min(spec.clamp_gamma(settings.gamma), window))
        self.texts: dict[str, dict[str, drafting.Text]] = {}
        self.trials, self.elsewhere = list[drafting.Trial](), drafting.Trial(self.declared)  # on other text
        self.ours = [replace(one, id=f"our {one.id}") for one in own_prompts(2) if settings.texts.strip()]
        more = 2 * bool(settings.trained_for) + 2 * bool(settings.temperature)
        self.total = len(self.prompts) * (2 * len(self.ways) + len(self.changes) + more) + 2 * len(self.ours) + REPEATS
        self.done = itertools.count(1)
        self.facts: dict[str, Any] = {"skipped": skipped, "not_changed": why, "gamma": self.gamma}

    def steps(self) -> Iterator[Step]:
        """Every check. The last answer has the facts for a verdict."""
        checks = (self.declarations, self.other_texts, self.templates, self.other_target, self.temperatures, self.cost)
        for check in checks:
            yield from check()
        if not self.stop.is_set():
            kinds = {one.id: "your prompts" if one.flavour == "yours" else one.flavour for one in self.prompts}
            kinds |= {one.id: "this project’s prompts" for one in self.ours}
            self.facts["kinds"] = _kinds(self.trials[0].correct | self.elsewhere.correct, kinds)

    def declarations(self) -> Iterator[Step]:
        """Draft as declared, and with one declaration changed at a time."""
        yield from self.write_texts("", self.engine, self.prompts)
        for change in (self.declared, *self.changes):
            yield from self.try_change(change)

    def other_texts(self) -> Iterator[Step]:
        """Draft on this project's prompts, where the others are the visitor's."""
        yield from self.write_texts(TEXT, self.engine, self.ours)
        for name, text in self.texts[TEXT].items():
            if self.stop.is_set():
                return
            self.elsewhere.run(name, text, self.gamma)
            yield self.step(f"drafts along {name}")

    def templates(self) -> Iterator[Step]:
        """Draft along texts that follow another template."""
        from specdiff_core.explorations.study.variants import TEMPLATE, Variant

        for way in list(self.ways)[1:]:
            yield from self.write_texts(way, self.engine, self.prompts)
            yield from self.try_change(Variant(TEMPLATE, "the pair’s template", way, self.declared.drafter), way)

    def other_target(self) -> Iterator[Step]:
        """Draft on the target that the drafter was trained for, if it is another."""
        from specdiff_core.checkpoints.own_pairs import parse
        from specdiff_core.engine import Engine
        from specdiff_core.explorations.study import drafting
        from specdiff_core.explorations.study.variants import Variant
        from specdiff_core.loading import load_pair

        if not self.settings.trained_for or self.stop.is_set():
            return
        own, pair = parse({"target": self.settings.trained_for}), self.engine.pair
        spec = dataclasses.replace(pair.spec, target=own.target, revision=own.target_revision, published=None)
        other = Engine(load_pair(spec, pair.placement, drafters=[self.name, NONE.name]))
        drafter = other.drafter(self.name)  # reports that it doesn't fit
        yield from self.write_texts(TARGET, other, self.prompts)
        here, there = (one.source_name("target") for one in (pair, other.pair))
        yield from self.try_change(Variant(TARGET, here, there, drafter), TARGET)
        self.facts["agreement"] = drafting.agreement(other, [*self.texts[""].values()])

    def temperatures(self) -> Iterator[Step]:
        """Decode at the temperature and at 0, if they differ."""
        if not self.settings.temperature:
            return
        warm = dataclasses.replace(self.settings.base, drafter=self.name, gamma=self.gamma)
        runs: list[list[tuple[int, int]]] = [[], []]
        for config, measured in zip((warm, dataclasses.replace(warm, temperature=0.0)), runs, strict=True):
            for prompt in self.prompts:
                if self.stop.is_set():
                    return
                run = fold(self.engine.decode(prompt.prompt, config, detail=False, stop=self.stop))
                measured.append((run.rounds, run.committed))
                yield self.step(f"at temperature {config.temperature:g}: {prompt.id}")
        self.facts["runs"] = _compared(*runs)

    def cost(self) -> Iterator[Step]:
        """Time bare passes: of the target over a window, and of the drafter."""
        from specdiff_core.measure.passes import PassTimes

        timed = PassTimes(self.engine, self.name, [self.gamma])
        for _ in timed.rounds(self.prompts[0].prompt, REPEATS, self.stop, self.engine.threads):
            yield self.step("bare passes")
        if not self.stop.is_set():
            costs, one = timed.costs, timed.costs.target[1]
            verify, draft = costs.target.get(self.gamma + 1, one), costs.draft.get(self.gamma, 0.0)
            self.facts["cost"] = {"verify": verify / one, "draft": draft / one}

    def step(self, doing: str) -> Step:
        return Step(next(self.done), self.total, doing, self.answer)

    def answer(self) -> Answer:
        return Answer(rows=_rows(self.trials, self.gamma), facts=self.facts)

    def write_texts(self, way: str, by: Engine, prompts: Sequence[Prompt]) -> Iterator[Step]:
        """Let a target write a text after each prompt."""
        from specdiff_core.explorations.study import drafting

        self.texts[way] = {}
        for prompt in prompts:
            if self.stop.is_set():
                return
            with contextlib.suppress(ContextOverflow):  # a longer template: its row has the texts that fit
                ids = self.ways.get(way, self.ways[""])(prompt.prompt)
                text = drafting.write(by, ids, self.settings.tokens, self.layers, self.stop)
                if not self.stop.is_set():
                    self.texts[way][prompt.id] = text
            yield self.step(f"the target writes: {prompt.id}")

    def try_change(self, change: Variant, way: str = "") -> Iterator[Step]:
        """Draft along the texts of a way, with a change."""
        from specdiff_core.explorations.study import drafting

        self.trials.append(drafting.Trial(change))
        for prompt, text in self.texts[way].items():
            if self.stop.is_set():
                return
            self.trials[-1].run(prompt, text, self.gamma)
            yield self.step(f"{change.declaration} {change.change}".strip())


def _rows(trials: Sequence[drafting.Trial], gamma: int) -> list[dict[str, Any]]:
    """A row for each variant, the declared one first. Intervals are over texts; those of ratios are wide
    enough that at most 5 % of correctly declared drafters have any change above 1 by chance."""
    import numpy as np

    level = 1 - (1 - LEVEL) / max(1, len(trials) - 1)
    rows = []
    for number, trial in enumerate(trials):
        row: dict[str, Any] = {name: getattr(trial.change, name) for name in ("declaration", "declared", "change")}
        row["texts"] = len(trial.correct)
        rows.append(row)
        common = [text for text in trial.correct if text in trials[0].correct]
        if trial.failed:
            row["failed"] = trial.failed
        if trial.failed or not common:
            continue
        # [texts, γ + 1]: drafts with at least so many correct tokens
        ours, theirs = (
            np.array([[sum(n >= j for n in variant.correct[text]) for j in range(gamma + 1)] for text in common], float)
            for variant in (trial, trials[0])
        )
        sampled = Resampled([len(common)])
        reached, declared = sampled.sums(0, ours), sampled.sums(0, theirs)  # [γ + 1, 1 + resamples]
        tau, before = (sums.sum(0) / sums[0] for sums in (reached, declared))
        counts = reached[:, 0].tolist()
        row |= {
            "drafts": int(counts[0]),
            "tau": float(tau[0]),
            "alpha_at": [after / count if count else None for count, after in itertools.pairwise(counts)],
        }
        if number:
            row |= {"ratio": float(tau[0] / before[0]), "low": None, "high": None}
            if len(common) >= FEWEST:
                row |= _interval(sampled.interval(tau / before, level=level))
    return rows


def _kinds(correct: Mapping[str, Sequence[int]], kinds: Mapping[str, str]) -> list[dict[str, Any]]:
    """τ on each kind of text over τ on all others, the worst first."""
    groups: dict[str, list[Any]] = {}
    for text, counts in correct.items():
        groups.setdefault(kinds[text], []).append((sum(counts) + len(counts), len(counts)))
    rows = []
    for kind, ours in groups.items():
        rest = [pair for other, pairs in groups.items() if other != kind for pair in pairs]
        if min(len(ours), len(rest)) > 1:
            sampled = Resampled([len(ours), len(rest)])
            tau, others = (sums[0] / sums[1] for sums in (sampled.sums(0, ours), sampled.sums(1, rest)))
            interval = sampled.interval(tau / others, level=1 - (1 - LEVEL) / len(groups))
            rows.append({"kind": kind, "tau": float(tau[0]), "others": float(others[0]), **_interval(interval)})
    return sorted(rows, key=lambda row: row["ratio"])


def _compared(hot: Sequence[tuple[int, int]], cold: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """τ of runs at the temperature over τ of greedy ones, from the (rounds, tokens) of each prompt."""
    tau, greedy = (sum(tokens for _, tokens in runs) / sum(rounds for rounds, _ in runs) for runs in (hot, cold))
    return {"tau": tau, "others": greedy, **_interval(paired(cold, hot))}


def _interval(interval: Interval) -> dict[str, float]:
    return {"ratio": interval.value, "low": interval.low, "high": interval.high}
