"""Drafter doctor: is a drafter weak, or are its declared settings wrong? It drafts along texts of
the target as declared, and with one declaration changed at a time (``drafters/variants.py``). A
change that gains tokens per round, by more than chance, points to a wrong declaration.

Nothing is decoded speculatively: drafts are compared with greedy texts of the target.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations.base import Answer, OnPrompts, Report, Step, Stopped
from specdiff_core.explorations.fields import ask, enum
from specdiff_core.measure.statistics import BOUNDS, LEVEL, resamples
from specdiff_core.schema.errors import ConfigError, ContextOverflow, SpecDiffError
from specdiff_core.schema.pairs import drafter_names
from specdiff_core.schema.settings import DecodeConfig, Template

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from specdiff_core.drafters.variants import Variant
    from specdiff_core.engine import Engine
    from specdiff_core.loading import LoadedPair

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

    drafter: Annotated[str, ask("Drafter", "The drafter to check.", **enum(DRAFTERS, "drafters"))] = "block"
    gamma: Annotated[int, ask("γ", "Tokens of a draft, at most the drafter's own limit.", 1, 32)] = 8
    per_flavour: Annotated[int, ask("Prompts of each kind", "More prompts, narrower intervals.", 1, 5)] = 4
    tokens: Annotated[int, ask("New tokens", "In each text that the target writes.", 16, 256)] = 64

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        from specdiff_core.drafters.variants import TEMPLATE, Variant, variants

        drafter, spec = engine.drafter(self.drafter), engine.pair.spec.drafter(self.drafter)
        if spec.drafting == "nothing":
            raise ConfigError("Vanilla decoding has no drafter.", field="drafter", hint="Choose another drafter.")
        prompts, skipped = self.prompts(engine)
        changes, why = variants(drafter, engine.target.model.config.num_hidden_layers, _words(engine))
        ways = _ways(engine, self.base)
        if len(ways) == 1:
            why[TEMPLATE] = "the tokenizer has no chat template"
        known = _Known(self.drafter, skipped, why)
        declared = Variant("", "", "as declared", drafter)
        layers = sorted({layer for one in (declared, *changes) for layer in one.drafter.layers})
        window = getattr(drafter, "window", self.gamma + 1) - 1  # a shift needs one more
        gamma = max(1, min(spec.fit(self.gamma), window))
        texts: dict[str, dict[str, _Text]] = {way: {} for way in ways}
        done, total = 0, len(prompts) * (2 * len(ways) + len(changes) + 1)

        def written(way: str) -> Iterator[Step]:
            nonlocal done
            for prompt in prompts:
                if stopped():
                    return
                with contextlib.suppress(ContextOverflow):  # a longer template: its row has the texts that fit
                    texts[way][prompt.id] = _write(engine, ways[way](prompt.prompt), self.tokens, layers)
                done += 1
                yield Step(done, total, f"the target writes: {prompt.id}", known.answer)

        def tried(change: Variant, way: str = "") -> Iterator[Step]:
            nonlocal done
            for prompt, text in texts[way].items():
                if stopped():
                    return
                known.tried(change, prompt, text, gamma)
                done += 1
                yield Step(done, total, f"{change.declaration} {change.change}".strip(), known.answer)

        yield from written("")
        yield from tried(declared)
        for change in changes:
            yield from tried(change)
        if not stopped() and (recast := _recast(engine, self.drafter, known)) is not None:
            yield from tried(recast)
        for way in list(ways)[1:]:
            yield from written(way)
            yield from tried(Variant(TEMPLATE, "the pair’s template", way, drafter), way)
        if not stopped():
            known.over = True
            yield Step(total, total, "done", known.answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        answer, *notes = facts.get("findings", [""])
        left = [f"{name} ({why})" for name, why in facts.get("not_changed", {}).items()]
        return Report(answer=answer, notes=[*notes, *([f"Not changed: {'; '.join(left)}."] if left else [])])


@dataclass(frozen=True, slots=True)
class _Text:
    """A text of the target."""

    ids: list[int]
    prompt: int  # of them
    features: dict[int, Tensor]  # layer -> [n, W], for all tokens but the last


class _Known:
    """The results so far."""

    def __init__(self, drafter: str, skipped: list[str], why: Mapping[str, str]) -> None:
        self._drafter, self._skipped = drafter, skipped
        self.why = dict(why)  # declaration -> why it was not changed
        self.over = False
        self._kept: list[tuple[Variant, dict[str, list[int]]]] = []  # text -> correct tokens of each draft
        self._failed: dict[int, str] = {}
        self._gamma = 0

    def tried(self, change: Variant, prompt: str, text: _Text, gamma: int) -> None:
        """Draft along a text."""
        if not self._kept or self._kept[-1][0] is not change:
            self._kept.append((change, {}))
        self._gamma = gamma
        try:
            if found := list(_kept(change, text, gamma)):
                self._kept[-1][1][prompt] = found
        except SpecDiffError as error:  # it cannot draft with this change
            self._failed[len(self._kept) - 1] = error.message

    def answer(self) -> Answer:
        rows = self._rows()
        facts: dict[str, Any] = {"skipped": self._skipped, "not_changed": self.why, "gamma": self._gamma}
        if self.over:
            facts |= self._verdict(rows)
        return Answer(rows=rows, facts=facts)

    def _rows(self) -> list[dict[str, Any]]:
        """A row for each variant, the declared one first. Intervals are bootstraps over texts; those of ratios are wide
        enough that at most 5 % of correctly declared drafters have any change above 1 by chance."""
        import numpy as np

        if not self._kept:
            return []
        first = self._kept[0][1]
        level = 50 * (1 - LEVEL) / max(1, len(self._kept) - 1)
        rows = []
        for number, (change, kept) in enumerate(self._kept):
            row: dict[str, Any] = {name: getattr(change, name) for name in ("declaration", "declared", "change")}
            row["texts"] = len(kept)
            rows.append(row)
            if number in self._failed:
                row["failed"] = self._failed[number]
            both = [text for text in kept if text in first]
            if not both or number in self._failed:
                continue
            # [texts, γ + 1]: drafts with at least so many correct tokens
            own, theirs = (
                np.array([[sum(n >= j for n in one[text]) for j in range(self._gamma + 1)] for text in both], float)
                for one in (kept, first)
            )
            drawn = resamples(len(both))
            reached, declared = own[drawn].sum(1), theirs[drawn].sum(1)  # [1 + resamples, γ + 1]
            with np.errstate(invalid="ignore"):
                alphas = reached[:, 1:] / reached[:, :-1]  # NaN if no draft got that far
            tau, before = (one.sum(1) / one[:, 0] for one in (reached, declared))
            many = len(both) >= FEWEST
            low, high = np.nanpercentile(alphas[:, reached[0, :-1] > 0], BOUNDS, axis=0) if many else ([], [])
            row |= {
                "drafts": int(reached[0, 0]),
                "tau": float(tau[0]),
                "alpha_at": [None if share != share else float(share) for share in alphas[0]],
                "alpha_low": [float(share) for share in low],
                "alpha_high": [float(share) for share in high],
            }
            if number:
                row |= {"ratio": float(tau[0] / before[0]), "low": None, "high": None}
                if many:
                    row["low"], row["high"] = np.percentile((tau / before)[1:], (level, 100 - level)).tolist()
        return rows

    def _verdict(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The verdict, and a sentence that explains it."""
        declared, *changed = rows
        tau, name = declared.get("tau"), self._drafter
        if tau is None or declared["texts"] < FEWEST:
            words = f"{declared['texts']} texts are too few: use at least {FEWEST}."
            return {"verdict": "unknown", "findings": [declared.get("failed", words)]}
        better = [row for row in changed if row.get("low") is not None and row["low"] > 1]
        count = f"{len(changed)} changes"
        if better:
            best = max(better, key=lambda row: row["tau"])
            look = "look" if best["declaration"].endswith("s") else "looks"
            finding = (
                f"The {best['declaration']} {look} wrongly declared: with {best['change']} instead of "
                f"{best['declared']}, τ is {best['tau']:.2f}, not {tau:.2f} ({best['ratio']:.2f}×, interval "
                f"{best['low']:.2f} to {best['high']:.2f})."
            )
            also = sorted({row["declaration"] for row in better} - {best["declaration"]})
            also = [f"Changing any of these alone also gains tokens: {', '.join(also)}."] if also else []
            return {
                "verdict": "wrong",
                "suspect": best["declaration"],
                "change": best["change"],
                "findings": [finding, *also],
            }
        if tau < WEAK:
            finding = f"{name} is weak: τ is {tau:.2f} as declared, and none of {count} raises it."
            return {"verdict": "weak", "findings": [finding]}
        finding = f"All declarations of {name} look right: τ is {tau:.2f} as declared, and none of {count} raises it."
        return {"verdict": "right", "findings": [finding]}


