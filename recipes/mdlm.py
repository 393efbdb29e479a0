"""The independent masked-diffusion drafter (SpecDiff): python recipes/mdlm.py --corpus DIR

A new one first learns to denoise text (MDLM, arXiv 2406.07524), then to draft for its target:
windows of masks behind a prefix, with the target's own distributions as labels.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from common import DrafterModelSettings, DrafterSession, generator, heads_of, run
from objectives import cross_entropy_streak, position_weights, probs_without, soft_cross_entropy
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.models.files import write_folder
from specdiff_core.models.mdlm import Mdlm, MdlmConfig, load_mdlm
from specdiff_core.schema.fields import ask
from specdiff_core.train.learners import autocast
from specdiff_core.train.losses import weighted_mean

EPSILON = 1e-3
"""The ε of the log-linear schedule, and the smallest t that is drawn."""
DENOISING = 0.12
"""Fraction of the steps in which a new drafter learns to denoise text."""
SLOTS = 16
"""The largest window that is cut; smaller ones fill the last slots."""
DECAY = 4.0
"""Decay length of the position weights, in positions."""
ROWS = 8
"""Rows that the target reads per step; many windows are cut from each."""
CONTEXT = 64
"""Tokens that a new drafter reads."""
SUMMARY = (
    "A masked discrete diffusion model (MDLM, arXiv 2406.07524) that drafts for its target as in "
    "SpecDiff (arXiv 2408.05636): trained with the SUBS objective, then on windows of masks with "
    "the target's own distribution as labels, many of them in text that the target wrote. Format "
    "of `kuleshov-group/mdlm-owt`."
)


class Settings(DrafterModelSettings, frozen=True, kw_only=True):
    whole: Annotated[float, ask("", "fraction of the windows that are fully masked, as with T = 1", 0, 1)] = 0.5
    streak: Annotated[float, ask("", "weight of streak distillation, of whole windows (2511.00606)", 0, 100)] = 0.0
    layers: Annotated[int, ask("", "layers of a new drafter", 1)] = 4
    width: Annotated[int, ask("", "width of a new drafter", 1)] = 256


def new_mdlm(
    vocab_size: int,
    mask_id: int,
    *,
    layers: int,
    width: int,
    cond_dim: int = 32,
    target: LlamaForCausalLM | None = None,
) -> Mdlm:
    """An untrained drafter; every block starts as the identity, with open gates. If ``target`` is
    as wide, the drafter starts with its embedding and its head (with the final norm's weight)."""
    sizes: Any = {"hidden_dim": width, "cond_dim": cond_dim, "n_blocks": layers, "n_heads": heads_of(width)}
    config = MdlmConfig(vocab_size=vocab_size, model_length=CONTEXT, **sizes, dropout=0.0, mask_token_id=mask_id)
    model = Mdlm(config)
    body: Any = model.backbone  # the layers of a ModuleList have no type
    with torch.no_grad():
        for block in body.blocks:
            for zeroed in (block.attn_out.weight, block.mlp[2].weight, block.mlp[2].bias):
                zeroed.zero_()
            block.adaLN_modulation.weight.zero_()
            gates = block.adaLN_modulation.bias.zero_().view(6, width)  # shift, scale, gate, twice
            gates[2].fill_(1.0)
            gates[5].fill_(1.0)
        for parameter in (body.output_layer.adaLN_modulation.weight, body.output_layer.adaLN_modulation.bias):
            parameter.zero_()
        body.output_layer.linear.bias.zero_()
        if target is not None and target.config.hidden_size == width:
            body.vocab_embed.embedding.copy_(target.get_input_embeddings().weight)
            body.vocab_embed.embedding[mask_id].normal_(std=0.02)  # a mask must not predict itself
            body.output_layer.linear.weight.copy_(target.lm_head.weight * target.model.norm.weight)
    return freeze_constants(model)


def freeze_constants(model: Mdlm) -> Mdlm:
    """Leave only the biases of the modulation trainable and ``sigma_map`` as initialised: decoding
    keeps σ = 0, which makes the network's condition constant."""
    model.requires_grad_(True)
    model.backbone.sigma_map.requires_grad_(False)
    layers = model.backbone
    modulations = [*(block.adaLN_modulation for block in layers.blocks), layers.output_layer.adaLN_modulation]
    for modulation in modulations:
        modulation.weight.requires_grad_(False)
    return model


def subs_loss(logits: Tensor, ids: Tensor, masked: Tensor, t: Tensor, mask_id: int) -> Tensor:
    """MDLM's continuous-time bound (arXiv 2406.07524): masked cross-entropy, weight 1/t for 1 − α_t ≈ t.

    SUBS: the mask's logit is removed before normalising; unmasked positions are carried over and cost nothing.

    Args:
        logits: ``[B, L, V]`` raw.
        ids: ``[B, L]`` the clean tokens.
        masked: ``[B, L]`` bool, which of them the network did not see.
        t: ``[B]`` diffusion time in (0, 1].

    Returns:
        nats per token, a scalar.
    """
    allowed = logits.float().index_fill(-1, torch.tensor([mask_id], device=logits.device), -1e6)
    nats = F.cross_entropy(allowed.flatten(0, 1), ids.flatten(), reduction="none").view_as(ids)
    return (nats * masked / t[:, None]).sum() / ids.numel()


def denoising_loss(model: Mdlm, rows: np.ndarray, rng: np.random.Generator) -> Tensor:
    """MDLM's own objective, nats per token: t is spread evenly over the batch (antithetic
    sampling), and each token is masked with probability (1 − ε)t."""
    t = EPSILON + (1 - EPSILON) * (np.arange(len(rows)) + rng.random(len(rows))) / len(rows)
    drawn = rng.random(rows.shape) < (1 - EPSILON) * t[:, None]
    ids, masked, times = (torch.as_tensor(array).to(model.device) for array in (rows, drawn, t.astype(np.float32)))
    with autocast(ids.device):
        logits = model(ids.masked_fill(masked, model.config.mask_id))
    return subs_loss(logits, ids, masked, times, model.config.mask_id)


@dataclass(frozen=True, slots=True)
class Windows:
    """N drafting problems of one length L: a clean prefix and a window, padded on the left."""

    ids: np.ndarray  # [N, L] int64, the mask id where masked
    padding: np.ndarray  # [N] int64, leading positions without meaning
    masked: np.ndarray  # [N, SLOTS] bool, of the last SLOTS positions
    rank: np.ndarray  # [N, SLOTS] int64, position in the window; negative before it
    row: np.ndarray  # [N] int64, the row each problem was cut from
    position: np.ndarray  # [N, SLOTS] int64, positions of the last SLOTS in that row (clipped at 0)


def draw_windows(
    rows: np.ndarray, rng: np.random.Generator, *, count: int, length: int, mask_id: int, whole: float = 0.5
) -> Windows:
    """Cut ``count`` windows out of ``rows [R, S]``.

    Window sizes are uniform from 4 to :data:`SLOTS`; half of the contexts are as long as fits, the
    others uniform; a fraction ``whole`` of the windows is fully masked, the others at a uniform
    mask ratio (at least one mask).
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


class DraftTask:
    """Soft cross-entropy to a frozen target's distribution in windows of masks, in mixed precision. The
    target reads each row once; many windows are cut from it."""

    def __init__(self, model: Mdlm, target: LlamaForCausalLM, mask_id: int, settings: Settings) -> None:
        self.model, self.mask_id, self.settings = model, mask_id, settings
        self.target = target.train(False).requires_grad_(False)
        self._objective = torch.compile(self.objective, dynamic=False) if settings.compile else self.objective

    def loss(self, rows: np.ndarray, by_target: int, rng: np.random.Generator) -> Tensor:
        """Nats per masked slot (weighted) of windows in ``rows [R, S]``; the target wrote the last ``by_target``."""
        longest = self.model.config.model_length
        length = int(rng.choice([length for length in (longest // 2, longest) if length > SLOTS]))
        plan: Any = {"count": max(1, self.settings.batch_tokens // length), "whole": self.settings.whole}
        windows = draw_windows(rows, rng, length=length, mask_id=self.mask_id, **plan)
        return self._objective(*self.inputs(rows, windows, by_target))

    def inputs(self, rows: np.ndarray, windows: Windows, by_target: int) -> tuple[Tensor, ...]:
        """Ids, padding, labels, weights, true tokens, slots inside their windows, and which windows
        are chains: fully masked, in one of the last ``by_target`` rows, which the target wrote."""
        inside = windows.rank >= 0
        parts = (
            windows.ids,
            windows.padding,
            self.labels(rows, windows),
            position_weights(torch.from_numpy(windows.rank), DECAY) * torch.from_numpy(windows.masked),
            rows[windows.row[:, None], windows.position],
            inside,
            (windows.masked == inside).all(-1) & (windows.row >= len(rows) - by_target),
        )
        return tuple(torch.as_tensor(array).to(self.model.device) for array in parts)

    @torch.no_grad()
    def labels(self, rows: np.ndarray, windows: Windows) -> Tensor:
        """The target's distribution at the last slots, ``[N, SLOTS, V]``: logits at t − 1."""
        ids = torch.as_tensor(rows).to(self.model.device)
        with autocast(ids.device):
            states = self.target.model(input_ids=ids, use_cache=False).last_hidden_state
            behind = states[windows.row[:, None], (windows.position - 1).clip(0)]
            return probs_without(self.target.lm_head(behind), self.mask_id)

    def objective(self, *inputs: Tensor) -> Tensor:
        ids, padding, labels, weights, truth, inside, chains = inputs
        with autocast(ids.device):
            logits: Tensor = self.model(ids, first=ids.shape[1] - SLOTS, padding=padding)
        loss = weighted_mean(soft_cross_entropy(logits, labels), weights)
        if not self.settings.streak:
            return loss
        mask = torch.tensor([self.mask_id], device=ids.device)
        log_q = logits.float().index_fill(-1, mask, -torch.inf).log_softmax(-1).gather(-1, truth[..., None])[..., 0]
        # Slots before a window are certain; windows that aren't chains don't count.
        known = chains[:, None].expand_as(inside)
        streak = cross_entropy_streak(log_q * inside, known) * len(ids) / chains.sum().clamp_min(1)
        return loss + self.settings.streak * streak


def main(settings: Settings, kind: str = "mdlm", summary: str = SUMMARY) -> Path:
    session = DrafterSession(settings, kind, gamma=8)
    text, target = session.text, session.target
    torch.manual_seed(settings.seed)
    if settings.start:
        model = freeze_constants(load_mdlm(settings.start).float())
    else:
        sizes = {"layers": settings.layers, "width": settings.width}
        model = new_mdlm(len(text.tokenizer), text.mask, **sizes, target=target)
    model.to(session.device)
    written = session.write_text().packed
    denoising = 0 if settings.start else round(settings.steps * DENOISING)
    length = model.config.model_length
    task = DraftTask(model, target, text.mask, settings)

    def loss(step: int) -> Tensor:
        rng = generator(settings, step)
        if step >= denoising:
            return task.loss(*session.draw_rows(written, rng, ROWS), rng)
        return denoising_loss(model, text.draw_rows(rng, max(1, settings.batch_tokens // length), length), rng)

    def save(folder: Path) -> Path:
        return write_folder(folder, model.config.to_json(), model.state_dict())

    return session.fit(model, loss, save, settings.batch_tokens, summary)


if __name__ == "__main__":
    sys.exit(run(main, Settings()))
