"""Watch a drafter learn: two block drafters begin with the same random weights and learn from the target's own texts,
one with token-wise cross-entropy, the other by streak-distillation (SpecDiff-2, arXiv 2511.00606).

Every few seconds both draft after every token of held-out texts, which gives τ, acceptance by position and their
guesses for one sentence. At the end the speed-ups of both, and of the untrained drafter, are measured. Loaded weights
do not change.
"""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, OnPrompts, Report, Step
from specdiff_core.explorations.fields import EMBEDDED
from specdiff_core.explorations.figures import Figure, Style, axes
from specdiff_core.explorations.measured import Runs
from specdiff_core.explorations.run import command_words
from specdiff_core.explorations.wording import Row, escaped, interval_words, plural, ratio, speedup, speedup_words
from specdiff_core.measure.prompts import OWN_TEXTS, Prompt, ranks
from specdiff_core.measure.statistics import paired
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.explorations.study.twins import Twin
    from specdiff_core.train.answers import TrainingExample

UNTRAINED, TOKENS, STREAK = "untrained", "token_wise", "streak"
LABELS = {UNTRAINED: "before training", TOKENS: "token-wise loss", STREAK: "streak-distillation"}
STYLES = {
    UNTRAINED: Style("@muted", "x", "dot", LABELS[UNTRAINED]),
    TOKENS: Style("@residual", "square", "dash", LABELS[TOKENS]),
    STREAK: Style("@draft", "circle", "solid", LABELS[STREAK]),
}
HATCHES = {"dot": "/", "dash": ".", "solid": ""}
"""Dash of a line -> hatch of a bar."""
GAMMA = 8
"""Tokens of a draft."""
COPIES, VARIANTS, BEGUN = 160, 6, 8
"""Training texts per prompt; held-out texts per prompt, and their sampled first tokens."""
TOGETHER = 64
"""Texts that are written at once; other visitors' races wait for such a batch."""
MEASUREMENTS = 20
"""Measurements of τ while a drafter learns."""
FEWEST = 10
"""Tests of a position from which its acceptance rate is reported."""
SHOWN = 8
"""Measurements whose guesses are shown."""
RACED = 4
"""Held-out texts whose beginnings are the prompts of the race."""


