"""The training loop: takes a task, does the steps, and yields what happened.

Everything it yields is also written to ``metrics.jsonl`` in the run's folder, from which the curve is drawn.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.train.curve import METRICS
from specdiff_core.train.settings import ModelSettings
from specdiff_core.train.task import Task

MATRIX_LR, OTHER_LR = 0.02, 3e-3
"""Usual peak learning rates: Muon's, for hidden matrices; AdamW's, for embeddings, heads, norms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStep:
    step: int
    loss: float  # in nats per token, unless the task says otherwise
    rate: float  # fraction of the peak learning rates
    tokens: int  # seen so far
    tokens_per_second: float
    seconds: float  # wall clock of all sessions together


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalStep:
    step: int
    scores: dict[str, float]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    step: int
    path: str


TrainEvent = TrainStep | EvalStep | Saved


def rate_at(step: int, settings: ModelSettings) -> float:
    """Learning-rate factor in [0, 1] at ``step``: linear warm-up, constant, linear decay over the last part."""
    begin = settings.decay_from * settings.steps
    decay = min(1.0, (settings.steps - step) / max(1.0, settings.steps - begin))
    return max(0.0, min(1.0, (step + 1) / settings.warmup, decay))


def build_optimizers(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the 2-D matrices between embedding and head, AdamW for everything else.

    Raises:
        ConfigError: this torch is older than 2.9, which brought ``torch.optim.Muon``.
    """
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(
            f"Training needs torch 2.9 or newer; this is {torch.__version__}.",
            hint="Install a newer torch. Decoding and the page work with torch 2.8.",
        )
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outer = "embed" in name or "head" in name or "output_layer" in name
            (others if outer or parameter.ndim != 2 else matrices).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=MATRIX_LR * rate, weight_decay=0.01, momentum=0.95, nesterov=True),
        torch.optim.AdamW(others, lr=OTHER_LR * rate, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def train(task: Task, settings: ModelSettings, run: Path) -> Iterator[TrainEvent]:
    """Run ``settings.steps`` optimiser steps of ``task``, with checkpoints and a log in the folder ``run``.

    Yields:
        a :class:`TrainStep` per step; an :class:`EvalStep` every ``eval_every`` steps and at the end, and where the run
        begins with trained weights, before the first step too; a :class:`Saved` whenever ``checkpoint.pt`` was replaced
        (written under another name and renamed, so never half a file).

    Raises:
        SpecDiffError: the loss became NaN.
    """
    run.mkdir(parents=True, exist_ok=True)
    with (run / METRICS).open("a", encoding="utf-8") as log:
        for event in _steps(task, settings, run / "checkpoint.pt"):
            log.write(json.dumps({"kind": type(event).__name__, **dataclasses.asdict(event)}) + "\n")
            log.flush()
            yield event


def _steps(task: Task, settings: ModelSettings, checkpoint: Path) -> Iterator[TrainEvent]:
    optimizers = build_optimizers(task.model, settings.rate)
    peaks = [group["lr"] for optimizer in optimizers for group in optimizer.param_groups]
    parameters = [p for p in task.model.parameters() if p.requires_grad]
    first_weights = [p.detach().clone() for p in parameters] if settings.average else []
    start, seconds, tokens, total = 0, 0.0, 0, settings.steps
    if settings.resume and checkpoint.exists():
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        task.model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        start, seconds, tokens = state["step"], state["seconds"], state["tokens"]
        for _ in range(start):
            task.skip()

    groups = [group for optimizer in optimizers for group in optimizer.param_groups]

    def evaluate(step: int) -> EvalStep:
        task.model.eval()
        with torch.no_grad():
            return EvalStep(step=step, scores=task.evaluate(), seconds=seconds)

    if settings.start is not None and not start:
        yield evaluate(0)
    for step in range(start, total):
        began = time.perf_counter()
        rate = rate_at(step, settings)
        for group, peak in zip(groups, peaks, strict=True):
            group["lr"] = peak * rate
        task.model.train()
        loss = task.loss()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        value = float(loss.detach())
        if value != value:
            raise SpecDiffError(
                f"The loss became NaN at step {step}.",
                hint="Begin again with a longer --warmup; --start DIR begins with weights that are good.",
            )
        took, done = time.perf_counter() - began, step + 1
        seconds, tokens = seconds + took, tokens + task.tokens_per_step
        speed = task.tokens_per_step / took
        yield TrainStep(step=done, loss=value, rate=rate, tokens=tokens, tokens_per_second=speed, seconds=seconds)
        if done % settings.save_every == 0 or done == total:
            state = {"model": task.model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}
            partial = checkpoint.with_suffix(".partial")
            torch.save({**state, "step": done, "seconds": seconds, "tokens": tokens}, partial)
            partial.replace(checkpoint)
            yield Saved(step=done, path=str(checkpoint))
        if done % settings.eval_every == 0 or done == total:
            yield evaluate(done)
    if settings.average:  # after the last checkpoint: a longer run continues from the weights that were trained
        with torch.no_grad():
            for parameter, first in zip(parameters, first_weights, strict=True):
                parameter.lerp_(first, settings.average)
        yield evaluate(total)
