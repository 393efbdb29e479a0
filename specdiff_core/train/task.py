"""What the training tasks share: batches, a compiled loss, scores by flavour; for drafters, labels and τ.

τ of greedy drafting is measured without decoding. Greedy speculative decoding is lossless, so the text of a run is
known beforehand: the target writes it once, and the rounds of all prompts are simulated as one batch. The result is the
tokens per round of a real greedy run at T = 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.losses import probs_without
from specdiff_core.train.rows import PackedRows
from specdiff_core.train.settings import DrafterSettings, ModelSettings
from specdiff_core.train.target_text import greedy_text

Propose = Callable[[list[Tensor]], Tensor]
"""Prefixes (1-D, of different lengths) -> drafts ``[n, γ]``."""

PROMPT, NEW = 48, 56
"""Tokens of a prompt, and of the text that the target writes after it, for τ."""


class Task(ABC):
    """What the loop trains: a model, a loss for each step, and scores.

    Args:
        rows: endless batches: ``draw()`` gives the next one, and what is random in the rest of the step.
        held_out: what :meth:`score` is given, by flavour.
    """

    model: Any

    def __init__(
        self, model: nn.Module, settings: ModelSettings, rows: Any, held_out: Mapping[str, np.ndarray]
    ) -> None:
        self.model, self.settings, self.rows, self._held_out = model, settings, rows, held_out
        self.device = next(model.parameters()).device
        self._objective = torch.compile(self.objective, dynamic=False) if settings.compile else self.objective

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step's loss is computed from."""
        return int(self.rows.rows * self.rows.length)

    @abstractmethod
    def objective(self, *inputs: Any) -> Tensor:
        """The scalar loss of a batch, from what :meth:`inputs` made of it; nats per token, unless it says otherwise."""

    def inputs(self, rows: Any, rng: Any) -> tuple[Any, ...]:
        """What :meth:`objective` takes, on the model's device, from what ``rows.draw()`` gave."""
        return self.on_device(rows)

    @abstractmethod
    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """Scores on held-out text, by kind."""

    def on_device(self, *parts: Tensor | np.ndarray) -> tuple[Tensor, ...]:
        return tuple(torch.as_tensor(part).to(self.device) for part in parts)

    def loss(self) -> Tensor:
        """Draw the next batch and return its loss."""
        return self._objective(*self.inputs(*self.rows.draw()))

    def skip(self) -> None:
        """Draw the next batch and drop it, so that a resumed run continues with unseen data."""
        self.rows.draw()

    def evaluate(self) -> dict[str, float]:
        """Scores on held-out text, named ``kind/flavour``, with a mean of each kind."""
        found = {name: self.score(name, held_out) for name, held_out in self._held_out.items()}
        scores = {f"{kind}/{name}": value for name, kinds in found.items() for kind, value in kinds.items()}
        return with_means({name.removeprefix("/"): value for name, value in scores.items()})


def with_means(scores: dict[str, float]) -> dict[str, float]:
    """The scores, and for each kind its plain mean over flavours: ``tau8/math``, … -> also ``tau8/mean``."""
    kinds: dict[str, list[float]] = {}
    for name, value in scores.items():
        kind, slash, _ = name.rpartition("/")
        kinds.setdefault(kind + slash, []).append(value)
    return {**scores, **{f"{kind}mean": sum(values) / len(values) for kind, values in kinds.items()}}


class DrafterTask(Task):
    """A drafter learns the distributions of a frozen target, bf16 autocast.

    Args:
        written: ``[N]`` tokens that the target wrote; ``settings.share`` of the rows come from them.
        prompts: held-out documents of each flavour on which τ is simulated, at most.

    Raises:
        CorpusError: a text is too short for the rows or for the measurement.
    """

    def __init__(
        self,
        model: nn.Module,
        target: LlamaForCausalLM,
        data: EncodedCorpus,
        settings: DrafterSettings,
        *,
        written: np.ndarray | None = None,
        prompts: int = 8,
    ) -> None:
        shape = {"rows": settings.rows, "length": settings.length}
        rows = PackedRows(data, settings.seed + 1, **shape, written=written, share=settings.share)
        super().__init__(model, settings, rows, data.held_out())
        self.target, self.mask = target.train(False).requires_grad_(False), data.mask
        self._prompts = {
            name: prompts_from(name, tokens, data.end, count=prompts) for name, tokens in self._held_out.items()
        }
        self._texts: dict[str, Tensor] = {}  # by flavour, what the target writes after the prompts

    def target_probs(self, states: Tensor) -> Tensor:
        """What the target predicts from its final states ``[…, W]``: probabilities ``[…, V]``, never the mask."""
        return probs_without(self.target.lm_head(states), self.mask)

    def tau(self, flavour: str, propose: Propose, gamma: int) -> float:
        """Mean tokens per round of ``propose`` on held-out prompts."""
        if flavour not in self._texts:
            prompts = self._prompts[flavour].to(self.device)
            self._texts[flavour] = greedy_text(self.target, prompts, NEW, mask=self.mask)
        return greedy_tokens_per_round(propose, self._texts[flavour], PROMPT, gamma)


def prompts_from(flavour: str, tokens: np.ndarray, end: int, *, count: int) -> Tensor:
    """``[n, PROMPT]`` the beginnings of evenly spaced held-out documents (n = ``count`` where there are enough).

    Raises:
        CorpusError: no document is long enough.
    """
    starts = np.flatnonzero(tokens[: max(0, len(tokens) - PROMPT)] == end)
    if not len(starts):
        raise CorpusError(
            f"{flavour}.valid has {len(tokens)} tokens; more than {PROMPT} are needed to measure drafting.",
            hint="Move more documents of this flavour from train to valid.",
        )
    starts = starts[np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(int)]
    return torch.from_numpy(tokens[starts[:, None] + np.arange(PROMPT)].astype(np.int64))


@torch.no_grad()
def greedy_tokens_per_round(propose: Propose, text: Tensor, prompt_length: int, gamma: int) -> float:
    """Simulate greedy rounds over known ``text [B, N]``, every row from ``prompt_length`` on.

    Returns:
        mean tokens per round, the target's own token included: between 1 and γ + 1.
    """
    position = torch.full((len(text),), prompt_length)
    rounds = emitted = 0
    while bool((active := position + gamma < text.shape[1]).any()):
        rows = active.nonzero()[:, 0]
        drafts = propose([text[row, : position[row]] for row in rows.tolist()])
        wanted = torch.stack([text[row, position[row] : position[row] + gamma] for row in rows.tolist()])
        accepted = (drafts == wanted).long().cumprod(-1).sum(-1).cpu()
        rounds += len(rows)
        emitted += int((accepted + 1).sum())
        position[rows] += accepted + 1
    return emitted / max(1, rounds)


def attention_for(device: torch.device, length: int) -> str:
    """How a Llama attends fastest in training: on a CPU the backward of fused attention beats plain matrix products in
    long rows only (measured: 256 tokens ×1.15 to ×1.5 slower, 512 tokens ×1.8 faster)."""
    return "eager" if device.type == "cpu" and length < 512 else "sdpa"
