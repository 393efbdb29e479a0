"""Trains the small autoregressive drafter: a stock Llama that learns its target's distributions (DistillSpec).

Knows the new network and its loss (arXiv 2310.08461, forward KL); decoding is far away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.train.corpus import Corpus
from specdiff_core.train.loop import Plan, TrainEvent, train
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.sequential import SequentialTask
from specdiff_core.train.target import new_target

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def new_autoregressive(target: LlamaForCausalLM, *, layers: int = 2) -> LlamaForCausalLM:
    """An untrained drafter as wide as its target: it begins with the target's embedding, head and last norm."""
    config = target.config
    model = new_target(
        config.vocab_size, layers=layers, width=config.hidden_size, context=config.max_position_embeddings
    )
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(target.get_input_embeddings().weight)
        model.model.norm.weight.copy_(target.model.norm.weight)
    return model


class AutoregressiveTask(SequentialTask):
    """Soft cross-entropy on the frozen target's next-token distributions; see :class:`SequentialTask`."""

    model: LlamaForCausalLM

    def __init__(
        self,
        model: LlamaForCausalLM,
        target: LlamaForCausalLM,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        **options: Any,
    ) -> None:
        super().__init__(model, target, corpus, tokenizer, cache, **options)
        attention = "eager" if model.device.type == "cpu" and self._length < 512 else "sdpa"  # train/target.py
        model.set_attn_implementation(attention)

    def nats(self, ids: Tensor, *chance: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            with torch.no_grad():
                told = self.told(self._target.model(input_ids=ids, use_cache=False).last_hidden_state)
            hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = F.linear(hidden, self.model.lm_head.weight)
        return soft_cross_entropy(logits, told).mean()

    def soft_ce(self, ids: Tensor) -> Tensor:
        return self.nats(ids)

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every = torch.arange(len(ids), device=ids.device)
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits: Tensor = self.model.lm_head(hidden[every, ends - 1])
        return logits


def train_autoregressive(
    model: LlamaForCausalLM,
    target: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    **options: Any,
) -> Iterator[TrainEvent]:
    """Train ``model`` to say what ``target`` would; ``options`` are those of :class:`SequentialTask`."""
    yield from train(AutoregressiveTask(model, target, corpus, tokenizer, cache, **options), plan)
