"""Trains the small autoregressive drafter: a stock Llama that learns its target's distributions (DistillSpec).

Knows the new network, its batches and its loss (arXiv 2310.08461, forward KL); decoding is far away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.train.corpus import Corpus
from specdiff_core.train.loop import Plan, TrainEvent, train
from specdiff_core.train.losses import soft_cross_entropy
from specdiff_core.train.rounds import greedy_text, greedy_tokens_per_round, prompts_from
from specdiff_core.train.target import mixture, new_target
from specdiff_core.train.windows import draw_rows

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

GAMMA = 4  # of the simulated rounds
PROMPT = 48  # tokens that they begin with


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


class AutoregressiveTask:
    """Soft cross-entropy on the frozen target's next-token distributions, bf16 autocast.

    Args:
        written: token streams that the target wrote; ``share`` of the rows come from them.
        rows: per step, of ``length`` tokens each.
        prompts: held-out documents of a flavour on which rounds are simulated.
    """

    def __init__(
        self,
        model: LlamaForCausalLM,
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
        self._model, self._target, self._seed, self._step = model, target.eval().requires_grad_(False), seed, 0
        self._written = [np.asarray(part).reshape(-1) for part in written]
        self._own = round(rows * share) if self._written else 0
        self._rows, self._length, self._prompts = rows, length, prompts
        self.tokens_per_step = rows * length
        self._end, self._mask = int(tokenizer.eos_token_id), int(tokenizer.mask_token_id)
        self._mixture, self._held_out = mixture(corpus, tokenizer, cache, seed + 2)
        attention = "eager" if model.device.type == "cpu" and length < 512 else "sdpa"  # measured: train/target.py
        model.set_attn_implementation(attention)
        self._objective: Callable[[Tensor], Tensor] = (
            torch.compile(self._nats, dynamic=False) if compile else self._nats
        )
        self._reference: dict[str, Tensor] = {}

    @property
    def model(self) -> LlamaForCausalLM:
        return self._model

    def _draw(self) -> Tensor:
        rng = np.random.default_rng([self._seed, 3, self._step])
        self._step += 1
        rows = self._mixture.batch(self._rows - self._own, self._length) if self._own < self._rows else None
        own = draw_rows(self._written, rng, self._own, self._length) if self._own else None
        return torch.from_numpy(np.concatenate([part for part in (rows, own) if part is not None]))

    def _nats(self, ids: Tensor) -> Tensor:
        """Mean nats per token: the student against what the target says after the same ``ids [B, L]``."""
        with torch.autocast(ids.device.type, torch.bfloat16):
            with torch.no_grad():
                told = self._target(input_ids=ids, use_cache=False).logits.float()
                told[..., self._mask] = -torch.inf  # the target never says it
            hidden = self._model.model(input_ids=ids, use_cache=False).last_hidden_state
            logits = F.linear(hidden, self._model.lm_head.weight)
        return soft_cross_entropy(logits, told.softmax(-1)).mean()

    def loss(self) -> Tensor:
        return self._objective(self._draw().to(self._target.device))

    def skip(self) -> None:
        self._draw()

    def evaluate(self) -> dict[str, float]:
        """Held-out scores by flavour, and their means: ``soft_ce/…`` in nats on corpus text, and
        ``tokens_per_round/…`` of simulated greedy rounds of γ = 4 on text the target writes after held-out prompts."""
        scores: dict[str, float] = {}
        for name, tokens in self._held_out.items():
            length = min(self._length, len(tokens))
            rows = tokens[: len(tokens) // length * length].reshape(-1, length)[:8].astype(np.int64)
            scores[f"soft_ce/{name}"] = float(self._nats(torch.from_numpy(rows).to(self._target.device)))
            if name not in self._reference:
                start = prompts_from(tokens, self._end, count=self._prompts, length=PROMPT)
                self._reference[name] = greedy_text(self._target, start, 56, [self._mask])
            text = self._reference[name]
            scores[f"tokens_per_round/{name}"] = greedy_tokens_per_round(self._propose, text, PROMPT, GAMMA)
        for kind in ("soft_ce", "tokens_per_round"):
            values = [value for key, value in scores.items() if key.startswith(f"{kind}/")]
            scores[f"{kind}/mean"] = sum(values) / len(values)
        return scores

    def _propose(self, prefixes: list[Tensor]) -> Tensor:
        """Greedy continuations ``[n, γ]`` of prefixes of different lengths, padded on the right."""
        ends = torch.tensor([len(prefix) for prefix in prefixes], device=prefixes[0].device)
        ids = torch.zeros(len(prefixes), int(ends.max()) + GAMMA, dtype=torch.long, device=ends.device)
        for row, prefix in enumerate(prefixes):
            ids[row, : len(prefix)] = prefix
        every = torch.arange(len(prefixes), device=ends.device)
        for step in range(GAMMA):
            with torch.autocast(ids.device.type, torch.bfloat16):
                hidden = self._model.model(input_ids=ids, use_cache=False).last_hidden_state
                logits = self._model.lm_head(hidden[every, ends + step - 1]).float()
            logits[:, self._mask] = -torch.inf
            ids[every, ends + step] = logits.argmax(-1)
        return torch.stack([ids[row, end : end + GAMMA] for row, end in enumerate(ends.tolist())])


def train_autoregressive(
    model: LlamaForCausalLM,
    target: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    *,
    written: Sequence[np.ndarray] = (),
    rows: int = 16,
    length: int = 256,
    share: float = 0.7,
    seed: int = 0,
    compile: bool = True,
) -> Iterator[TrainEvent]:
    """Train ``model`` to say what ``target`` would; see :class:`AutoregressiveTask`."""
    task = AutoregressiveTask(
        model,
        target,
        corpus,
        tokenizer,
        cache,
        written=written,
        rows=rows,
        length=length,
        share=share,
        seed=seed,
        compile=compile,
    )
    yield from train(task, plan)
