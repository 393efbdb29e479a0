"""``train mdlm``: the independent masked-diffusion drafter; it learns to denoise text, then to draft for its target.

Decoding keeps σ = 0, which makes the network's condition constant; so its modulation is trained through the biases
alone, and ``sigma_map`` stays as initialised.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.train.cards import Words
from specdiff_core.train.causal_target import heads_of
from specdiff_core.train.jobs import DrafterJob, DrafterSettings, fraction, option

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.models.mdlm import Mdlm
    from specdiff_core.train.trainer import Task


@dataclass(frozen=True, kw_only=True)
class MdlmSettings(DrafterSettings):
    whole: float = fraction(0.5, "fraction of the windows that are fully masked, as with T = 1")
    streak: float = option(0.0, "weight of streak distillation, on whole windows (arXiv 2511.00606)", low=0)
    layers: int = option(4, "layers of a new drafter", low=1)
    width: int = option(256, "width of a new drafter", low=1)
    length: int = option(256, "tokens per row that the target reads", low=32)
    parts: int = option(100, "not used: commands on older cards name it", hidden=True)

    subs_fraction: float = 0.12  # of the steps that go to denoising text, for a new drafter

    @property
    def rows(self) -> int:
        """That the target reads per step; many windows are cut from each."""
        return 8


class MdlmJob(DrafterJob[MdlmSettings]):
    """Two phases, each a run of its own in ``subs`` and ``draft``; a trained drafter goes straight to drafting."""

    name, settings_type = "mdlm", MdlmSettings
    about = "Train the independent masked-diffusion drafter (SpecDiff; with --streak, SpecDiff-2)."
    plain_words = Words(
        kind="mdlm",
        summary="A masked discrete diffusion model (MDLM, arXiv 2406.07524) that drafts for its target as in SpecDiff "
        "(arXiv 2408.05636): trained with the SUBS objective, then on windows of masks with the target's own "
        "distribution as labels, many of them in text that the target wrote. Format of `kuleshov-group/mdlm-owt`.",
        scores="tokens_per_round/",
        setting="γ = 8, T = 1",
    )
    streak_words = plain_words._replace(
        kind="mdlm_streak",
        summary="The masked discrete diffusion drafter aligned with its target by streak-distillation (SpecDiff-2, "
        "arXiv 2511.00606): fully masked windows of text that the target wrote, weighted by the probability that all "
        "tokens to the left are accepted. Format of `kuleshov-group/mdlm-owt`.",
    )
    model: Mdlm

    def begin(self) -> Mdlm:
        from specdiff_core.models.mdlm import load_mdlm

        settings = self.settings
        if settings.start:
            return freeze_constants(load_mdlm(settings.start).float())
        vocabulary, mask = len(self.data.tokenizer), self.data.mask
        return new_mdlm(vocabulary, mask, layers=settings.layers, width=settings.width, target=self.target)

    @property
    def subs_steps(self) -> int:
        """Steps of the first phase."""
        return 0 if self.settings.start else round(self.settings.steps * self.settings.subs_fraction)

    @property
    def phases(self) -> tuple[Path, ...]:
        both = (self.run_folder / "subs", self.run_folder / "draft")
        return both if self.subs_steps else both[1:]

    @property
    def words(self) -> Words:
        return self.streak_words if self.settings.streak else self.plain_words

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.mdlm_task import SubsTask
        from specdiff_core.train.trainer import train

        settings, first = self.settings, self.subs_steps
        drafting = self.task()  # made first: a text that is too short is reported before the long first phase
        if first:
            subs = SubsTask(self.model, self.data, settings)
            yield from train(subs, dataclasses.replace(settings, steps=first, decay_from=1.0), self.phases[0])
        yield from train(drafting, dataclasses.replace(settings, steps=settings.steps - first), self.phases[-1])

    def task(self) -> Task:
        from specdiff_core.train.mdlm_task import DraftTask

        return DraftTask(self.model, self.target, self.data, self.settings, written=self.written)

    def export(self) -> None:
        from specdiff_core.models.mdlm import save_mdlm

        save_mdlm(self.model, self.out)


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
    import torch

    from specdiff_core.models.mdlm import Mdlm, MdlmConfig

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
