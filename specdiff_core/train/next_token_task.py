"""Training tasks of models that predict the next token: the target, the autoregressive drafter, EAGLE's head."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.models.eagle import EagleHead
from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.packed_task import DrafterTask, PackedTask
from specdiff_core.train.rows import PackedRows, first_rows
from specdiff_core.train.target_text import greedy_text

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.train.causal_target import TargetSettings

GAMMA = 4
"""Draft length of the simulated rounds."""

PASSES = 3
"""Times that EAGLE's head reads a row: first the target's features, then, in part, its own (EAGLE-3's training-time
test, arXiv 2503.01840, with a random mixture in place of its mask)."""

OWN = 0.5
"""Share of a later pass's features that are the head's own."""

FEATURE = 0.5
"""Weight of the smooth L1 distance between features, beside 1 for the cross-entropy (EAGLE: 1 and 0.1)."""


def attention_for(device: torch.device, length: int) -> str:
    """How a Llama attends fastest in training: on a CPU the backward of fused attention beats plain matrix products in
    long rows only (measured: 256 tokens ×1.15 to ×1.5 slower, 512 tokens ×1.8 faster)."""
    return "eager" if device.type == "cpu" and length < 512 else "sdpa"


class TargetTask(PackedTask):
    """Next-token cross-entropy of a Llama, bf16 autocast."""

    model: LlamaForCausalLM

    def __init__(self, model: LlamaForCausalLM, data: EncodedCorpus, settings: TargetSettings) -> None:
        self._length = settings.length
        rows = max(1, settings.batch_tokens // self._length)
        super().__init__(model, data, settings, PackedRows(data, settings.seed, rows=rows, length=self._length + 1))
        model.set_attn_implementation(attention_for(model.device, self._length))

    @property
    def tokens_per_step(self) -> int:
        return self._rows.rows * self._length

    def objective(self, *inputs: Tensor) -> Tensor:
        (ids,) = inputs
        with torch.autocast(ids.device.type, torch.bfloat16):
            hidden = self.model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
            logits = F.linear(hidden, self.model.lm_head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def score(self, flavour: str, tokens: np.ndarray) -> dict[str, float]:
        """Nats per token, over 16 windows."""
        return {"": held_out_loss(self.model, tokens, self._length, 16)}


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, tokens: np.ndarray, length: int = 512, rows: int | None = None) -> float:
    """Mean next-token loss in nats over consecutive whole windows of ``length`` tokens (``rows`` windows at most)."""
    length = min(length, len(tokens) - 1)  # a held-out split shorter than one window is one window
    windows = [tokens[i : i + length + 1] for i in range(0, len(tokens) - length, length)][:rows]
    total = 0.0
    for first in range(0, len(windows), 8):
        batch = torch.from_numpy(np.stack(windows[first : first + 8]).astype(np.int64)).to(model.device)
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
        total += float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"))
    return total / (len(windows) * length)


def samples(target: LlamaForCausalLM, data: EncodedCorpus, *, prompt: int = 24, length: int = 72) -> dict[str, str]:
    """A greedy continuation of the first ``prompt`` tokens of each flavour's first long validation document."""
    texts = {}
    for name, (tokens, starts) in data.split("valid").items():
        sizes = np.diff(np.append(starts, len(tokens)))
        first = starts[np.argmax(sizes > prompt)]  # where none is long, the first
        ids = torch.from_numpy(tokens[first : first + prompt].astype(np.int64))[None].to(target.device)
        out = greedy_text(target, ids, length, mask=data.mask, end=data.end)[0]
        said = data.tokenizer.decode(out[prompt:], skip_special_tokens=True)
        texts[name] = f"{data.tokenizer.decode(out[1:prompt])}⟶{said}"
    return texts