def _words(engine: Engine) -> Any:
    """The pair's ids, as its tokenizer names them."""
    from specdiff_core.drafters.variants import Words

    tokenizer: Any = engine.pair.tokenizer
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    masks = [token for word, token in vocabulary.items() if "mask" in word.lower() and word not in ("mask", "Ġmask")]
    special = [*sorted(set(masks) & set(tokenizer.all_special_ids)), *tokenizer.all_special_ids]
    return Words(engine.target.suppress, special, lambda token: f"{token} “{tokenizer.decode([token])}”")


def _ways(engine: Engine, base: DecodeConfig) -> dict[str, Callable[[str], Sequence[int]]]:
    """The ways to encode a prompt, by name: "" is the way of a run with ``base``, the others are
    those that the tokenizer's template offers."""
    template = str(getattr(engine.pair.tokenizer, "chat_template", None) or "")
    names = {Template.PLAIN: "the bare prompt"}
    if template:
        names |= {Template.CHAT: "the chat template"}
    if "enable_thinking" in template:
        names |= {Template.CHAT: "the chat template, thinking off", Template.THINK: "the chat template, thinking on"}
    seen = {engine.encode(PROBE, base)}
    ways: dict[str, Callable[[str], Sequence[int]]] = {"": partial(engine.encode, config=base)}
    for declared, name in names.items():
        config = dataclasses.replace(base, template=declared)
        if (ids := engine.encode(PROBE, config)) not in seen:
            seen.add(ids)
            ways[name] = partial(engine.encode, config=config)
    return ways


