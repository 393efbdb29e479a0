"""A small drafter of the target's kind, token by token: python recipes/autoregressive.py --corpus DIR

It learns the target's next-token distributions (DistillSpec's forward KL, arXiv 2310.08461).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import torch
import torch.nn.functional as F
from common import DrafterModelSettings, DrafterSession, begin_llama, export_llama, generator, new_llama, run
from objectives import probs_without, soft_cross_entropy
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.schema.fields import ask
from specdiff_core.train.learners import autocast

SUMMARY = (
    "A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, "
    "2302.01318): a stock `LlamaForCausalLM` that learned the target's distributions (arXiv "
    "2310.08461), mostly on text the target wrote."
)


class Settings(DrafterModelSettings, frozen=True, kw_only=True):
    layers: Annotated[int, ask("", "layers of a new drafter", 1)] = 2


def new_drafter(target: LlamaForCausalLM, *, layers: int = 2) -> LlamaForCausalLM:
    """An untrained drafter as wide as its target, with its embedding, head and last norm."""
    config = target.config
    sizes = {"layers": layers, "width": config.hidden_size, "context": config.max_position_embeddings}
    model = new_llama(config.vocab_size, **sizes)
    model.model.embed_tokens.weight.data.copy_(target.get_input_embeddings().weight)
    model.model.norm.weight.data.copy_(target.model.norm.weight)
    return model


def soft_ce(model: LlamaForCausalLM, target: LlamaForCausalLM, ids: Tensor, mask: int) -> Tensor:
    """Soft cross-entropy with the target, nats per token of ``ids [B, L]``, in mixed precision."""
    with autocast(ids.device):
        with torch.no_grad():
            states = target.model(input_ids=ids, use_cache=False).last_hidden_state
            labels = probs_without(target.lm_head(states), mask)
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = F.linear(hidden, model.lm_head.weight)
    return soft_cross_entropy(logits, labels).mean()


def main(settings: Settings) -> Path:
    session = DrafterSession(settings, "autoregressive", gamma=4)
    model = begin_llama(session, lambda: new_drafter(session.target, layers=settings.layers))
    written = session.write_text().packed
    objective = torch.compile(soft_ce, dynamic=False) if settings.compile else soft_ce

    def loss(step: int) -> Tensor:
        rows, _ = session.draw_rows(written, generator(settings, step), settings.rows)
        value: Tensor = objective(model, session.target, torch.from_numpy(rows).to(session.device), session.text.mask)
        return value

    tokens = settings.rows * settings.length
    return session.fit(model, loss, lambda folder: export_llama(model, folder), tokens, SUMMARY)


if __name__ == "__main__":
    sys.exit(run(main, Settings()))
