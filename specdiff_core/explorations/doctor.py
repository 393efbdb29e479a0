"""Why is my acceptance low? The drafter drafts along greedy texts of the target as declared, with one declaration
changed at a time (``study/variants.py``), and on the target that it was trained for. A change that gains tokens per
round, by more than chance, points to the cause. Otherwise kinds of text are compared, runs at the temperature with
greedy ones, and τ with the cost of a round.

Instead it can judge what another engine reports (``schema/reported.py``).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec.structs import replace

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step
from specdiff_core.explorations.figures import CATEGORY, ONE, Figure, Style, axes
from specdiff_core.measure.prompts import Prompt, own_prompts
from specdiff_core.measure.statistics import LEVEL, Interval, Resampled, paired
from specdiff_core.schema import reported
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError, ContextOverflow
from specdiff_core.schema.fields import ask
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import drafter_names

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.explorations.study import drafting
    from specdiff_core.explorations.study.variants import Variant

DRAFTERS = [name for name in drafter_names() if name != "none"]
REPEATS = 3  # of each timed pass
FEWEST = 6  # texts needed for a verdict: fewer agree by chance too often
WEAK = 1.3  # below this τ drafting does not pay even with cheap passes
NOTHING = 0.15  # acceptance of first tokens below which a drafter is misread rather than weak
LOW = 2.0  # τ of another engine that counts as low
TARGET, TABLES, TEXT, HEAT, COST = "target", "tables", "text", "temperature", "cost of a round"
CONFIRM = {
    "shift": "race it with that shift (--shift for a denoiser; for a block drafter, see whether its first slot is the "
    "anchor’s)",
    "mask id": "race it with that --mask-id, or set mask_token_id in its config",
    "feature layers": "set those target_layer_ids in its config and race it again",
    "embedding of the anchor slot": "look up what its training code puts into the first slot",
    "positions": "look up which positions its training code gives to the block",
    "tokenizer map": "compare the tokenizer files of target and drafter",
    "template": "race it with that template",
    TARGET: "race it on that target",
    TABLES: "race it on the target that it was trained for",
    TEXT: "compare these prompts with its training data, and see “Which text suits which method?”",
    HEAT: "run the same prompts at 0",
    COST: "see “What would it take?”; a shorter window, fewer users at once or other threads may pay",
    "": "measure it on its own training texts: if τ is low there too, it needs more training",
}
"""Likely cause -> what would confirm it."""


class Doctor(AtTemperature, frozen=True, kw_only=True):
    """α by position, as declared and with one thing changed at a time, and the likely cause of a low acceptance."""

    name: ClassVar = "doctor"
    rank: ClassVar = 7
    title: ClassVar = "Why is my acceptance low?"
    question: ClassVar = (
        "Is the drafter weak, or its settings, target, text, temperature or the cost of a round to blame?"
    )
    takes: ClassVar = 60
    alone: ClassVar = True
    columns: ClassVar = {
        "declaration": "what was changed; empty: nothing",
        "declared": "its value as declared",
        "change": "its value here",
        "texts": "number of texts",
        "drafts": "drafts along them",
        "tau": "τ: correct tokens of a draft, and the target’s own",
        "alpha_at": "α by position",
        "ratio": "τ over τ as declared",
        "low": "and its interval",
        "high": "and its interval",
        "failed": "why it could not draft",
    }

    drafter: Annotated[str, ask("Drafter", "The drafter to check.", enum=DRAFTERS, of="drafters")] = "block"
    gamma: Annotated[int, ask("γ", "Tokens per draft, up to the drafter's own limit.", 1, 32)] = 8
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 4
    tokens: Annotated[int, ask("New tokens", "In each text that the target writes.", 16, 256)] = 64
    trained_for: Annotated[
        str,
        ask("Trained for", "The target it was trained for, if another: a folder, GGUF file or repository.", most=200),
    ] = ""
    counts: Annotated[
        str,
        ask(
            "Another engine’s counts",
            "Judge these instead: its /metrics after a run (put those from before it in front), or a record as JSON.",
            most=500_000,
        ),
    ] = ""

    @property
    def targets(self) -> tuple[str, ...]:
        return (self.trained_for,) if self.trained_for else ()

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        if self.counts.strip():
            answered = _of_counts(reported.read(self.counts))
            yield Step(1, 1, "done", lambda: answered)
        else:
            yield from _Examination(self, engine, stop).steps()

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        answer, *notes = facts.get("findings", [""])
        unchanged = [f"{name} ({why})" for name, why in facts.get("not_changed", {}).items()]
        notes = [*notes, *([f"Not changed: {'; '.join(unchanged)}."] if unchanged else [])]
        return Report(answer=answer, notes=notes, figures=[_changes(rows), _positions(rows)])


class _Examination:
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
        """Every check, and then the verdict."""
        checks = (self.declarations, self.other_texts, self.templates, self.other_target, self.temperatures, self.cost)
        for check in checks:
            yield from check()
        if not self.stop.is_set():
            kinds = {one.id: "your prompts" if one.flavour == "yours" else one.flavour for one in self.prompts}
            kinds |= {one.id: "this project’s prompts" for one in self.ours}
            self.facts["kinds"] = _kinds(self.trials[0].correct | self.elsewhere.correct, kinds)
            self.facts |= _verdict(self.name, self.answer().rows, self.facts, self.settings.temperature)
            yield Step(self.total, self.total, "done", self.answer)

    def declarations(self) -> Iterator[Step]:
        """Draft as declared, and with one declaration changed at a time."""
        yield from self.written("", self.engine, self.prompts)
        for change in (self.declared, *self.changes):
            yield from self.tried(change)

    def other_texts(self) -> Iterator[Step]:
        """Draft on this project's prompts, where the others are the visitor's."""
        yield from self.written(TEXT, self.engine, self.ours)
        for name, text in self.texts[TEXT].items():
            if self.stop.is_set():
                return
            self.elsewhere.run(name, text, self.gamma)
            yield self.step(f"drafts along {name}")

    def templates(self) -> Iterator[Step]:
        """Draft along texts that follow another template."""
        from specdiff_core.explorations.study.variants import TEMPLATE, Variant

        for way in list(self.ways)[1:]:
            yield from self.written(way, self.engine, self.prompts)
            yield from self.tried(Variant(TEMPLATE, "the pair’s template", way, self.declared.drafter), way)

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
        other = Engine(load_pair(spec, pair.placement, drafters=[self.name, "none"]))
        drafter = other.drafter(self.name)  # reports that it doesn't fit
        yield from self.written(TARGET, other, self.prompts)
        here, there = (one.source_name("target") for one in (pair, other.pair))
        yield from self.tried(Variant(TARGET, here, there, drafter), TARGET)
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

    def written(self, way: str, by: Engine, prompts: Sequence[Prompt]) -> Iterator[Step]:
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

    def tried(self, change: Variant, way: str = "") -> Iterator[Step]:
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


def _verdict(
    name: str, rows: Sequence[Mapping[str, Any]], facts: Mapping[str, Any], temperature: float
) -> dict[str, Any]:
    """The verdict on a drafter, the likely cause of a low acceptance (``suspect``), and sentences."""
    declared, *changed = rows
    tau = declared.get("tau")
    if tau is None or declared["texts"] < FEWEST:
        words = f"{declared['texts']} texts are too few: use at least {FEWEST}."
        return {"verdict": "unknown", "findings": [declared.get("failed", words)]}
    copies = [
        f"{row['declared'].capitalize()}: with {row['change']} instead, τ is {row['tau']:.2f}, not {tau:.2f} "
        f"({_range(row)})."
        for row in changed
        if row["declaration"] == TABLES and row.get("low") is not None
    ]
    better = [row for row in changed if (row.get("low") or 0) > 1]
    if better:
        best = max(better, key=lambda row: row["tau"])
        cause, gain = best["declaration"], _range(best)
        if cause == TARGET:
            finding = (
                f"This target costs it tokens: τ is {tau:.2f} here, {best['tau']:.2f} on {best['change']} ({gain}); "
                f"the two choose the same token at {draw.percent(facts['agreement'])} of the positions."
            )
        else:
            finding = (
                f"The {cause} look{'' if cause.endswith('s') else 's'} wrongly declared: with {best['change']} instead "
                f"of {best['declared']}, τ is {best['tau']:.2f}, not {tau:.2f} ({gain})."
            )
        also = sorted({row["declaration"] for row in better} - {cause})
        also = [f"Changing any of these alone also gains tokens: {', '.join(also)}."] if also else []
        copies = [] if cause == TABLES else copies
        return _found("wrong", cause, finding, *also, *copies, change=best["change"])
    verdict = "weak" if tau < WEAK else "right"
    words = f"{name} is weak" if tau < WEAK else f"{name} looks correctly declared"
    finding = f"{words}: τ is {tau:.2f} as declared, and none of {len(changed)} changes raises it."
    also = [finding, *copies]
    worst = next(iter(facts["kinds"]), None)
    if worst and worst["high"] < 1 and worst["tau"] < WEAK <= worst["others"]:
        text = (
            f"On {worst['kind']} its drafts are worse: τ is {worst['tau']:.2f} there, {worst['others']:.2f} elsewhere"
        )
        return _found(verdict, TEXT, f"{text} ({_range(worst)}). It may not have been trained on such text.", *also)
    runs = facts.get("runs")
    if runs and runs["high"] < 1:
        sampling = (
            f"At temperature {temperature:g} τ is {runs['tau']:.2f}, and {runs['others']:.2f} at 0 ({_range(runs)})"
        )
        return _found(verdict, HEAT, f"{sampling}: sampling costs it tokens.", *also)
    cost = sum(facts["cost"].values())
    if verdict == "right" and cost > tau:
        parts = ", ".join(f"{name} {passes:.2f}" for name, passes in facts["cost"].items())
        dear = f"Acceptance isn’t the problem: a round yields {tau:.2f} tokens, but costs {cost:.2f} vanilla passes"
        return _found(verdict, COST, f"{dear} ({parts}).", *also)
    return _found(verdict, "", *also) if verdict == "weak" else {"verdict": verdict, "findings": also}


def _range(row: Mapping[str, Any]) -> str:
    return f"{row['ratio']:.2f}×, interval {row['low']:.2f} to {row['high']:.2f}"


def _found(verdict: str, cause: str, *findings: str, **more: Any) -> dict[str, Any]:
    """A verdict, with what would confirm its cause."""
    confirm = f"To confirm it, {CONFIRM[cause]}."
    return {"verdict": verdict, **({"suspect": cause} if cause else {}), **more, "findings": [*findings, confirm]}


def _of_counts(counts: reported.Counts | reported.Gauge) -> Answer:
    """What the counts of another engine suggest. Only the shape of its acceptance distinguishes the causes."""
    row: dict[str, Any] = {"declaration": "", "declared": "", "change": "as reported", "texts": 0, "tau": counts.tau}
    if isinstance(counts, reported.Gauge):
        over, alpha_at = "by the engine’s own average", list[float | None]()
    else:
        over, alpha_at = f"over {counts.drafts:,.0f} drafts", counts.alpha_at
        row["drafts"] = int(counts.drafts)
    alphas = [alpha for alpha in alpha_at if alpha is not None]
    first = alphas[0] if alphas else None
    if first is not None and first < NOTHING:
        likely = (
            "hardly any first token is accepted. That is rarely a weak drafter: its shift, anchor, mask id, feature "
            "layers or positions differ from those it was trained with, or it was trained for another target"
        )
        confirm = "run the doctor on target and drafter here: it tries each of them"
    elif first is not None and min(alphas) < first / 3:
        likely = (
            f"the first token is accepted ({first:.2f}), later ones hardly ({min(alphas):.2f}): the positions of its "
            "block are wrong, or the engine drafts more tokens than it was trained for"
        )
        confirm = "halve the number of speculative tokens: τ should hardly change"
    elif counts.tau < LOW:
        likely = (
            f"acceptance is low{' at all positions' if alphas else ''}, but not nil: another or a quantised target, "
            "another chat template, text unlike its training data, or a high temperature"
        )
        confirm = "run the same prompts at temperature 0, then without the template, then on the original target"
    else:
        likely = (
            "acceptance isn’t low. If decoding is slower all the same, a verify pass is dear: batch, MoE or threads"
        )
        confirm = "time it with one request at once, with and without drafting"
    sentence = f"τ is {counts.tau:.2f} {over}, and {likely}."
    return Answer(
        rows=[row | {"alpha_at": alpha_at}],
        facts={"verdict": "reported", "findings": [sentence, f"To confirm it, {confirm}."]},
    )


def _changes(rows: Iterable[dict[str, Any]]) -> Figure:
    """τ with each change, over τ as declared."""
    shown = [row for row in rows if row.get("ratio")]
    names = [f"{row['declaration']}: {row['change']}" for row in shown]
    words = [[None, f"{name}: τ = {row['tau']:.2f}"] for name, row in zip(names, shown, strict=True)]
    look: dict[str, Any] = {"customdata": words, "error_y": draw.whisker(shown, "ratio")}
    return Figure(
        key="changes",
        title="With one thing changed",
        hint="above 1: the change gains tokens",
        wide=True,
        data=[
            draw.bars([draw.escaped(name) for name in names], [row["ratio"] for row in shown], "τ", "@draft", **look)
        ],
        layout=axes("", "τ over τ as declared, ×", xaxis=CATEGORY, yaxis=draw.FROM_ZERO, shapes=[ONE]),
        empty="Bars appear when the first change has been tried.",
    )


def _positions(rows: Sequence[dict[str, Any]]) -> Figure:
    """α by position, as declared and with the best change."""
    shown = [row for row in rows if row.get("alpha_at")]
    drawn = [*shown[:1], *sorted(shown[1:], key=lambda row: row["tau"])[-1:]]
    looks = ("@draft", "solid"), ("@ink", "dot")
    curves = [
        (Style(colour, "circle", dash, f"{row['declaration']}: {row['change']}".removeprefix(": ")), row["alpha_at"])
        for row, (colour, dash) in zip(drawn, looks, strict=False)
    ]
    return draw.by_position(curves, hint="of the drafts that reach it", empty="Lines appear with the first drafts.")
