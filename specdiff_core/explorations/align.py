"""Align it live (SpecDiff-2, arXiv 2511.00606): streak-distillation of a copy of the drafter, here, while you watch.

The target writes text after some prompts, the copy learns to be accepted in it, and τ is replayed on other prompts. The
loaded weights stay as they are, and the copy goes with the answer.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, OnPrompts, Report, Step, Stopped, command_of
from specdiff_core.explorations.fields import EMBEDDED, ask, enum
from specdiff_core.explorations.figures import Figure, axes, ratio, spread, times
from specdiff_core.explorations.runs import Runs
from specdiff_core.measure.prompts import ranks
from specdiff_core.measure.statistics import interval
from specdiff_core.schema.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from specdiff_core.engine import Engine
    from specdiff_core.models.mdlm import Mdlm
    from specdiff_core.train.mdlm import DraftTask

DRAFTERS = ("mdlm", "mdlm_streak")
ALIGNED = "aligned"
GAMMA = 8
"""Window of the rounds that are replayed."""
BATCH = 2048
"""Tokens of a step."""
ROWS, ROW = 8, 128
"""Rows of written text in a step, and their tokens."""
EVERY = 10
"""Steps between two replays."""
LOST = 2 / 3
"""A training has diverged if two replays running accept fewer drafted tokens than this share of those before it. The
loss seldom shows it: a step of Muon or AdamW is as long as its rate says, so what a drafter knows can be lost
while all its weights stay finite."""
FEWEST = 6
"""Texts with an interval: fewer all go one way by chance more often than a 95 % one may be wrong."""
COPIES, FREE, BATCH_OF_TEXTS = 8, 192, 32
"""Texts that the target writes to learn from, drawn at temperature 0.7: after each prompt, beside a greedy one, and
from nothing at all, because few prompts are soon known by heart; at most so many at once, that others wait for few."""


class Align(OnPrompts, frozen=True, kw_only=True):
    """Loss, τ on prompts that were not learnt from, and α by position, step by step; then a race, before and after."""

    name: ClassVar = "align"
    title: ClassVar = "Align it live"
    question: ClassVar = "What does streak-distillation gain in a minute?"
    columns: ClassVar = {
        "step": "optimiser steps",
        "seconds": "seconds of training, replays left out",
        "loss": "soft cross-entropy and streak-distillation, nats",
        "tau": "τ of greedy rounds at γ 8, T 1, replayed",
    }
    makes: ClassVar = "the aligned copy's weights"

    pair: EMBEDDED = "embedded"  # whose denoiser this project's own training made, and goes on with
    drafter: Annotated[
        str, ask("Drafter", "Whose copy learns: before or after the long training.", **enum(DRAFTERS))
    ] = "mdlm"
    seconds: Annotated[int, ask("Seconds of training", "The learning rate falls to 0 over them.", 5, 180)] = 60
    rate: Annotated[
        float, Meta(gt=0, le=2, title="Learning rate", description="Multiple of the usual one; good weights like less.")
    ] = 0.05
    tokens: Annotated[int, ask("New tokens", "Of each text to learn from, and of the race.", 32, 160)] = 96
    per_flavour: Annotated[int, ask("Prompts of each kind", "Every second one is not learnt from.", 2, 5)] = 4

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        import torch

        from specdiff_core.models.device import cpu_threads

        if self.drafter not in DRAFTERS:
            hint = f"Choose one of: {', '.join(DRAFTERS)}."
            raise ConfigError(f"The drafter {self.drafter!r} cannot be aligned here.", field="drafter", hint=hint)
        prompts, skipped = self.prompts(engine)
        learnt = [prompt for prompt, rank in zip(prompts, ranks(prompts), strict=True) if rank % 2 == 0]
        held_out = [prompt for prompt in prompts if prompt not in learnt]
        if not held_out:
            raise ConfigError("Alignment needs two prompts of a kind.", field="texts", hint="Give more prompts.")
        known = _Known(skipped, [prompt.id for prompt in learnt], [prompt.id for prompt in held_out])
        total = self.seconds + 2
        yield Step(1, total, "the target writes the texts to learn from", known.answer)
        writer, threads = _Writer(engine, self.seed), engine.quickest_threads()
        text: list[Text] = []
        together = BATCH_OF_TEXTS // (1 + COPIES)
        parts = [learnt[first : first + together] for first in range(0, len(learnt), together)]
        batches = [([prompt.prompt for prompt in part], (0.0, *[0.7] * COPIES)) for part in parts]
        batches += [([""], (0.7,) * BATCH_OF_TEXTS)] * (FREE // BATCH_OF_TEXTS)
        for begun, degrees in batches:
            if stopped():
                return
            with cpu_threads(threads):
                text += writer.write(begun, self.tokens, degrees)
            yield Step(1, total, f"the target writes: {len(text)} texts so far", known.answer)
        with cpu_threads(threads):
            replays = writer.write([prompt.prompt for prompt in held_out], self.tokens, (0.0,))
        drafter: Any = engine.drafter(self.drafter)
        task, view = _task(self, engine, writer, text), drafter.view

        def replay() -> list[list[int]]:
            with torch.no_grad(), cpu_threads(threads):
                return _replay(task, replays, view)

        def made() -> dict[str, bytes]:
            return {} if known.diverged else _files(task.model, self)

        known.replayed(0, 0.0, replay())
        yield Step(2, total, "τ before", known.answer)
        for seconds, doing in self._train(task, replay, known, stopped, threads):
            yield Step(2 + min(self.seconds - 1, int(seconds)), total, doing, known.answer, made)
            if stopped():
                return
        if known.diverged:
            return
        aligned = with_drafter(engine, self.drafter, task.model)
        base = dataclasses.replace(self.base, gamma=GAMMA)
        lanes = {name: dataclasses.replace(base, drafter=name) for name in (self.drafter, ALIGNED)}
        runs = Runs(aligned, base, lanes, held_out, stopped)
        for _, _, name in runs.fill():
            known.races = {key: runs.row(key) for key in lanes if key in runs.metrics}, runs.races
            yield Step(total - 1, total, f"the race: {name}", known.answer, made)
        yield Step(total, total, "done", known.answer, made)

    def _train(
        self, task: DraftTask, replay: Callable[[], list[list[int]]], known: _Known, stopped: Stopped, threads: int
    ) -> Iterator[tuple[float, str]]:
        """Optimiser steps until the time is over or training has diverged, which ends them with its curve: a loss or
        gradient is not finite, or too little is accepted (:data:`LOST`)."""
        import torch

        from specdiff_core.models.device import cpu_threads
        from specdiff_core.train.trainer import build_optimizers

        optimizers = build_optimizers(task.model, self.rate)
        groups = [(group, group["lr"]) for optimizer in optimizers for group in optimizer.param_groups]
        parameters = [p for p in task.model.parameters() if p.requires_grad]
        spent, step = 0.0, 0
        while spent < self.seconds and not stopped() and not known.diverged:
            began, step = time.monotonic(), step + 1
            rate = min(1.0, step / 10) * max(0.0, 1 - spent / self.seconds)
            for group, peak in groups:
                group["lr"] = peak * rate
            task.model.train()
            with cpu_threads(threads):  # not while it rests: others decode then
                loss = task.loss()
                torch.autograd.backward(loss)
                norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=False)
            spent += time.monotonic() - began
            known.learnt(step, spent, float(loss.detach()) if norm.isfinite() else math.nan)
            if known.diverged:
                break
            if step % EVERY == 0 or spent >= self.seconds:
                known.replayed(step, spent, replay())
            yield spent, f"step {step}, loss {known.rows[-1]['loss']:.2f}"

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        taus = [row for row in rows if row["tau"] is not None]
        answer, notes, change = "", list[str](), facts.get("change")
        raced = [(name, row) for name, row in facts.get("race", {}).items() if row.get("speedup")]
        if len(taus) > 1:
            first, last = taus[0], taus[-1]
            bounds = "" if not change else f", interval of the ratio {ratio(change['low'])} to {ratio(change['high'])}"
            answer = (
                f"After {last['seconds']:.0f} s of training τ went from {ratio(first['tau'])} to "
                f"{ratio(last['tau'])} on {len(facts['held_out'])} held-out prompts{bounds}."
            )
            notes.append(
                f"A copy of {self.drafter} learnt in {last['step']} steps from texts that the target wrote after "
                f"{len(facts['learnt'])} prompts. The weights that others use did not change."
            )
        if change and not facts["diverged"] and change["low"] <= 1 <= change["high"]:
            notes.append("The interval holds 1: the change may be chance.")
        if change and not facts["diverged"] and change["high"] < 1:
            notes.append("So short a training can also harm: try a lower learning rate or more seconds.")
        if len(raced) > 1:
            before, after = (times(row["speedup"]) for _, row in raced)
            notes.append(f"In the race the drafter reaches {before} before and {after} after.")
        if facts.get("diverged"):
            why = "the loss became NaN" if rows[-1]["loss"] is None else "twice running it lost a third of its tokens"
            notes.append(f"Training diverged and was stopped: {why}. Try a lower learning rate.")
        figures = [_learning(rows, taus), _positions(facts.get("alphas", [])), _race(raced)]
        titles = {name: f"{self.drafter}, aligned here" if name == ALIGNED else self.drafter for name, _ in raced}
        return Report(answer=answer, notes=notes, figures=figures, titles=titles)


def _learning(rows: Sequence[dict[str, Any]], taus: Sequence[dict[str, Any]]) -> Figure:
    losses = [row for row in rows if row["loss"] is not None]
    smooth = [sum(row["loss"] for row in losses[max(0, i - 9) : i + 1]) / min(i + 1, 10) for i in range(len(losses))]
    seconds = [row["seconds"] for row in losses]
    name, hover = "loss, mean of ten steps (right)", "%{x:.0f} s: loss %{y:.2f}"
    loss = draw.trace(name, seconds, smooth, "@muted", dash="dot", width=1.4, hover=hover, yaxis="y2")
    seconds, known, hover = [row["seconds"] for row in taus], [row["tau"] for row in taus], "%{x:.0f} s: τ = %{y:.2f}"
    tau = draw.trace(
        "τ on held-out prompts", seconds, known, "@draft", dash="solid", mark="circle", width=2.4, hover=hover
    )
    second = {"title": "loss", "showgrid": False, "overlaying": "y", "side": "right"}
    right = {"yaxis2": second} if losses else {}
    return Figure(
        key="learning",
        title="Learning to be accepted",
        hint="τ is replayed on held-out prompts; the loss is that of streak-distillation",
        wide=True,
        data=[*([loss] if losses else []), *([tau] if taus else [])],
        layout=axes("seconds of training", "τ at γ 8, tokens per round", showlegend=True, **right),
        empty="The curves begin when the target has written the texts.",
    )


def _positions(alphas: Sequence[dict[str, Any]]) -> Figure:
    points = [
        {"when": name, "place": place, "alpha": alpha}
        for name, one in zip(("before", f"after {alphas[-1]['step']} steps" if alphas else ""), alphas, strict=False)
        for place, alpha in enumerate(one["alpha_at"], start=1)
    ]
    return Figure(
        key="positions",
        title="Acceptance by position",
        hint="before and now",
        data=draw.lines(points, "when", "place", "alpha", lambda row: f"{row['when']}: {ratio(row['alpha'])}"),
        layout=axes(
            "position in the window", "α<sub>j</sub>, where it was reached", yaxis={"range": [0, 1.04]}, showlegend=True
        ),
        empty="Lines when τ has been replayed once.",
    )


def _race(raced: Sequence[tuple[str, dict[str, Any]]]) -> Figure:
    data = []
    for name, row in raced:
        named, colour, hatch = ("after", "@draft", "") if name == ALIGNED else ("before", "@muted", "/")
        words = f"{times(row['speedup'])}, τ = {ratio(row['tau'])}<br>{spread(row)}"
        own = {"customdata": [[row["race"], words]], "error_y": draw.whisker([row], "speedup")}
        data.append(draw.bars([named], [row["speedup"]], named, colour, hatch, **own))
    return Figure(
        key="race",
        title="The race, before and after",
        hint="decoded on held-out prompts; whiskers: 95 % interval",
        opens="a bar opens its race",
        data=data,
        layout=draw.speeds(xaxis=draw.CATEGORY),
        empty="Bars when the race is run: both drafters decode the held-out prompts.",
    )


@dataclass(frozen=True, slots=True)
class Text:
    """One text of the target."""

    ids: Tensor  # [n]
    prompt: int  # of them


class _Known:
    """What is known so far."""

    def __init__(self, skipped: list[str], learnt: list[str], held_out: list[str]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.races: tuple[dict[str, dict[str, Any]], dict[str, bytes]] = ({}, {})
        self._facts = {"skipped": skipped, "learnt": learnt, "held_out": held_out}
        self._alphas: list[dict[str, Any]] = []
        self._replays: list[list[list[int]]] = []  # the first and the last: text -> accepted tokens of its rounds
        self._kept: list[float] = []  # accepted tokens of a draft, on average, in each replay
        self.diverged = False

    def learnt(self, step: int, seconds: float, loss: float) -> None:
        self.diverged = not math.isfinite(loss)
        self.rows.append({"step": step, "seconds": seconds, "loss": None if self.diverged else loss, "tau": None})

    def replayed(self, step: int, seconds: float, by_text: list[list[int]]) -> None:
        if not self.rows or self.rows[-1]["step"] != step:
            self.rows.append({"step": step, "seconds": seconds, "loss": None, "tau": None})
        self._replays = [*self._replays[:1], by_text]
        accepted = [kept for own in by_text for kept in own]
        self._kept.append(sum(accepted) / len(accepted))
        self.rows[-1]["tau"] = 1 + self._kept[-1]
        self.diverged = len(self._kept) > 2 and max(self._kept[-2:]) < LOST * self._kept[0]
        reached = [sum(kept >= place for kept in accepted) for place in range(GAMMA + 1)]
        alphas = [reached[place + 1] / reached[place] if reached[place] else None for place in range(GAMMA)]
        self._alphas.append({"step": step, "alpha_at": alphas})

    def answer(self) -> Answer:
        rows, races = self.races
        ends = [self._alphas[0], self._alphas[-1]] if self._alphas else []
        facts = {**self._facts, "alphas": ends, "change": self._change(), "race": rows, "diverged": self.diverged}
        return Answer(rows=list(self.rows), facts=facts, races=races)

    def _change(self) -> dict[str, float] | None:
        """τ now over τ before, with a 95 % bootstrap interval over the texts, of which both replay the same."""
        if len(self._replays) < 2 or len(self._replays[0]) < FEWEST:
            return None
        before, after = (
            {str(text): (len(own), len(own) + sum(own)) for text, own in enumerate(replay)} for replay in self._replays
        )
        ratio = interval(before, after, {"all": list(before)})["all"]
        return {"value": ratio.value, "low": ratio.low, "high": ratio.high}


class _Writer:
    """The target, writing many texts at once; its stock module, and the ids that training needs."""

    def __init__(self, engine: Engine, seed: int) -> None:
        import torch

        self.target: Any = engine.stock("target")
        self.end = int(engine.pair.tokenizer.eos_token_id)
        (self.mask,) = engine.pair.spec.suppress
        self._encode, self._writer = engine.encode, engine.target
        self._random = torch.Generator(self.target.device).manual_seed(seed)

    def write(self, prompts: Sequence[str], tokens: int, temperatures: Sequence[float]) -> list[Text]:
        """A text for each prompt and temperature, all at once; one that loops ends early."""
        from specdiff_core.train.answers import Prompt, Writing, write_together

        encoded = [Prompt("", "", tuple(self._encode(text)) if text else (self.end,)) for text in prompts]
        asked = [(prompt, degree) for prompt in encoded for degree in temperatures]
        writing = Writing(layers=(), ends=(), new_tokens=tokens, slots=len(asked))
        written = write_together(self._writer, asked, writing, self._random, lambda: True)
        return [Text(one.tokens.long().to(self.target.device), len(one.prompt.tokens)) for one in written]


def _task(choice: Align, engine: Engine, writer: _Writer, texts: Sequence[Text]) -> DraftTask:
    """Streak-distillation on those texts, of a copy of the drafter."""
    import numpy as np
    import torch

    from specdiff_core.models.mdlm import load_mdlm
    from specdiff_core.train.mdlm import DraftTask, freeze_constants

    spec = engine.pair.spec.drafter(choice.drafter)
    model = freeze_constants(load_mdlm(spec.source, spec.revision).float()).to(engine.pair.placement.device)
    written = torch.cat([text.ids for text in texts]).cpu().numpy()
    rng = np.random.default_rng(choice.seed)

    def draw() -> tuple[np.ndarray, int, np.random.Generator]:
        starts = rng.integers(0, len(written) - ROW + 1, ROWS)
        return written[starts[:, None] + np.arange(ROW)].astype(np.int64), ROWS, rng

    return DraftTask(model, writer.target, draw, mask_id=writer.mask, tokens=BATCH, whole=1.0, streak=1.0)


def _files(model: Mdlm, choice: Align) -> dict[str, bytes]:
    """The copy in the released format, as :func:`~specdiff_core.models.mdlm.load_mdlm` reads it, and its history."""
    from specdiff_core.models.mdlm import save_mdlm

    command = shlex.join(command_of(choice))
    card = f"""# {choice.drafter}, aligned for {choice.seconds} s

