"""Drafter doctor: is a drafter weak, or are its declared settings wrong? It drafts along texts of
the target as declared, and with one declaration changed at a time (``drafters/variants.py``). A
change that gains tokens per round, by more than chance, points to a wrong declaration.

Nothing is decoded speculatively: drafts are compared with greedy texts of the target.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations.base import Answer, OnPrompts, Report, ShouldStop, Step
from specdiff_core.measure.statistics import LEVEL, Resampled
from specdiff_core.schema.errors import ConfigError, ContextOverflow, SpecDiffError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.pairs import drafter_names
from specdiff_core.schema.settings import DecodeConfig, Template

if TYPE_CHECKING:
    from torch import Tensor

    from specdiff_core.drafters.variants import Variant
    from specdiff_core.engine import Engine

DRAFTERS = [name for name in drafter_names() if name != "none"]
PROBE = "Hello"
"""Templates that give the same ids for it count as one."""
EVERY = 3
"""Tokens between two drafts along a text."""
FIRST = 4
"""Tokens before the first draft, so that a shift stays inside the text."""
FEWEST = 6
"""Texts needed for a verdict: fewer agree by chance too often."""
WEAK = 1.3
"""Below this τ drafting does not pay even with cheap passes."""


class Doctor(OnPrompts, frozen=True, kw_only=True):
    """α by position, as declared and with one declaration changed at a time, and which declaration looks wrong."""

    name: ClassVar = "doctor"
    title: ClassVar = "Drafter doctor"
    question: ClassVar = "Is the drafter weak, or are its declared settings wrong?"
    tab: ClassVar = ""

    drafter: Annotated[str, ask("Drafter", "The drafter to check.", enum=DRAFTERS, of="drafters")] = "block"
    gamma: Annotated[int, ask("γ", "Tokens per draft, up to the drafter's own limit.", 1, 32)] = 8
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 4
    tokens: Annotated[int, ask("New tokens", "In each text that the target writes.", 16, 256)] = 64

    def explore(self, engine: Engine, stopped: ShouldStop) -> Iterator[Step]:
        from specdiff_core.drafters.variants import TEMPLATE, Variant, variants

        drafter, spec = engine.drafter(self.drafter), engine.pair.spec.drafter(self.drafter)
        if spec.drafting == "nothing":
            raise ConfigError("Vanilla decoding has no drafter.", field="drafter", hint="Choose another drafter.")
        prompts, skipped = self.prompts(engine)
        changes, why = variants(drafter, engine.target.model.config.num_hidden_layers, _words(engine))
        ways = _ways(engine, self.base)
        if len(ways) == 1:
            why[TEMPLATE] = "the tokenizer has no chat template"
        declared = Variant("", "", "as declared", drafter)
        layers = sorted({layer for one in (declared, *changes) for layer in one.drafter.layers})
        window = getattr(drafter, "window", self.gamma + 1) - 1  # a shift needs one more
        gamma = max(1, min(spec.clamp_gamma(self.gamma), window))
        texts: dict[str, dict[str, _Text]] = {way: {} for way in ways}
        trials = list[_Trial]()
        done, total = itertools.count(1), len(prompts) * (2 * len(ways) + len(changes))
        facts: dict[str, Any] = {"skipped": skipped, "not_changed": why, "gamma": gamma}

        def answer() -> Answer:
            return Answer(rows=_rows(trials, gamma), facts=facts)

        def written(way: str) -> Iterator[Step]:
            for prompt in prompts:
                if stopped():
                    return
                with contextlib.suppress(ContextOverflow):  # a longer template: its row has the texts that fit
                    texts[way][prompt.id] = _write(engine, ways[way](prompt.prompt), self.tokens, layers)
                yield Step(next(done), total, f"the target writes: {prompt.id}", answer)

        def tried(change: Variant, way: str = "") -> Iterator[Step]:
            trials.append(_Trial(change))
            for prompt, text in texts[way].items():
                if stopped():
                    return
                trials[-1].run(prompt, text, gamma)
                yield Step(next(done), total, f"{change.declaration} {change.change}".strip(), answer)

        yield from written("")
        for change in (declared, *changes):
            yield from tried(change)
        for way in list(ways)[1:]:
            yield from written(way)
            yield from tried(Variant(TEMPLATE, "the pair’s template", way, drafter), way)
        if not stopped():
            facts |= _verdict(self.drafter, _rows(trials, gamma))
            yield Step(total, total, "done", answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        answer, *notes = facts.get("findings", [""])
        unchanged = [f"{name} ({why})" for name, why in facts.get("not_changed", {}).items()]
        return Report(answer=answer, notes=[*notes, *([f"Not changed: {'; '.join(unchanged)}."] if unchanged else [])])


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of the target."""

    ids: list[int]
    prompt: int  # of them
    features: dict[int, Tensor]  # layer -> [n, W], for all tokens but the last


@dataclass(slots=True)
class _Trial:
    """A variant, and how many tokens of its drafts were correct."""

    change: Variant
    correct: dict[str, list[int]] = field(default_factory=dict)  # text -> tokens of each draft
    failed: str = ""

    def run(self, prompt: str, text: _Text, gamma: int) -> None:
        """Draft along a text."""
        try:
            if correct := list(_correct(self.change, text, gamma)):
                self.correct[prompt] = correct
        except SpecDiffError as error:  # it cannot draft with this change
            self.failed = error.message


