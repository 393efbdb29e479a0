"""``train eagle``: EAGLE's head, which continues its target's features for the target's own output head to read."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

from specdiff_core.models.eagle import EagleHead, load_eagle, save_eagle
from specdiff_core.train.autoregressive import SequentialTask
from specdiff_core.train.jobs import DrafterJob
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.settings import EagleSettings
from specdiff_core.train.task import Task

PASSES = 3
"""Times that EAGLE's head reads a row: first the target's features, then, in part, its own (EAGLE-3's training-time
test, arXiv 2503.01840, with a random mixture in place of its mask)."""

OWN = 0.5
"""Share of a later pass's features that are the head's own."""

FEATURE = 0.5
"""Weight of the smooth L1 distance between features, beside 1 for the cross-entropy (EAGLE: 1 and 0.1)."""


class EagleTask(SequentialTask):
    """Soft cross-entropy to the target and smooth L1 to its features (EAGLE, arXiv 2401.15077), the mean over
    :data:`PASSES` readings of each row: its loss is not a plain number of nats."""

    model: EagleHead

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Beside the rows: which features of the later passes are the head's own, ``[P − 1, B, L − 2, 1]`` bool."""
        return self.on_device(rows, rng.random((PASSES - 1, len(rows), rows.shape[1] - 2, 1)) < OWN)

    def objective(self, *inputs: Any) -> Tensor:
        ids, own_features = inputs
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, labels = self._read(ids)
            embeddings = self.target.get_input_embeddings()(ids[:, 1:])
            given = found = states[:, :-1]
            loss = torch.zeros((), device=ids.device)
            for own in (None, *own_features):
                if own is not None:  # a feature that the head predicted belongs one token later
                    given = torch.cat([states[:, :1], torch.where(own, found[:, :-1], states[:, 1:-1])], 1)
                found = self.model(embeddings, given)
                logits = F.linear(found, self.target.lm_head.weight)
                loss = loss + soft_cross_entropy(logits, labels).mean()
                loss = loss + FEATURE * F.smooth_l1_loss(found.float(), states[:, 1:].float())
        return loss / PASSES

    @torch.no_grad()
    def _read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The target's features of ``ids``, ``[B, L, W]``; its distributions after tokens 2 .. L, ``[B, L − 1, V]``."""
        states = self.target.model(input_ids=ids, use_cache=False).last_hidden_state
        return states, self.target_probs(states[:, 1:])

    def soft_ce(self, ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, labels = self._read(ids)
            found = self.model(self.target.get_input_embeddings()(ids[:, 1:]), states[:, :-1])
            return soft_cross_entropy(F.linear(found, self.target.lm_head.weight), labels).mean()

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every, drafted = torch.arange(len(ids), device=ids.device), int((ends - first).max())
        states = self.target.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        embeddings = self.target.get_input_embeddings()(ids[:, 1:])
        # The target has read all but the anchor, at first − 1; from there on the features are the head's own.
        for depth in range(drafted + 1):
            found = self.model(embeddings, states)
            place = first - 2 + depth  # entry of the anchor, then of each drafted token
            states = states.clone()
            states[every, (place + 1).clamp_max(states.shape[1] - 1)] = found[every, place].to(states.dtype)
        logits: Tensor = self.target.lm_head(found[every, ends - 2])
        return logits


class EagleJob(DrafterJob):
    """One layer over the target's features."""

    settings: EagleSettings
    model: EagleHead

    def begin(self) -> EagleHead:
        if self.settings.start:
            return load_eagle(self.settings.start).requires_grad_(True)
        return new_eagle(self.target, seed=self.settings.seed)

    def task(self) -> Task:
        return EagleTask(self.model, self.target, self.data, self.settings, written=self.written)

    def export(self) -> None:
        save_eagle(self.model, self.out)


def new_eagle(target: LlamaForCausalLM, *, seed: int = 0) -> EagleHead:
    """An untrained head for ``target``; it begins by repeating the feature that it is given."""
    values = {**target.config.to_dict(), "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle"]}
    config = LlamaConfig(**{name: value for name, value in values.items() if name not in {"layer_types", "dtype"}})
    head, generator = EagleHead(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=config.initializer_range, generator=generator)
        width = config.hidden_size
        head.fc.weight[:, :width] *= 0.1
        head.fc.weight[:, width:] = torch.eye(width)
        for last in (head.layers[0].self_attn.o_proj, head.layers[0].mlp.down_proj):
            last.weight.mul_(0.1)
    return head
