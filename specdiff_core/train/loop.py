"""The one training loop: takes a task, yields what happened. It knows optimisers and checkpoints, no model by name.

Everything it yields is also written to ``metrics.jsonl`` in the run folder, so that a run can be charted later.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from specdiff_core.schema.errors import ConfigError, SpecDiffError

MATRIX_LR, OTHER_LR = 0.02, 3e-3
"""Usual peak learning rates: Muon's, for hidden matrices; AdamW's, for embeddings, heads, norms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long and how fast to train. Learning rates follow warm-up, constant, linear decay to zero."""

    steps: int
    run: Path
    matrix_lr: float = MATRIX_LR
    other_lr: float = OTHER_LR
    warmup: int = 50
    decay_from: float = 0.5  # fraction of the steps after which the rates fall
    clip: float = 1.0
    eval_every: int = 200
    save_every: int = 100
    resume: bool = False
    score_first: bool = (
        False  # evaluate before the first step too: a run that begins with weights says how good they are
    )
    average: float = 0.0  # at the end, the share of the weights that the run began with (arXiv 2109.01903, eq. 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainStep:
    step: int
    loss: float  # of the task: nats per token, where it says nothing else
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


class Task(Protocol):
    """What a model must offer to be trained by :func:`train`."""

    tokens_per_step: int

    @property
    def model(self) -> nn.Module:
        """The module whose parameters are trained."""

    def loss(self) -> Tensor:
        """Draw the next batch and return its scalar loss (nats per token)."""

    def skip(self) -> None:
        """Draw the next batch and drop it: a resumed run goes on with the data it has not seen."""

    def evaluate(self) -> dict[str, float]:
        """Scores on held-out text."""


def rate_at(step: int, plan: Plan) -> float:
    """Learning-rate factor in [0, 1] at ``step``: linear warm-up, constant, linear decay over the last part."""
    begin = plan.decay_from * plan.steps
    decay = min(1.0, (plan.steps - step) / max(1.0, plan.steps - begin))
    return max(0.0, min(1.0, (step + 1) / max(1, plan.warmup), decay))


def build_optimizers(model: nn.Module, plan: Plan) -> list[torch.optim.Optimizer]:
    """Muon for the 2-D matrices between embedding and head, AdamW for everything else.

    Raises:
        ConfigError: this torch is older than 2.9, which brought ``torch.optim.Muon``.
    """
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(
            f"Training needs torch 2.9 or newer; this is {torch.__version__}.",
            hint="Install a newer torch. Decoding and the page work with torch 2.8.",
        )
    matrices, others = [], []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        outer = "embed" in name or "head" in name or "output_layer" in name
        (others if outer or parameter.ndim != 2 else matrices).append(parameter)
    return [
        torch.optim.Muon(matrices, lr=plan.matrix_lr, weight_decay=0.01, momentum=0.95, nesterov=True),
        torch.optim.AdamW(others, lr=plan.other_lr, betas=(0.9, 0.95), weight_decay=0.0),
    ]


def train(task: Task, plan: Plan) -> Iterator[TrainEvent]:
    """Run ``plan.steps`` optimiser steps of ``task``.

    Yields:
        a :class:`TrainStep` per step, an :class:`EvalStep` every ``eval_every`` steps and at the end (and before the
        first, where the plan asks for it), and a :class:`Saved` whenever ``checkpoint.pt`` was replaced (written beside
        it and renamed, never half a file).
    """
    plan.run.mkdir(parents=True, exist_ok=True)
    checkpoint = plan.run / "checkpoint.pt"
    optimizers = build_optimizers(task.model, plan)
    parameters = [p for p in task.model.parameters() if p.requires_grad]
    begun = [p.detach().clone() for p in parameters] if plan.average else []
    start, seconds, tokens = 0, 0.0, 0
    if plan.resume and checkpoint.exists():
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        task.model.load_state_dict(state["model"])
        for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        start, seconds, tokens = state["step"], state["seconds"], state["tokens"]
        for _ in range(start):
            task.skip()
    peaks = [[group["lr"] for group in o.param_groups] for o in build_optimizers(task.model, plan)]

    def save(step: int) -> Saved:
        partial = checkpoint.with_suffix(".partial")
        state = {
            "model": task.model.state_dict(),
            "optimizers": [o.state_dict() for o in optimizers],
            "step": step,
            "seconds": seconds,
            "tokens": tokens,
        }
        torch.save(state, partial)
        partial.replace(checkpoint)
        return Saved(step=step, path=str(checkpoint))

    with (plan.run / "metrics.jsonl").open("a") as log:

        def record(event: TrainEvent) -> TrainEvent:
            log.write(json.dumps({"kind": type(event).__name__, **dataclasses.asdict(event)}) + "\n")
            log.flush()
            return event

        if plan.score_first and not start:
            task.model.eval()
            with torch.no_grad():
                yield record(EvalStep(step=0, scores=task.evaluate(), seconds=0.0))
        for step in range(start, plan.steps):
            began = time.perf_counter()
            rate = rate_at(step, plan)
            for optimizer, groups in zip(optimizers, peaks, strict=True):
                for group, peak in zip(optimizer.param_groups, groups, strict=True):
                    group["lr"] = peak * rate
            task.model.train()
            loss = task.loss()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, plan.clip)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
            value = float(loss.detach())
            if value != value:
                raise SpecDiffError(
                    f"The loss became NaN at step {step}.",
                    hint="Begin again with a longer --warmup; --start DIR begins with weights that are good.",
                )
            took = time.perf_counter() - began
            seconds += took
            tokens += task.tokens_per_step
            yield record(
                TrainStep(
                    step=step + 1,
                    loss=value,
                    rate=rate,
                    tokens=tokens,
                    tokens_per_second=task.tokens_per_step / took,
                    seconds=seconds,
                )
            )
            if (step + 1) % plan.save_every == 0 or step + 1 == plan.steps:
                yield record(save(step + 1))
            if (step + 1) % plan.eval_every == 0 or step + 1 == plan.steps:
                task.model.eval()
                with torch.no_grad():
                    yield record(EvalStep(step=step + 1, scores=task.evaluate(), seconds=seconds))
        if plan.average:  # behind the last checkpoint: a longer run goes on from what was trained
            task.model.eval()
            with torch.no_grad():
                for parameter, first in zip(parameters, begun, strict=True):
                    parameter.lerp_(first, plan.average)
                yield record(EvalStep(step=plan.steps, scores=task.evaluate(), seconds=seconds))
