"""Teaches the independent masked-diffusion drafter what its target would write, in windows of masks behind a prefix
(SpecDiff, arXiv 2408.05636; with streak distillation SpecDiff-2, arXiv 2511.00606).

Decoding keeps σ = 0, which makes the network's condition constant; so its modulation is trained through the biases
alone, and ``sigma_map`` stays as initialised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.models.kernels import computes_bf16
from specdiff_core.models.mdlm import Mdlm
from specdiff_core.train import losses

SLOTS = 16
"""The largest window that is cut; smaller ones fill the last slots."""
DECAY = 4.0
"""Of the position weights, in positions."""
GAMMA = 8
"""Draft length of :meth:`DraftTask.proposer`."""

Draw = Callable[[], tuple[np.ndarray, int, np.random.Generator]]
"""The next rows ``[R, S]`` int64, how many of them (the last ones) the target wrote, and what draws the windows."""


@dataclass(frozen=True, slots=True)
class Windows:
    """N drafting problems of one length L: a clean prefix and a window at its right end, padded on the left."""

    ids: np.ndarray  # [N, L] int64, the mask id where masked
    padding: np.ndarray  # [N] int64, leading positions without meaning
    masked: np.ndarray  # [N, SLOTS] bool, of the last SLOTS positions
    rank: np.ndarray  # [N, SLOTS] int64, place in the window; negative before it
    row: np.ndarray  # [N] int64, the row each problem was cut from
    position: np.ndarray  # [N, SLOTS] int64, where in that row the last SLOTS positions lie (clipped at 0)


def draw_windows(
    rows: np.ndarray, rng: np.random.Generator, *, count: int, length: int, mask_id: int, whole: float = 0.5
) -> Windows:
    """Cut ``count`` windows out of ``rows [R, S]``.

    Window sizes are uniform from 4 to :data:`SLOTS`; half of the contexts are as long as fits, the others uniform; a
    fraction ``whole`` of the windows is fully masked, the others at a uniform mask ratio (at least one mask).
    """
    size = rng.integers(4, SLOTS + 1, count)
    row = np.arange(count) % len(rows)
    end = rng.integers(size + 1, rows.shape[1] + 1)  # exclusive; at least one token of context
    room = np.minimum(end, length) - size
    context = np.where(rng.random(count) < 0.5, room, rng.integers(1, room + 1))
    columns = end[:, None] - length + np.arange(length)
    ids = rows[row[:, None], columns.clip(0)].astype(np.int64)
    rank = np.arange(SLOTS) - (SLOTS - size[:, None])
    ratio = np.where(rng.random(count) < whole, 1.0, rng.random(count))
    masked = (rank >= 0) & (rng.random((count, SLOTS)) < ratio[:, None])
    masked[~masked.any(-1), -1] = True
    ids[:, -SLOTS:][masked] = mask_id
    return Windows(ids, length - context - size, masked, rank, row, columns[:, -SLOTS:].clip(0))


def autocast(device: torch.device) -> torch.autocast:
    """bf16 where the device computes it; elsewhere it would be slower than fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda" or computes_bf16())


