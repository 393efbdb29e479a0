"""Trains the independent masked-diffusion drafter: first as a denoiser of text (SUBS), then to draft for its target.

Knows the new network and the order of its two tasks; decoding and the page are far away. σ = 0 makes the network's
condition constant, so its modulation is trained through the biases alone and ``sigma_map`` stays as initialised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from specdiff_core.models.mdlm import Mdlm, save_mdlm
from specdiff_core.models.mdlm_config import MdlmConfig
from specdiff_core.train.corpus import Corpus
from specdiff_core.train.loop import Plan, TrainEvent, train
from specdiff_core.train.mdlm_tasks import DraftTask, SubsTask

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def new_mdlm(
    vocab_size: int,
    mask_id: int,
    *,
    blocks: int = 4,
    width: int = 256,
    context: int = 64,
    cond_dim: int = 32,
    target: LlamaForCausalLM | None = None,
) -> Mdlm:
    """An untrained drafter; every block starts as the identity, with open gates.

    Args:
        target: where its width is ``width`` too, its embedding and its head (with the final norm's weight) are the
            starting point of the drafter's own.
    """
    model = Mdlm(
        MdlmConfig(
            vocab_size=vocab_size,
            model_length=context,
            hidden_dim=width,
            cond_dim=cond_dim,
            n_blocks=blocks,
            n_heads=max(1, width // 64),
            dropout=0.0,
            mask_token_id=mask_id,
        )
    )
    body = model.backbone
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
            body.output_layer.linear.weight.copy_(target.get_output_embeddings().weight * target.model.norm.weight)
    return freeze_constants(model)


def freeze_constants(model: Mdlm) -> Mdlm:
    """Leave only the biases of the modulation trainable (see the module docstring)."""
    model.requires_grad_(True)
    model.backbone.sigma_map.requires_grad_(False)
    for layer in (*model.backbone.blocks, model.backbone.output_layer):
        layer.adaLN_modulation.weight.requires_grad_(False)
    return model


def train_mdlm(
    model: Mdlm,
    target: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    *,
    subs_fraction: float = 0.12,
    written: Sequence[np.ndarray] = (),
    tokens: int = 4096,
    rows: int = 8,
    row_length: int = 256,
    share: float = 0.5,
    whole: float = 0.5,
    streak: float = 0.0,
    prompts: int = 8,
    seed: int = 0,
    compile: bool = True,
) -> Iterator[TrainEvent]:
    """Both phases, each a run of :func:`specdiff_core.train.loop.train` in ``plan.run``/``subs`` and ``draft``.

    Args:
        plan: ``steps`` counts both phases; ``subs_fraction`` of them go to the first, without decay. With
            ``resume`` a finished first phase is only loaded.
        written: token arrays that the target wrote; ``share``, ``whole``, ``streak``: see :class:`DraftTask`.
    """
    first = round(plan.steps * subs_fraction)
    if first:
        subs = SubsTask(model, corpus, tokenizer, cache, tokens=tokens, seed=seed, compile=compile)
        yield from train(subs, dataclasses.replace(plan, steps=first, run=plan.run / "subs", decay_from=1.0))
    drafting = DraftTask(
        model,
        target,
        corpus,
        tokenizer,
        cache,
        written=written,
        tokens=tokens,
        rows=rows,
        row_length=row_length,
        share=share,
        whole=whole,
        streak=streak,
        prompts=prompts,
        seed=seed,
        compile=compile,
    )
    yield from train(drafting, dataclasses.replace(plan, steps=plan.steps - first, run=plan.run / "draft"))


def export(model: Mdlm, out: Path | str) -> Path:
    """Write the trained drafter in the released format (bf16 shards below 9 MB) and return its folder."""
    return save_mdlm(model, out)