class SequentialTask(DrafterTask):
    """A drafter that predicts one token after the other."""

    @abstractmethod
    def soft_ce(self, ids: Tensor) -> Tensor:
        """Soft cross-entropy of its next token with the target's, nats per token of ``ids [B, L]``."""

    @abstractmethod
    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        """``[n, V]`` of the token behind each row of ``ids [n, L]``, right-padded, row i being ``ends[i]`` long. What
        stands before ``first[i]`` was committed; the rest is its own draft."""

    def score(self, flavour: str, tokens: np.ndarray) -> dict[str, float]:
        """``soft_ce`` in nats on corpus text, and ``tokens_per_round``: τ of simulated greedy rounds of γ = 4."""
        (rows,) = self._on_device(first_rows(tokens, self._rows.length, 8))
        tau = self._tau.measure(flavour, self.propose, GAMMA)
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
            logits[:, self._mask] = -torch.inf
            ids[every, first + step] = logits.argmax(-1)
        return torch.stack([ids[row, end : end + GAMMA] for row, end in enumerate(first.tolist())])


class AutoregressiveTask(SequentialTask):
    """Soft cross-entropy of a small Llama to the target's next-token distributions (DistillSpec's forward KL, arXiv
    2310.08461)."""

    model: LlamaForCausalLM

    def objective(self, *inputs: Tensor) -> Tensor:
        return self.soft_ce(inputs[0])

    def soft_ce(self, ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            with torch.no_grad():
                labels = self.target_probs(self._target.model(input_ids=ids, use_cache=False).last_hidden_state)
            hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = F.linear(hidden, self.model.lm_head.weight)
        return soft_cross_entropy(logits, labels).mean()

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every = torch.arange(len(ids), device=ids.device)
        hidden = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits: Tensor = self.model.lm_head(hidden[every, ends - 1])
        return logits


class EagleTask(SequentialTask):
    """Soft cross-entropy to the target and smooth L1 to its features (EAGLE, arXiv 2401.15077), the mean over
    :data:`PASSES` readings of each row: its loss is not a plain number of nats."""

    model: EagleHead

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Beside the rows: which features of the later passes are the head's own, ``[P − 1, B, L − 2, 1]`` bool."""
        return self._on_device(rows, rng.random((PASSES - 1, len(rows), rows.shape[1] - 2, 1)) < OWN)

    def objective(self, *inputs: Tensor) -> Tensor:
        ids, own_features = inputs
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, labels = self._read(ids)
            embeddings = self._target.get_input_embeddings()(ids[:, 1:])
            given = found = states[:, :-1]
            loss = torch.zeros((), device=ids.device)
            for own in (None, *own_features):
                if own is not None:  # a feature that the head predicted belongs one token later
                    given = torch.cat([states[:, :1], torch.where(own, found[:, :-1], states[:, 1:-1])], 1)
                found = self.model(embeddings, given, use_cache=False)
                logits = F.linear(found, self._target.lm_head.weight)
                loss = loss + soft_cross_entropy(logits, labels).mean()
                loss = loss + FEATURE * F.smooth_l1_loss(found.float(), states[:, 1:].float())
        return loss / PASSES

    @torch.no_grad()
    def _read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """The target's features of ``ids``, ``[B, L, W]``; its distributions after tokens 2 .. L, ``[B, L − 1, V]``."""
        states = self._target.model(input_ids=ids, use_cache=False).last_hidden_state
        return states, self.target_probs(states[:, 1:])

    def soft_ce(self, ids: Tensor) -> Tensor:
        with torch.autocast(ids.device.type, torch.bfloat16):
            states, labels = self._read(ids)
            found = self.model(self._target.get_input_embeddings()(ids[:, 1:]), states[:, :-1], use_cache=False)
            return soft_cross_entropy(F.linear(found, self._target.lm_head.weight), labels).mean()

    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        every, drafted = torch.arange(len(ids), device=ids.device), int((ends - first).max())
        states = self._target.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        embeddings = self._target.get_input_embeddings()(ids[:, 1:])
        # The target has read all but the anchor, at first − 1; from there on the features are the head's own.
        for depth in range(drafted + 1):
            found = self.model(embeddings, states, use_cache=False)
            place = first - 2 + depth  # entry of the anchor, then of each drafted token
            states = states.clone()
            states[every, (place + 1).clamp_max(states.shape[1] - 1)] = found[every, place].to(states.dtype)
        logits: Tensor = self._target.lm_head(found[every, ends - 2])
        return logits
