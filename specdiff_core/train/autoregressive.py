"""``train autoregressive``: a small model of the target's kind that drafts one token after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdiff_core.train.cards import Words
from specdiff_core.train.causal_target import export_causal, new_target
from specdiff_core.train.jobs import DrafterJob, DrafterSettings, load_llama, option

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.train.trainer import Task


@dataclass(frozen=True, kw_only=True)
class AutoregressiveSettings(DrafterSettings):
    layers: int = option(2, "layers of a new drafter", low=1)


class AutoregressiveJob(DrafterJob[AutoregressiveSettings]):
    """The small autoregressive drafter."""

    name, settings_type = "autoregressive", AutoregressiveSettings
    about = "Train a small drafter of the target's kind, token by token."
    words = Words(
        kind="autoregressive",
        summary="A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, 2302.01318): a "
        "stock `LlamaForCausalLM` that learned the target's distributions (arXiv 2310.08461), mostly on text the "
        "target wrote.",
        scores="tokens_per_round/",
        setting="γ = 4",
    )
    model: LlamaForCausalLM

    def begin(self) -> LlamaForCausalLM:
        if self.settings.start:
            return load_llama(self.settings.start, self.device, self.name).requires_grad_(True)
        return new_autoregressive(self.target, layers=self.settings.layers)

    def task(self) -> Task:
        from specdiff_core.train.next_token_task import AutoregressiveTask, attention_for

        self.model.set_attn_implementation(attention_for(self.device, self.settings.length))
        return AutoregressiveTask(self.model, self.target, self.data, self.settings, written=self.written)

    def export(self) -> None:
        export_causal(self.model, self.out)


def new_autoregressive(target: LlamaForCausalLM, *, layers: int = 2) -> LlamaForCausalLM:
    """An untrained drafter as wide as its target: it begins with the target's embedding, head and last norm."""
    config = target.config
    model = new_target(
        config.vocab_size, layers=layers, width=config.hidden_size, context=config.max_position_embeddings
    )
    model.model.embed_tokens.weight.data.copy_(target.get_input_embeddings().weight)
    model.model.norm.weight.data.copy_(target.model.norm.weight)
    return model
