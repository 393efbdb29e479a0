"""``train autoregressive``: a small model of the target's kind that drafts one token after the other.

And what every drafter that predicts the next token shares in training (:class:`SequentialTask`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.train.causal_target import export_causal, new_target
from specdiff_core.train.jobs import DrafterJob, load_llama
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.rows import first_rows
from specdiff_core.train.settings import AutoregressiveSettings
from specdiff_core.train.task import DrafterTask, Task, attention_for

GAMMA = 4
"""Draft length of the simulated rounds."""


class SequentialTask(DrafterTask):
    """A drafter that predicts one token after the other."""

    @abstractmethod
    def soft_ce(self, ids: Tensor) -> Tensor:
        """Soft cross-entropy of its next token with the target's, nats per token of ``ids [B, L]``."""

    @abstractmethod
    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        """``[n, V]`` of the token behind each row of ``ids [n, L]``, right-padded, row i being ``ends[i]`` long. What
        stands before ``first[i]`` was committed; the rest is its own draft."""

    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """``soft_ce`` in nats on corpus text, and ``tokens_per_round``: τ of simulated greedy rounds of γ = 4."""
        (rows,) = self.on_device(first_rows(held_out, self.rows.length, 8))
        tau = self.tau(flavour, self.propose, GAMMA)
        return {"soft_ce": float(self.soft_ce(rows)), "tokens_per_round": tau}

    def propose(self, prefixes: list[Tensor]) -> Tensor:
        """Greedy continuations ``[n, γ]`` of prefixes of different lengths, padded on the right."""
        first = torch.tensor([len(prefix) for prefix in prefixes], device=prefixes[0].device)
        ids = torch.zeros(len(prefixes), int(first.max()) + GAMMA, dtype=torch.long, device=first.device)
        for row, prefix in enumerate(prefixes):
            ids[row, : len(prefix)] = prefix
        every = torch.arange(len(prefixes), device=first.device)
        for step in range(GAMMA):
            with torch.autocast(ids.device.type, torch.bfloat16):
                logits = self.next_logits(ids, first, first + step).float()
            logits[:, self.mask] = -torch.inf
            ids[every, first + step] = logits.argmax(-1)
        return torch.stack([ids[row, end : end + GAMMA] for row, end in enumerate(first.tolist())])


class AutoregressiveTask(SequentialTask):
    """Soft cross-entropy of a small Llama to the target's next-token distributions (DistillSpec's forward KL, arXiv
    2310.08461)."""

    model: LlamaForCausalLM

    def objective(self, *inputs: Any) -> Tensor:
        return self.soft_ce(inputs[0])

    def soft_ce(self, ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            with torch.no_grad():
                labels = self.target_probs(self.target.model(input_ids=ids, use_cache=False).last_hidden_state)
            hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = F.linear(hidden, self.model.lm_head.weight)
        return soft_cross_entropy(logits, labels).mean()

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every = torch.arange(len(ids), device=ids.device)
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits: Tensor = self.model.lm_head(hidden[every, ends - 1])
        return logits


class AutoregressiveJob(DrafterJob):
    """The small autoregressive drafter."""

    settings: AutoregressiveSettings
    model: LlamaForCausalLM

    def begin(self) -> LlamaForCausalLM:
        if self.settings.start:
            return load_llama(self.settings.start, self.device, self.kind).requires_grad_(True)
        return new_autoregressive(self.target, layers=self.settings.layers)

    def task(self) -> Task:
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