def _write(engine: Engine, ids: Sequence[int], tokens: int, layers: Sequence[int]) -> _Text:
    """The target's greedy text after ``ids``, and the outputs of these layers."""
    import torch

    from specdiff_core.maths.distributions import to_probs
    from specdiff_core.schema.settings import Sampling

    run, text, found = engine.target.start(layers), list(ids), []
    found.append(run.read(text[:-1]))
    for _ in range(min(tokens, run.room)):
        scores = run.score(text[-1:])
        found.append(scores.features)
        text.append(int(to_probs(scores.logits, Sampling(), engine.target.suppress).argmax()))
    whole = torch.cat([part for part in found if part is not None]) if layers else None
    parts = () if whole is None else whole.chunk(len(layers), -1)
    return _Text(text, len(ids), dict(zip(layers, parts, strict=True)))


def _kept(change: Variant, text: _Text, gamma: int) -> Iterator[int]:
    """Correct tokens of a draft at every third position of the target's text."""
    import torch

    from specdiff_core.drafters.base import Context, drained
    from specdiff_core.maths.randomness import Streams
    from specdiff_core.schema.settings import RevealOrder, Sampling

    session, layers, seen = change.drafter.start(), change.drafter.layers, 0
    streams = Streams(0, shared=False)
    for place in range(max(FIRST, text.prompt), len(text.ids) - gamma + 1, EVERY):
        read = slice(seen, place - 1)  # everything before the anchor
        features = torch.cat([text.features[layer][read] for layer in layers], -1) if layers else None
        session.observe(text.ids[read], features)
        seen = place - 1
        context = Context(
            ids=text.ids[:place],
            gamma=min(gamma + change.skip, session.room),
            steps=1,
            order=RevealOrder.LEFT_TO_RIGHT,
            sampling=Sampling(),
            sampler=streams.draft(place),
        )
        drafted = drained(session.draft(context)).ids[change.skip :]
        pairs = zip(drafted, text.ids[place : place + gamma], strict=False)
        wrong = next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        yield len(drafted) if wrong is None else wrong


def _recast(engine: Engine, name: str, known: _Known) -> Variant | None:
    """The drafter in the other of fp32 and bf16; None, with the reason in ``known``, if it is not available."""
    import torch

    from specdiff_core.drafters.variants import DTYPE, Variant, with_weights

    was = engine.pair.placement.dtype
    other = torch.float32 if was == torch.bfloat16 else torch.bfloat16
    pair, reason = _in_dtype(engine, other, name)
    drafter = None if pair is None else with_weights(engine.drafter(name), pair.drafters[name])
    if drafter is None:
        known.why[DTYPE] = reason or "it has no weights"
        return None
    words = {torch.float32: "fp32", torch.bfloat16: "bf16"}
    return Variant(DTYPE, words.get(was, str(was)), words[other], drafter)


def _in_dtype(engine: Engine, dtype: torch.dtype, drafter: str) -> tuple[LoadedPair | None, str]:
    """A second copy of the pair in another dtype, with one drafter; or why there is none."""
    from specdiff_core.loading import load_pair

    if why := no_room(engine, dtype):
        return None, why
    placement = dataclasses.replace(engine.pair.placement, dtype=dtype)
    try:
        pair = load_pair(engine.pair.spec, placement, drafters=[drafter])
    except SpecDiffError as error:
        return None, f"a second copy of the pair cannot be loaded: {error.message}"
    return (pair, "") if drafter in pair.drafters else (None, pair.missing[drafter])


def no_room(engine: Engine, dtype: torch.dtype) -> str:
    """Why a second copy of the target cannot be loaded in ``dtype``; empty if it can. It needs
    twice its weights, because products may pack their own copies and drafters are loaded too."""
    import psutil  # comes with accelerate
    import torch

    device = engine.pair.placement.device
    numbers = sum(part.numel() for part in engine.target.model.parameters())
    need = 2 * numbers * dtype.itemsize
    cuda = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] if cuda else psutil.virtual_memory().available
    return "" if need <= free else f"a second copy takes about {need / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free"