class DraftTask:
    """Soft cross-entropy to a frozen target's distribution in windows of masks, bf16 autocast. The target reads each
    row once; many windows are cut from it.

    Args:
        tokens: of the windows of a step.
        whole: fraction of the windows that are fully masked, as with T = 1.
        streak: weight of streak distillation, on whole windows of text that the target wrote.
        compiled: whether to use torch.compile.
    """

    def __init__(
        self,
        model: Mdlm,
        target: LlamaForCausalLM,
        draw: Draw,
        *,
        mask_id: int,
        tokens: int,
        whole: float = 0.5,
        streak: float = 0.0,
        compiled: bool = False,
    ) -> None:
        self.model, self.mask_id, self.tokens = model, mask_id, tokens
        self.target = target.train(False).requires_grad_(False)
        self.whole, self.streak, self._draw = whole, streak, draw
        self._objective = torch.compile(self.objective, dynamic=False) if compiled else self.objective

    def loss(self) -> Tensor:
        """Of the next rows: nats per masked slot (weighted)."""
        rows, own, rng = self._draw()
        longest = self.model.config.model_length
        length = int(rng.choice([length for length in (longest // 2, longest) if length > SLOTS]))
        count = max(1, self.tokens // length)
        windows = draw_windows(rows, rng, count=count, length=length, mask_id=self.mask_id, whole=self.whole)
        return self._objective(*self.inputs(rows, windows, own))

    def inputs(self, rows: np.ndarray, windows: Windows, own: int) -> tuple[Tensor, ...]:
        """Ids, padding, labels, weights, true tokens, slots inside their windows, and which windows are chains: fully
        masked, in one of the last ``own`` rows, which the target wrote."""
        inside = windows.rank >= 0
        parts = (
            windows.ids,
            windows.padding,
            self.labels(rows, windows),
            losses.position_weights(torch.from_numpy(windows.rank), DECAY) * torch.from_numpy(windows.masked),
            rows[windows.row[:, None], windows.position],
            inside,
            (windows.masked == inside).all(-1) & (windows.row >= len(rows) - own),
        )
        return tuple(torch.as_tensor(part).to(self.model.device) for part in parts)

    @torch.no_grad()
    def labels(self, rows: np.ndarray, windows: Windows) -> Tensor:
        """The target's distribution of the token at each of the last slots, ``[N, SLOTS, V]``: its logits at t − 1."""
        ids = torch.as_tensor(rows).to(self.model.device)
        with autocast(ids.device):
            states = self.target.model(input_ids=ids, use_cache=False).last_hidden_state
            behind = states[windows.row[:, None], (windows.position - 1).clip(0)]
            return losses.probs_without(self.target.lm_head(behind), self.mask_id)

    def _logits(self, ids: Tensor, padding: Tensor, slots: int = SLOTS) -> Tensor:
        """``[N, slots, V]`` of the last slots."""
        with autocast(ids.device):
            logits: Tensor = self.model(ids, first=ids.shape[1] - slots, padding=padding)
        return logits

    def objective(self, *inputs: Tensor) -> Tensor:
        """The loss of what :meth:`inputs` returned."""
        ids, padding, labels, weights, truth, inside, chains = inputs
        logits = self._logits(ids, padding)
        loss = losses.weighted_mean(losses.soft_cross_entropy(logits, labels), weights)
        if not self.streak:
            return loss
        mask = torch.tensor([self.mask_id], device=ids.device)
        log_q = logits.float().index_fill(-1, mask, -torch.inf).log_softmax(-1).gather(-1, truth[..., None])[..., 0]
        # Slots before a window are certain; windows that are no chain do not count.
        known = chains[:, None].expand_as(inside)
        streak = losses.cross_entropy_streak(log_q * inside, known) * len(ids) / chains.sum().clamp_min(1)
        return loss + self.streak * streak

    def proposer(self, view: int) -> Callable[[list[Tensor]], Tensor]:
        """Greedy drafts ``[n, γ]`` behind prefixes of different lengths, by the last ``view`` positions, masks
        included, in one pass."""

        def propose(prefixes: list[Tensor]) -> Tensor:
            ids = torch.full((len(prefixes), view), self.mask_id, device=prefixes[0].device)
            padding = torch.zeros(len(prefixes), dtype=torch.long, device=ids.device)
            for index, prefix in enumerate(prefixes):
                kept = prefix[-(view - GAMMA) :]
                padding[index] = view - GAMMA - len(kept)
                ids[index, view - GAMMA - len(kept) : view - GAMMA] = kept
            logits = self._logits(ids, padding, GAMMA).float()
            logits[..., self.mask_id] = -torch.inf
            return logits.argmax(-1)

        return propose


def freeze_constants(model: Mdlm) -> Mdlm:
    """Leave only the biases of the modulation trainable (see the module docstring)."""
    model.requires_grad_(True)
    model.backbone.sigma_map.requires_grad_(False)
    layers = model.backbone
    modulations = [*(block.adaLN_modulation for block in layers.blocks), layers.output_layer.adaLN_modulation]
    for modulation in modulations:
        modulation.weight.requires_grad_(False)
    return model
