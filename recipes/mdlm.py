"""The independent masked-diffusion drafter (SpecDiff): python recipes/mdlm.py --corpus DIR

A new one first learns to denoise text (MDLM, arXiv 2406.07524), then to draft for its target: windows of masks behind a
prefix, with the target's own distributions as labels.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from common import DrafterSession, DrafterSettings, generator, heads_of, run
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.models.mdlm import Mdlm, MdlmConfig, load_mdlm, save_mdlm
from specdiff_core.train.losses import subs_loss
from specdiff_core.train.mdlm import DraftTask, freeze_constants
from specdiff_core.train.settings import field

EPSILON = 1e-3
"""Of the log-linear schedule, and the smallest t that is drawn."""
DENOISING = 0.12
"""Fraction of the steps in which a new drafter learns to denoise text."""
ROWS = 8
"""Rows that the target reads per step; many windows are cut from each."""
SUMMARY = (
    "A masked discrete diffusion model (MDLM, arXiv 2406.07524) that drafts for its target as in SpecDiff (arXiv "
    "2408.05636): trained with the SUBS objective, then on windows of masks with the target's own distribution as "
    "labels, many of them in text that the target wrote. Format of `kuleshov-group/mdlm-owt`."
)


class Settings(DrafterSettings, frozen=True, kw_only=True):
    whole: Annotated[float, field("fraction of the windows that are fully masked, as with T = 1", ge=0, le=1)] = 0.5
    streak: Annotated[float, field("weight of streak distillation, on whole windows (arXiv 2511.00606)", ge=0)] = 0.0
    layers: Annotated[int, field("layers of a new drafter", ge=1)] = 4
    width: Annotated[int, field("width of a new drafter", ge=1)] = 256


def new_mdlm(
    vocab_size: int,
    mask_id: int,
    *,
    layers: int = 4,
    width: int = 256,
    context: int = 64,
    cond_dim: int = 32,
    target: LlamaForCausalLM | None = None,
) -> Mdlm:
    """An untrained drafter; every block starts as the identity, with open gates. If ``target`` is as wide, the drafter
    starts with its embedding and its head (with the final norm's weight)."""
    sizes: Any = {"hidden_dim": width, "cond_dim": cond_dim, "n_blocks": layers, "n_heads": heads_of(width)}
    config = MdlmConfig(vocab_size=vocab_size, model_length=context, **sizes, dropout=0.0, mask_token_id=mask_id)
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
            body.vocab_embed.embedding[mask_id].normal_(std=0.02)  # a masked slot must not begin by predicting itself
            body.output_layer.linear.weight.copy_(target.lm_head.weight * target.model.norm.weight)
    return freeze_constants(model)


def denoising_loss(model: Mdlm, rows: np.ndarray, rng: np.random.Generator) -> Tensor:
    """MDLM's own objective, nats per token: t is spread evenly over the batch (antithetic sampling), and each token is
    masked with probability (1 − ε)t."""
    t = EPSILON + (1 - EPSILON) * (np.arange(len(rows)) + rng.random(len(rows))) / len(rows)
    drawn = rng.random(rows.shape) < (1 - EPSILON) * t[:, None]
    ids, masked, times = (torch.as_tensor(part).to(model.device) for part in (rows, drawn, t.astype(np.float32)))
    with torch.autocast(ids.device.type, torch.bfloat16):
        logits = model(ids.masked_fill(masked, model.config.mask_id))
    return subs_loss(logits, ids, masked, times, model.config.mask_id)


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
    now = 0

    def draw() -> tuple[np.ndarray, int, np.random.Generator]:
        rng = generator(settings, now)
        return *session.draw_rows(written, rng, ROWS), rng

    weights: Any = {"whole": settings.whole, "streak": settings.streak, "compiled": settings.compile}
    task = DraftTask(model, target, draw, mask_id=text.mask, tokens=settings.batch_tokens, **weights)

    def loss(step: int) -> Tensor:
        nonlocal now
        now = step
        if step >= denoising:
            return task.loss()
        rng = generator(settings, step)
        return denoising_loss(model, text.draw_rows(rng, max(1, settings.batch_tokens // length), length), rng)

    return session.fit(model, loss, lambda folder: save_mdlm(model, folder), settings.batch_tokens, summary)


if __name__ == "__main__":
    sys.exit(run(main, Settings()))
