"""``train mdlm``: the independent masked-diffusion drafter; it learns to denoise text, then to draft for its target.

Decoding keeps σ = 0, which makes the network's condition constant; so its modulation is trained through the biases
alone, and ``sigma_map`` stays as initialised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.models.mdlm import Mdlm, MdlmConfig, load_mdlm, save_mdlm
from specdiff_core.train import losses
from specdiff_core.train.causal_target import heads_of
from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.jobs import DrafterJob
from specdiff_core.train.rows import SLOTS, PackedRows, Windows, draw_windows, first_rows
from specdiff_core.train.settings import MdlmSettings
from specdiff_core.train.task import DrafterTask, Propose, Task
from specdiff_core.train.trainer import train

DECAY = 4.0
"""Of the position weights, in positions."""

EPSILON = 1e-3
"""Of the log-linear schedule, and the smallest t that is drawn."""

GAMMA = 8
"""Draft length of the simulated rounds."""


class MdlmJob(DrafterJob):
    """Two phases, each a run of its own in ``subs`` and ``draft``; a trained drafter goes straight to drafting."""

    settings: MdlmSettings
    model: Mdlm
    measured = "γ = 8, T = 1"

    def begin(self) -> Mdlm:
        settings = self.settings
        if settings.start:
            return freeze_constants(load_mdlm(settings.start).float())
        vocabulary, mask = len(self.data.tokenizer), self.data.mask
        return new_mdlm(vocabulary, mask, layers=settings.layers, width=settings.width, target=self.target)

    @property
    def kind(self) -> str:
        return "mdlm_streak" if self.settings.streak else "mdlm"

    @property
    def subs_steps(self) -> int:
        """Steps of the first phase."""
        return 0 if self.settings.start else round(self.settings.steps * self.settings.subs_fraction)

    @property
    def phases(self) -> tuple[Path, ...]:
        both = (self.run_folder / "subs", self.run_folder / "draft")
        return both if self.subs_steps else both[1:]

    def events(self) -> Iterator[Any]:
        settings, first = self.settings, self.subs_steps
        drafting = self.task()  # made first: a text that is too short is reported before the long first phase
        if first:
            subs = SubsTask(self.model, self.data, settings)
            yield from train(subs, dataclasses.replace(settings, steps=first, decay_from=1.0), self.phases[0])
        yield from train(drafting, dataclasses.replace(settings, steps=settings.steps - first), self.phases[-1])

    def task(self) -> Task:
        return DraftTask(self.model, self.target, self.data, self.settings, written=self.written)

    def export(self) -> None:
        save_mdlm(self.model, self.out)


class SubsTask(Task):
    """Phase one: MDLM's own objective on packed corpus rows."""

    model: Mdlm

    def __init__(self, model: Mdlm, data: EncodedCorpus, settings: MdlmSettings) -> None:
        length = model.config.model_length
        rows = PackedRows(data, settings.seed, rows=max(1, settings.batch_tokens // length), length=length)
        super().__init__(model, settings, rows, data.held_out())

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Rows, masks and t: t is spread evenly over the batch (MDLM's antithetic sampling), and each token is masked
        with probability (1 − ε)t."""
        count = len(rows)
        t = EPSILON + (1 - EPSILON) * (np.arange(count) + rng.random(count)) / count
        masked = rng.random(rows.shape) < (1 - EPSILON) * t[:, None]
        return self.on_device(rows, masked, t.astype(np.float32))

    def objective(self, *inputs: Any) -> Tensor:
        ids, masked, t = inputs
        mask_id = self.model.config.mask_id
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits = self.model(ids.masked_fill(masked, mask_id))
        return losses.subs_loss(logits, ids, masked, t, mask_id)

    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """``subs``: the bound in nats per token, on fixed rows with fixed masks."""
        batch = self.inputs(first_rows(held_out, self.rows.length, 64), np.random.default_rng(0))
        return {"subs": float(self.objective(*batch))}


class DraftTask(DrafterTask):
    """Phase two: windows of masks after a clean prefix, soft cross-entropy to the frozen target's distribution.

    The target reads each row once; many windows are cut from it.
    """

    model: Mdlm
    settings: MdlmSettings

    @property
    def tokens_per_step(self) -> int:
        return self.settings.batch_tokens

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        return self.inputs_of(rows, self.draw_windows(rows, rng))

    def draw_windows(self, rows: np.ndarray, rng: np.random.Generator) -> Windows:
        """As many windows of one length as make up the tokens of a step."""
        longest, settings = self.model.config.model_length, self.settings
        length = int(rng.choice([length for length in (longest // 2, longest) if length > SLOTS]))
        count = max(1, settings.batch_tokens // length)
        return draw_windows(rows, rng, count=count, length=length, mask_id=self.mask, whole=settings.whole)

    def inputs_of(self, rows: np.ndarray, windows: Windows) -> tuple[Tensor, ...]:
        """Ids, padding, labels, weights, true tokens, slots inside their windows, and which windows are chains: fully
        masked, in text that the target wrote."""
        inside = windows.rank >= 0
        return self.on_device(
            windows.ids,
            windows.padding,
            self.labels(rows, windows),
            losses.position_weights(torch.from_numpy(windows.rank), DECAY) * torch.from_numpy(windows.masked),
            rows[windows.row[:, None], windows.position],
            inside,
            (windows.masked == inside).all(-1) & (windows.row >= len(rows) - self.rows.own),
        )

    @torch.no_grad()
    def labels(self, rows: np.ndarray, windows: Windows) -> Tensor:
        """The target's distribution of the token at each of the last slots, ``[N, SLOTS, V]``: its logits at t − 1."""
        (ids,) = self.on_device(rows)
        with torch.autocast(ids.device.type, torch.bfloat16):
            states = self.target.model(input_ids=ids, use_cache=False).last_hidden_state
            return self.target_probs(states[windows.row[:, None], (windows.position - 1).clip(0)])

    def _logits(self, ids: Tensor, padding: Tensor, slots: int = SLOTS) -> Tensor:
        """``[N, slots, V]`` of the last slots."""
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits: Tensor = self.model(ids, first=ids.shape[1] - slots, padding=padding)
        return logits

    def objective(self, *inputs: Any) -> Tensor:
        """The loss, nats per masked slot (weighted)."""
        ids, padding, labels, weights, truth, inside, chains = inputs
        logits = self._logits(ids, padding)
        loss = losses.weighted_mean(losses.soft_cross_entropy(logits, labels), weights)
        if not self.settings.streak:
            return loss
        mask = torch.tensor([self.mask], device=ids.device)
        log_q = logits.float().index_fill(-1, mask, -torch.inf).log_softmax(-1).gather(-1, truth[..., None])[..., 0]
        # Slots before a window are certain; windows that are no chain do not count.
        known = chains[:, None].expand_as(inside)
        streak: Tensor = losses.cross_entropy_streak(log_q * inside, known) * len(ids) / chains.sum().clamp_min(1)
        return loss + self.settings.streak * streak

    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """``soft_ce``: nats on fully masked windows of 8 of corpus text. ``tokens_per_round``: simulated τ at γ = 8;
        ``tokens_per_round@half``: the same with the drafter's view cut to half."""
        longest, rows = self.model.config.model_length, first_rows(held_out, self.rows.length, 8)
        fixed, sizes = np.random.default_rng(0), (GAMMA, GAMMA)
        windows = draw_windows(rows, fixed, count=64, length=longest, mask_id=self.mask, sizes=sizes, whole=1.0)
        ids, padding, labels, weights, *_ = self.inputs_of(rows, windows)
        nats = losses.soft_cross_entropy(self._logits(ids, padding), labels)
        views = {"tokens_per_round": longest, "tokens_per_round@half": max(16, longest // 2)}
        taus = {kind: self.tau(flavour, self.proposer(view), GAMMA) for kind, view in views.items()}
        return {"soft_ce": float(losses.weighted_mean(nats, weights)), **taus}

    def proposer(self, view: int) -> Propose:
        """Drafts by the last ``view`` positions, masks included, in one pass."""

        def propose(prefixes: list[Tensor]) -> Tensor:
            ids = torch.full((len(prefixes), view), self.mask, device=prefixes[0].device)
            padding = torch.zeros(len(prefixes), dtype=torch.long, device=ids.device)
            for index, prefix in enumerate(prefixes):
                kept = prefix[-(view - GAMMA) :]
                padding[index] = view - GAMMA - len(kept)
                ids[index, view - GAMMA - len(kept) : view - GAMMA] = kept
            logits = self._logits(ids, padding, GAMMA).float()
            logits[..., self.mask] = -torch.inf
            return logits.argmax(-1)

        return propose


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


def freeze_constants(model: Mdlm) -> Mdlm:
    """Leave only the biases of the modulation trainable (see the module docstring)."""
    model.requires_grad_(True)
    model.backbone.sigma_map.requires_grad_(False)
    layers = model.backbone
    modulations = [*(block.adaLN_modulation for block in layers.blocks), layers.output_layer.adaLN_modulation]
    for modulation in modulations:
        modulation.weight.requires_grad_(False)
    return model