def _rows(trials: Sequence[_Trial], gamma: int) -> list[dict[str, Any]]:
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
                interval = sampled.interval(tau / before, level=level)
                row["low"], row["high"] = interval.low, interval.high
    return rows


def _verdict(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The verdict on a drafter, and a sentence that explains it."""
    declared, *changed = rows
    tau = declared.get("tau")
    if tau is None or declared["texts"] < FEWEST:
        words = f"{declared['texts']} texts are too few: use at least {FEWEST}."
        return {"verdict": "unknown", "findings": [declared.get("failed", words)]}
    better = [row for row in changed if (row.get("low") or 0) > 1]
    if not better:
        verdict = "weak" if tau < WEAK else "right"
        words = f"{name} is weak" if tau < WEAK else f"{name} looks correctly declared"
        finding = f"{words}: τ is {tau:.2f} as declared, and none of {len(changed)} changes raises it."
        return {"verdict": verdict, "findings": [finding]}
    best = max(better, key=lambda row: row["tau"])
    look = "look" if best["declaration"].endswith("s") else "looks"
    finding = (
        f"The {best['declaration']} {look} wrongly declared: with {best['change']} instead of {best['declared']}, τ is "
        f"{best['tau']:.2f}, not {tau:.2f} ({best['ratio']:.2f}×, interval {best['low']:.2f} to {best['high']:.2f})."
    )
    also = sorted({row["declaration"] for row in better} - {best["declaration"]})
    also = [f"Changing any of these alone also gains tokens: {', '.join(also)}."] if also else []
    suspect = {"suspect": best["declaration"], "change": best["change"]}
    return {"verdict": "wrong", **suspect, "findings": [finding, *also]}


def _words(engine: Engine) -> Any:
    """The pair's ids, as its tokenizer names them."""
    from specdiff_core.drafters.variants import SpecialIds

    tokenizer: Any = engine.pair.tokenizer
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    masks = [token for word, token in vocabulary.items() if "mask" in word.lower() and word not in ("mask", "Ġmask")]
    special = [*sorted(set(masks) & set(tokenizer.all_special_ids)), *tokenizer.all_special_ids]
    return SpecialIds(engine.target.suppress, special, lambda token: f"{token} “{tokenizer.decode([token])}”")


def _ways(engine: Engine, base: DecodeConfig) -> dict[str, Callable[[str], Sequence[int]]]:
    """The ways to encode a prompt, by name: "" is the way of a run with ``base``, the others are
    those that the tokenizer's template offers."""
    template = str(getattr(engine.pair.tokenizer, "chat_template", None) or "")
    names = {Template.PLAIN: "the bare prompt"}
    if template:
        names |= {Template.CHAT: "the chat template"}
    if "enable_thinking" in template:
        names |= {Template.CHAT: "the chat template, thinking off", Template.THINK: "the chat template, thinking on"}
    encodings = {engine.encode(PROBE, base)}
    ways: dict[str, Callable[[str], Sequence[int]]] = {"": partial(engine.encode, config=base)}
    for declared, name in names.items():
        config = dataclasses.replace(base, template=declared)
        if (ids := engine.encode(PROBE, config)) not in encodings:
            encodings.add(ids)
            ways[name] = partial(engine.encode, config=config)
    return ways


def _write(engine: Engine, ids: Sequence[int], tokens: int, layers: Sequence[int]) -> _Text:
    """The target's greedy text after ``ids``, and the outputs of these layers."""
    import torch

    from specdiff_core.maths.distributions import to_probs
    from specdiff_core.schema.settings import Sampling

    run, text, features = engine.target.start(layers), list(ids), []
    features.append(run.read(text[:-1]))
    for _ in range(min(tokens, run.room)):
        scores = run.score(text[-1:])
        features.append(scores.features)
        text.append(int(to_probs(scores.logits, Sampling(), engine.target.suppress).argmax()))
    joined = torch.cat([rows for rows in features if rows is not None]) if layers else None
    by_layer = () if joined is None else joined.chunk(len(layers), -1)
    return _Text(text, len(ids), dict(zip(layers, by_layer, strict=True)))


def _correct(change: Variant, text: _Text, gamma: int) -> Iterator[int]:
    """Correct tokens of a draft at every third position of the target's text."""
    import torch

    from specdiff_core.drafters.base import Context, run_to_end
    from specdiff_core.maths.randomness import Streams
    from specdiff_core.schema.settings import RevealOrder, Sampling

    session, layers, observed = change.drafter.start(), change.drafter.layers, 0
    streams, order = Streams(0, shared=False), RevealOrder.LEFT_TO_RIGHT
    for position in range(max(FIRST, text.prompt), len(text.ids) - gamma + 1, EVERY):
        read = slice(observed, position - 1)  # everything before the anchor
        features = torch.cat([text.features[layer][read] for layer in layers], -1) if layers else None
        session.observe(text.ids[read], features)
        observed = position - 1
        inputs: dict[str, Any] = {"ids": text.ids[:position], "sampler": streams.draft(position)}
        context = Context.within(session.room, gamma=gamma + change.skip, sampling=Sampling(), order=order, **inputs)
        drafted = run_to_end(session.draft(context)).ids[change.skip :]
        pairs = zip(drafted, text.ids[position : position + gamma], strict=False)
        wrong = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        yield len(drafted) if wrong is None else wrong