A copy of the drafter `{choice.drafter}` of SpecDiff Lab, made by `python -m specdiff_core {command}`.
Decode with it in Python:

    from specdiff_core.explorations.align import ALIGNED, with_drafter
    from specdiff_core.models.mdlm import load_mdlm
    engine = with_drafter(engine, "{choice.drafter}", load_mdlm("THIS FOLDER").float())
    engine.decode(prompt, DecodeConfig(drafter=ALIGNED))
"""
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(save_mdlm(model, Path(folder) / "weights").iterdir())
        return {"README.md": card.encode(), **{file.name: file.read_bytes() for file in files}}


def _replay(task: DraftTask, texts: Sequence[Text], view: int) -> list[list[int]]:
    """By text, how many tokens each round of greedy decoding would keep: it is known beforehand, so none is decoded."""
    task.model.eval()
    propose = task.proposer(view)
    places, accepted = [text.prompt for text in texts], [list[int]() for _ in texts]
    while running := [i for i, text in enumerate(texts) if places[i] + GAMMA <= len(text.ids)]:
        drafts = propose([texts[i].ids[: places[i]] for i in running])
        for i, draft in zip(running, drafts, strict=True):
            wanted = texts[i].ids[places[i] : places[i] + GAMMA]
            kept = int((draft == wanted).long().cumprod(-1).sum())
            accepted[i].append(kept)
            places[i] += kept + 1
    return accepted


def with_drafter(engine: Engine, like: str, model: Mdlm) -> Engine:
    """An engine on the same target with a further drafter, :data:`ALIGNED`: ``model``, used as the drafter ``like``."""
    from specdiff_core.drafters.masked_diffusion import MaskedDiffusionDrafter
    from specdiff_core.engine import Engine

    pair = engine.pair
    spec = dataclasses.replace(pair.spec.drafter(like), name=ALIGNED, label="Aligned here", source="", revision="")
    drafter = MaskedDiffusionDrafter(
        ALIGNED,
        copy.deepcopy(model).to(pair.placement.device, pair.placement.dtype).prepare(),
        vocab_size=engine.target.vocab_size,
        view=spec.context or model.config.model_length,
        forbidden=pair.spec.suppress,
        graphs=pair.placement.graphs,
    )
    named = dataclasses.replace(pair.spec, drafters=(*pair.spec.drafters, spec))
    return Engine(dataclasses.replace(pair, spec=named, drafters={**pair.drafters, ALIGNED: drafter}))
