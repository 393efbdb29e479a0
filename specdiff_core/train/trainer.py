"""Optimisers, steps, log and checkpoint of a model in training."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.writing import replacing
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.train.curve import METRICS
from specdiff_core.train.muon import Muon

LogLine = dict[str, Any]
"""A line of a run's log: its ``kind`` (begun, answers, step, measured, saved) and facts."""

MATRIX_LR, OTHER_LR = 0.02, 3e-3
"""Usual peak learning rates: Muon's, for hidden matrices; AdamW's, for embeddings, heads, norms."""


def build_optimizers(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the 2-D matrices between embedding and head, AdamW for everything else."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            outer = "embed" in name or "head" in name or "output_layer" in name
            (others if outer or parameter.ndim != 2 else matrices).append(parameter)
    muon = [Muon(matrices, lr=MATRIX_LR * rate)] if matrices else []
    return [*muon, torch.optim.AdamW(others, lr=OTHER_LR * rate, betas=(0.9, 0.95), weight_decay=0.0)]


class Trainer:
    """Trains ``model``, with its log and its checkpoint in the folder ``run``.

    Args:
        rate: multiple of the usual learning rates.

    Attributes:
        step, seconds, tokens: of training so far, in all sessions together.
    """

    def __init__(self, model: nn.Module, run: Path, *, rate: float = 1.0) -> None:
        self.model, self.run, self.checkpoint = model, run, run / "checkpoint.pt"
        self.step, self.seconds, self.tokens = 0, 0.0, 0
        self._device = next(model.parameters()).device
        self._optimizers = build_optimizers(model, rate)
        self._peaks = [group["lr"] for group in self._groups]
        self._parameters = [weight for weight in model.parameters() if weight.requires_grad]

    @property
    def _groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self._optimizers for group in optimizer.param_groups]

    def learn(self, loss: Callable[[], tuple[Tensor, int]], rate: float) -> LogLine:
        """One step, at ``rate`` times the peak learning rates; ``loss``: its value and tokens.

        Raises:
            SpecDiffError: the loss became NaN.
        """
        began = now(self._device)
        for group, peak in zip(self._groups, self._peaks, strict=True):
            group["lr"] = peak * rate
        self.model.train()
        value, tokens = loss()
        scalar = float(value.detach())
        if scalar != scalar:
            what = f"The loss became NaN at step {self.step}."
            raise SpecDiffError(what, hint="Resume from the last checkpoint with a smaller --rate.")
        torch.autograd.backward(value)
        torch.nn.utils.clip_grad_norm_(self._parameters, 1.0)
        for optimizer in self._optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        took = now(self._device) - began
        self.step, self.seconds, self.tokens = self.step + 1, self.seconds + took, self.tokens + tokens
        speed = tokens / max(1e-9, took)
        return self.log("step", loss=scalar, rate=rate, tokens=self.tokens, tokens_per_second=speed)

    def log(self, kind: str, **facts: Any) -> LogLine:
        """Append an event to the run's log."""
        return log(self.run, {"kind": kind, "step": self.step, "seconds": self.seconds, **facts})

    def save(self, **extra: Any) -> LogLine:
        """Replace the checkpoint by the state of the training, with ``extra`` in it."""
        optimizers = [optimizer.state_dict() for optimizer in self._optimizers]
        state = {"model": self.model.state_dict(), "optimizers": optimizers, **extra}
        with replacing(self.checkpoint) as fresh:
            torch.save({**state, "step": self.step, "seconds": self.seconds, "tokens": self.tokens}, fresh)
        return self.log("saved", tokens=self.tokens)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a result of :func:`read_checkpoint`."""
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds, self.tokens = state["step"], state["seconds"], state["tokens"]


def now(device: torch.device) -> float:
    """Seconds of computing: wall time on a GPU, otherwise CPU time per thread, without waiting."""
    return time.perf_counter() if device.type == "cuda" else time.process_time() / torch.get_num_threads()


def log(run: Path, event: LogLine) -> LogLine:
    """Append an event to the log of a run."""
    run.mkdir(parents=True, exist_ok=True)
    with (run / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")
    return event


def read_checkpoint(run: Path) -> dict[str, Any] | None:
    """The checkpoint of :meth:`Trainer.save` in a run's folder, or None.

    Raises:
        SpecDiffError: it is damaged.
    """
    path = run / "checkpoint.pt"
    if not path.exists():
        return None
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises nearly anything for a damaged file
        what = f"The checkpoint {short_path(path)} is damaged ({type(error).__name__})."
        raise SpecDiffError(what, hint="Remove it to begin again; the answers are kept.") from error
    return state
