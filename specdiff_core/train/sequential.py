"""What the trainings of drafters that say one token after the other share: their rows, and their simulated rounds.

Knows text, the frozen target and the scores; the network and its loss are a subclass's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from specdiff_core.train.corpus import Corpus
from specdiff_core.train.rounds import greedy_text, greedy_tokens_per_round, prompts_from
from specdiff_core.train.target import mixture
from specdiff_core.train.windows import draw_rows

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

GAMMA = 4  # of the simulated rounds
PROMPT = 48  # tokens that they begin with


class SequentialTask(ABC):
    """Rows of text and the frozen target's word on them, bf16 autocast; a task of :mod:`.loop`.

    Args:
        written: token streams that the target wrote; ``share`` of the rows come from them.
        rows: per step, of ``length`` tokens each.
        prompts: held-out documents of a flavour on which rounds are simulated.
    """

    def __init__(
        self,
        model: nn.Module,
        target: LlamaForCausalLM,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        *,
        written: Sequence[np.ndarray] = (),
        rows: int = 16,
        length: int = 256,
        share: float = 0.7,
        prompts: int = 8,
        seed: int = 0,
        compile: bool = True,
    ) -> None:
        self.model, self._target, self._seed, self._step = model, target.eval().requires_grad_(False), seed, 0
        self._written = [np.asarray(part).reshape(-1) for part in written]
        self._own = round(rows * share) if self._written else 0
        self._rows, self._length, self._prompts = rows, length, prompts
        self.tokens_per_step = rows * length
        self._end, self._mask = int(tokenizer.eos_token_id), int(tokenizer.mask_token_id)
        self._mixture, self._held_out = mixture(corpus, tokenizer, cache, seed + 2)
        self._objective: Callable[..., Tensor] = torch.compile(self.nats, dynamic=False) if compile else self.nats
        self._reference: dict[str, Tensor] = {}

    @abstractmethod
    def nats(self, ids: Tensor, *chance: Tensor) -> Tensor:
        """The loss of a batch of rows ``ids [B, L]``, nats per token where a task says nothing else. ``chance``: see
        :meth:`chance`."""

    @abstractmethod
    def soft_ce(self, ids: Tensor) -> Tensor:
        """Soft cross-entropy of its next token with the target's, nats per token of ``ids [B, L]``."""

    @abstractmethod
    def next_logits(self, ids: Tensor, first: Tensor, ends: Tensor) -> Tensor:
        """``[n, V]`` of the token behind each row of ``ids [n, L]``, right-padded, row i being ``ends[i]`` long. What
        stands before ``first[i]`` was committed; the rest is its own draft."""

    def chance(self, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """What else of a step is left to chance, drawn by step so that a resumed run goes on as it would have."""
        return ()

    def draw(self) -> Tensor:
        """The next batch of rows ``[B, L]``."""
        rng = np.random.default_rng([self._seed, 3, self._step])
        self._step += 1
        rows = self._mixture.batch(self._rows - self._own, self._length) if self._own < self._rows else None
        own = draw_rows(self._written, rng, self._own, self._length) if self._own else None
        return torch.from_numpy(np.concatenate([part for part in (rows, own) if part is not None]))

    def loss(self) -> Tensor:
        chance = self.chance(np.random.default_rng([self._seed, 4, self._step]))
        return self._objective(*(part.to(self._target.device) for part in (self.draw(), *chance)))

    def skip(self) -> None:
        self.draw()

    def told(self, states: Tensor) -> Tensor:
        """What the target says next behind its final states ``[…, W]``: probabilities ``[…, V]``, never the mask."""
        logits: Tensor = self._target.lm_head(states).float()
        logits[..., self._mask] = -torch.inf
        return logits.softmax(-1)

    def evaluate(self) -> dict[str, float]:
        """Held-out scores by flavour, and their means: ``soft_ce/…`` in nats on corpus text, and
        ``tokens_per_round/…`` of simulated greedy rounds of γ = 4 on text the target writes after held-out prompts."""
        scores: dict[str, float] = {}
        for name, tokens in self._held_out.items():
            length = min(self._length, len(tokens))
            rows = tokens[: len(tokens) // length * length].reshape(-1, length)[:8].astype(np.int64)
            scores[f"soft_ce/{name}"] = float(self.soft_ce(torch.from_numpy(rows).to(self._target.device)))
            if name not in self._reference:
                start = prompts_from(tokens, self._end, count=self._prompts, length=PROMPT)
                self._reference[name] = greedy_text(self._target, start, 56, [self._mask])
            text = self._reference[name]
            scores[f"tokens_per_round/{name}"] = greedy_tokens_per_round(self.propose, text, PROMPT, GAMMA)
        for kind in ("soft_ce", "tokens_per_round"):
            values = [value for key, value in scores.items() if key.startswith(f"{kind}/")]
            scores[f"{kind}/mean"] = sum(values) / len(values)
        return scores

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
