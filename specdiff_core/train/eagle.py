"""Trains EAGLE's head: what the target's next feature will be, read by the target's own output head.

Knows the unrolled passes and their loss; the network is :mod:`specdiff_core.models.eagle`, decoding is far away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.models.eagle import EagleHead
from specdiff_core.train.corpus import Corpus
from specdiff_core.train.loop import Plan, TrainEvent, train
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.sequential import SequentialTask

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

PASSES = 3
"""Times that the head reads a row: first the target's features, then, in part, its own (EAGLE-3's training-time test,
arXiv 2503.01840, with a random mixture in place of its mask)."""
OWN = 0.5  # share of a later pass's features that are the head's own
FEATURE = 0.5  # weight of the smooth L1 distance between features, beside 1 for the cross-entropy (EAGLE: 1 and 0.1)


def new_eagle(target: LlamaForCausalLM, *, seed: int = 0) -> EagleHead:
    """An untrained head for ``target``; it begins by repeating the feature it is given."""
    from transformers import LlamaConfig

    values = {
        **target.config.to_dict(),
        "num_hidden_layers": 1,
        "architectures": ["LlamaForCausalLMEagle"],
    }
    config = LlamaConfig(**{name: value for name, value in values.items() if name not in {"layer_types", "dtype"}})
    with torch.random.fork_rng():
        torch.manual_seed(seed)  # transformers initialises from the global stream
        head = EagleHead(config)
    width = config.hidden_size
    with torch.no_grad():
        head.fc.weight[:, :width] *= 0.1
        head.fc.weight[:, width:] = torch.eye(width)
        layer = head.body.layers[0]
        for last in (layer.self_attn.o_proj, layer.mlp.down_proj):
            last.weight.mul_(0.1)
    return head


class EagleTask(SequentialTask):
    """Soft cross-entropy to the target and smooth L1 to its features, the mean over :data:`PASSES` readings of each
    row: its loss is no plain number of nats."""

    model: EagleHead

    def __init__(
        self,
        model: EagleHead,
        target: LlamaForCausalLM,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        **options: Any,
    ) -> None:
        super().__init__(model, target, corpus, tokenizer, cache, **options)
        model.config._attn_implementation = "eager" if target.device.type == "cpu" and self._length < 512 else "sdpa"

    def chance(self, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Which features of the later passes are the head's own: ``[P − 1, B, L − 2, 1]`` bool."""
        return (torch.from_numpy(rng.random((PASSES - 1, self._rows, self._length - 2, 1)) < OWN),)

    def nats(self, ids: Tensor, *chance: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, told = self._read(ids)
            embeddings = self._target.get_input_embeddings()(ids[:, 1:])
            given = found = states[:, :-1]
            loss = torch.zeros((), device=ids.device)
            for own in (None, *chance[0]):
                if own is not None:  # each feature stands one token later than where it was foretold
                    given = torch.cat([states[:, :1], torch.where(own, found[:, :-1], states[:, 1:-1])], 1)
                found = self.model(embeddings, given, use_cache=False)
                logits = F.linear(found, self._target.lm_head.weight)
                loss = loss + soft_cross_entropy(logits, told).mean()
                loss = loss + FEATURE * F.smooth_l1_loss(found.float(), states[:, 1:].float())
        return loss / PASSES

    @torch.no_grad()
    def _read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The target's features ``[B, L, W]`` of ``ids``, and its word on tokens 2 .. L, ``[B, L − 1, V]``."""
        states = self._target.model(input_ids=ids, use_cache=False).last_hidden_state
        return states, self.told(states[:, 1:])

    def soft_ce(self, ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, told = self._read(ids)
            found = self.model(self._target.get_input_embeddings()(ids[:, 1:]), states[:, :-1], use_cache=False)
            return soft_cross_entropy(F.linear(found, self._target.lm_head.weight), told).mean()

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every, drafted = torch.arange(len(ids), device=ids.device), int((ends - first).max())
        states = self._target.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        embeddings = self._target.get_input_embeddings()(ids[:, 1:])
        # The target has read all but the anchor, at first − 1; from there on features are the head's own.
        for depth in range(drafted + 1):
            found = self.model(embeddings, states, use_cache=False)
            place = first - 2 + depth  # entry of the anchor, then of each drafted token
            states = states.clone()
            states[every, (place + 1).clamp_max(states.shape[1] - 1)] = found[every, place].to(states.dtype)
        logits: Tensor = self._target.lm_head(found[every, ends - 2])
        return logits


def train_eagle(
    model: EagleHead,
    target: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    **options: Any,
) -> Iterator[TrainEvent]:
    """Train ``model`` to continue ``target``'s features; ``options`` are those of :class:`SequentialTask`."""
    yield from train(EagleTask(model, target, corpus, tokenizer, cache, **options), plan)