class Learn(OnPrompts, frozen=True, kw_only=True):
    """τ, acceptance by position and guesses, while two drafters learn from random weights; then their race."""

    name: ClassVar = "learn"
    rank: ClassVar = 9
    title: ClassVar = "Watch a drafter learn"
    question: ClassVar = "How does a drafter learn to be accepted, and does the loss matter?"
    takes: ClassVar = 150
    scales: ClassVar = ("seconds",)
    columns: ClassVar = {
        "objective": "training objective",
        "step": "optimiser steps",
        "seconds": "seconds of its own training",
        "loss": "mean since the last measurement, nats; the objectives weigh tokens differently, so don’t compare them",
        "tau": "τ of greedy rounds at γ 8, T 1, on held-out texts",
        "alpha_at": "α_j",
        "guess": "the draft for one sentence",
    }

    pair: EMBEDDED = "embedded"  # small enough to train a drafter for in minutes
    flavours: Annotated[
        tuple[str, ...],
        ask("Kinds of text", "The fewer kinds, the faster it learns.", enum=list(OWN_TEXTS)),
    ] = ("stories",)
    seconds: Annotated[int, ask("Seconds of training", "Shared by both drafters.", 5, 600)] = 120
    tokens: Annotated[int, ask("New tokens", "In each text.", 32, 192)] = 128
    per_flavour: Annotated[int, ask("Prompts of each kind", "Every second one is held out.", 2, 5)] = 5

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        from specdiff_core.explorations.study.twins import Texts, Twin, train

        prompts, skipped = self.prompts(engine)
        learnt = [prompt for prompt, rank in zip(prompts, ranks(prompts), strict=True) if rank % 2 == 0]
        held_out = [prompt for prompt in prompts if prompt not in learnt]
        if not held_out:
            raise ConfigError("Learning needs two prompts of the same kind.", field="texts", hint="Give more prompts.")
        texts = Texts(engine, self.seed, stop)
        facts: dict[str, Any] = {"skipped": skipped, "learnt": [prompt.id for prompt in learnt], "race": {}}
        rows, races, total = list[dict[str, Any]](), dict[str, bytes](), self.seconds + 2

        def answer() -> Answer:
            return Answer(rows=list(rows), facts=dict(facts), races=races)

        yield Step(1, total, "the target writes texts", answer)
        corpus: list[TrainingExample] = []
        tested: list[TrainingExample] = []
        requests = [(engine.encode(one.prompt), 0.7 + 0.3 * (copy % 2)) for copy in range(COPIES) for one in learnt]
        begun = [(engine.encode(one.prompt), 1.0) for _ in range(VARIANTS) for one in held_out]
        for first in range(0, len(requests), TOGETHER):
            corpus += texts.write(requests[first : first + TOGETHER], self.tokens)
            if stop.is_set():
                return
            yield Step(1, total, f"the target writes: {len(corpus)} of {len(requests)} texts to learn from", answer)
        for first in range(0, len(begun), TOGETHER):
            beginnings = texts.write(begun[first : first + TOGETHER], BEGUN)
            tested += texts.write([(one.tokens.tolist(), 0.0) for one in beginnings], self.tokens)
            if stop.is_set():
                return

        def pieces(ids: Sequence[int]) -> list[str]:
            return [str(engine.pair.tokenizer.decode([token])) for token in ids]

        facts["sentence"] = pieces(tested[0].prompt.tokens[-2 * BEGUN :])
        facts["continues"] = pieces(tested[0].tokens[len(tested[0].prompt.tokens) :][:GAMMA].tolist())
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            shared: dict[str, Any] = {"gamma": GAMMA, "seed": self.seed}
            twins = {name: Twin(engine, folder / name, streak=name == STREAK, **shared) for name in (TOKENS, STREAK)}
            saved = {UNTRAINED: twins[STREAK].export(folder / UNTRAINED)}
            accepted = dict[str, list[list[int]]]()  # by each, in each text

            def measure() -> None:
                for name, twin in twins.items():
                    accepted[name], guess = twin.measure(tested)
                    rows.append({"objective": LABELS[name]} | _row(twin, accepted[name], pieces(guess)))

            measure()
            measured, doing = 0, ""
            for step, spent in train([*twins.values()], corpus, self.seconds, self.seed, stop):
                if spent >= (measured + 1) * self.seconds / MEASUREMENTS:
                    measured = int(spent * MEASUREMENTS / self.seconds)
                    measure()
                    doing = ", τ = " + " and ".join(ratio(row["tau"]) for row in rows[-len(twins) :])
                yield Step(2 + min(self.seconds - 1, int(spent)), total, f"step {step}{doing}", answer)
            if stop.is_set():
                return
            facts["change"] = _change(accepted[TOKENS], accepted[STREAK])
            saved |= {name: twin.export(folder / name) for name, twin in twins.items()}
            best = max(twins, key=lambda name: _tau(accepted[name]))
            files = _files(saved[best], best, self)
            raced = with_drafters(engine, saved)
            lanes = {name: dataclasses.replace(self.base, gamma=GAMMA, drafter=name) for name in saved}
            ids = [list(text.prompt.tokens) for text in tested[:: max(1, len(tested) // RACED)]]
            words = engine.pair.tokenizer.batch_decode(ids, skip_special_tokens=True)
            starts = [Prompt(id=f"{number}", flavour="", prompt=text) for number, text in enumerate(words, 1)]
            runs = Runs(raced, self.base, lanes, starts, stop)
            for _, _, run in runs.fill():
                facts["race"], races = {key: runs.row(key) for key in lanes if runs.of(key)}, runs.traces
                yield Step(total - 1, total, f"against vanilla: {LABELS[run.lane]}", answer, lambda: files)
        yield Step(total, total, "done", answer, lambda: files)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        by = {name: [row for row in rows if row["objective"] == LABELS[name]] for name in (TOKENS, STREAK)}
        answer, notes, change = "", list[str](), facts.get("change")
        raced = {name: row for name, row in facts["race"].items() if row.get("speedup")}
        if all(len(curve) > 1 for curve in by.values()):
            tokens, streak = (by[name][-1] for name in (TOKENS, STREAK))
            answer = (
                f"After {streak['seconds']:.0f} s of training each, from random weights, τ is {ratio(tokens['tau'])} "
                f"with the {LABELS[TOKENS]} and {ratio(streak['tau'])} with {LABELS[STREAK]}"
            )
            if change:
                low, high = (round(change[end], 2) for end in ("low", "high"))
                verdict = "; that contains 1, so the difference may be chance"
                if low > 1 or high < 1:
                    verdict = f": {LABELS[STREAK]} drafts {'better' if low > 1 else 'worse'}"
                answer += (
                    f", {ratio(change['value'])} times as much (95 % interval {ratio(low)} to {ratio(high)} over "
                    f"held-out texts){verdict}"
                )
            answer += "."
        if trained := {name: raced[name] for name in by if name in raced}:
            speeds = (
                f"{LABELS[name]} {speedup_words(row)} ({interval_words(row)}) with τ = {ratio(row['tau'])}"
                for name, row in trained.items()
            )
            unclear = all(row.get("low") is not None and row["low"] <= 1 <= row["high"] for row in trained.values())
            notes.append(
                f"Raced against vanilla on held-out prompts: {'; '.join(speeds)}."
                + (" Each interval contains 1, so the race shows no clear speed-up." if unclear else "")
            )
        if answer:
            notes.append(
                "Both began with the same weights and saw the same blocks of the same texts, which the target wrote "
                f"after {plural(len(facts['learnt']), 'prompt')}. They know only this kind of text."
            )
        titles = {name: f"Block drafter, {LABELS[name]}" for name in raced}
        figures = [_curves(by), _guesses(by[STREAK], facts), _positions(by), _race(raced)]
        return Report(answer=answer, notes=notes, figures=figures, titles=titles)


def _curves(by: Mapping[str, Sequence[dict[str, Any]]]) -> Figure:
    points = [row | {"by": name} for name, curve in by.items() for row in curve]

    def words(row: Row) -> str:
        return f"{row['seconds']:.0f} s, step {row['step']}: τ = {ratio(row['tau'])}"

    return Figure(
        key="learning",
        title="Learning to be accepted",
        hint="τ of greedy rounds on held-out texts",
        wide=True,
        data=draw.lines(points, "by", "seconds", "tau", words, style=STYLES),
        layout=axes("seconds of training", "τ at γ 8, tokens per round", showlegend=True),
        empty="The curves start once the target has written the texts.",
    )


def _visible(piece: str) -> str:
    return escaped(piece.replace("\n", "↵").strip() or "␣")


def _guesses(rows: Sequence[dict[str, Any]], facts: Mapping[str, Any]) -> Figure:
    """Rows of drafts for one sentence; right tokens are bold and coloured."""
    picks = sorted({round(i * (len(rows) - 1) / (SHOWN - 1)) for i in range(SHOWN)}) if rows else []
    guesses, right = [rows[i] for i in picks], facts.get("continues", [])
    same = [[int(piece == token) for piece, token in zip(row["guess"], right, strict=True)] for row in guesses]
    words = [
        [f"<b>{_visible(piece)}</b>" if hit else _visible(piece) for piece, hit in zip(*row, strict=True)]
        for row in zip((row["guess"] for row in guesses), same, strict=True)
    ]
    heat = draw.heatmap(
        range(1, len(right) + 1),
        [f"{row['seconds']:.0f} s" for row in guesses],
        same,
        words,
        [[0, "@card"], [1, "@draft-tint"]],
        zmin=0,
        zmax=1,
        hovertemplate="position %{x}, %{y}: %{text}<extra></extra>",
    )
    begun, ends = escaped("".join(facts.get("sentence", []))), escaped("".join(right))
    return Figure(
        key="guesses",
        title="One sentence, guessed again and again",
        hint=f"the streak-distilled drafter after “…{begun}”; the target writes “{ends}”; right tokens are bold",
        wide=True,
        data=[heat] if guesses else [],
        layout=axes("position in the draft", "", yaxis={"autorange": "reversed", "type": "category"}),
        empty="Rows appear as the drafter learns.",
    )


def _positions(by: Mapping[str, Sequence[dict[str, Any]]]) -> Figure:
    curves = [(STYLES[name], curve[-1]["alpha_at"]) for name, curve in by.items() if len(curve) > 1]
    hint = f"now, where at least {FEWEST} rounds reached the position"
    return draw.by_position(curves, hint=hint, empty="Lines appear once both have learned a little.")


def _race(raced: Mapping[str, dict[str, Any]]) -> Figure:
    data = []
    for name, row in raced.items():
        look, words = STYLES[name], f"{speedup(row['speedup'])}, τ = {ratio(row['tau'])}<br>{interval_words(row)}"
        options: dict[str, Any] = {"customdata": [[row["race"], words]], "error_y": draw.whisker([row], "speedup")}
        data.append(draw.bars([look.label], [row["speedup"]], look.label, look.colour, HATCHES[look.dash], **options))
    return Figure(
        key="race",
        title="The race, before and after",
        hint="on held-out prompts; whiskers: 95 % interval",
        opens="a bar opens its race",
        data=data,
        layout=draw.speeds(xaxis=draw.CATEGORY),
        empty="Bars appear after the race.",
    )


def _row(twin: Twin, accepted: Sequence[Sequence[int]], guess: list[str]) -> dict[str, Any]:
    """A measurement of a drafter, from the accepted tokens of each round in each text."""
    rounds = [length for lengths in accepted for length in lengths]
    reached = [sum(length >= position for length in rounds) for position in range(GAMMA + 1)]
    losses, twin.losses = twin.losses, []
    return {
        "step": twin.trainer.step,
        "seconds": twin.trainer.seconds,
        "loss": sum(losses) / len(losses) if losses else None,
        "tau": _tau(accepted),
        "alpha_at": [after / count if count >= FEWEST else None for count, after in pairwise(reached)],
        "guess": guess,
    }


def _tau(accepted: Sequence[Sequence[int]]) -> float:
    """Tokens per round: the accepted ones, and the one that the target adds."""
    return 1 + sum(map(sum, accepted)) / sum(map(len, accepted))


def _change(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> dict[str, float]:
    """Ratio of τ after to before, with a 95 % interval over the common texts."""
    change = paired(*([(len(hits), len(hits) + sum(hits)) for hits in twin] for twin in (before, after)))
    return {"value": change.value, "low": change.low, "high": change.high}


def _files(folder: Path, name: str, settings: Learn) -> dict[str, bytes]:
    """The files of a drafter for ``--drafter``, with a README on how it was made."""
    card = f"""# A block drafter, trained in {settings.seconds} s

From random weights, by {LABELS[name]}, in the exploration
`python -m specdiff_core {shlex.join(command_words(settings))}`.
Race it: `python -m specdiff_core race --target assets/embedded/target --drafter ./THIS-FOLDER --prompt …`
"""
    return {"README.md": card.encode(), **{file.name: file.read_bytes() for file in sorted(folder.iterdir())}}


def with_drafters(engine: Engine, folders: Mapping[str, Path]) -> Engine:
    """An engine on the same target with additional drafters: name -> folder of a block drafter."""
    from specdiff_core.engine import Engine

    pair, like = engine.pair, engine.pair.spec.drafter("block")
    specs = [
        dataclasses.replace(like, name=name, label=LABELS[name], source=str(path)) for name, path in folders.items()
    ]
    named = dataclasses.replace(pair.spec, drafters=(*pair.spec.drafters, *specs))
    drafters = pair.drafters | {spec.name: pair.build(spec) for spec in specs}
    return Engine(dataclasses.replace(pair, spec=named, drafters=drafters))
