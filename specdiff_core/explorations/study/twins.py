"""Twin block drafters: they begin with the same random weights and learn, with different losses, from the same blocks
of the same texts, which the target writes. Everything but the losses is that of ``train drafter``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from specdiff_core.engine import Engine
from specdiff_core.models.network import vocabulary
from specdiff_core.schema.decoder import Stop
from specdiff_core.train.answers import Batch, EncodedPrompt, TrainingExample, collate
from specdiff_core.train.learners.base import DraftVocab, Plan
from specdiff_core.train.learners.block import BlockLearner, default_taps
from specdiff_core.train.losses import streak_weights
from specdiff_core.train.settings import DrafterSettings
from specdiff_core.train.trainer import Trainer
from specdiff_core.train.writing import Writer, Writing

ROWS, ANCHORS = 12, 16
"""Texts in a step, and blocks in each."""
WARMUP = 10
"""Steps of rising learning rate."""


class Texts:
    """Texts of the target, with the hidden states that a block drafter reads; many are written at once."""

    def __init__(self, engine: Engine, seed: int, stop: Stop) -> None:
        self._engine, self._stop = engine, stop
        self._taps = default_taps(int(engine.target.model.config.num_hidden_layers))
        self._random = torch.Generator(engine.pair.placement.device).manual_seed(seed)

    def write(self, starts: Sequence[tuple[Sequence[int], float]], tokens: int) -> list[TrainingExample]:
        """Write ``tokens`` new tokens for each prompt and temperature, all at once; fewer texts if stopped."""
        prompts = [(EncodedPrompt(str(i), "", tuple(ids)), temperature) for i, (ids, temperature) in enumerate(starts)]
        writing = Writing(layers=self._taps, ends=(), new_tokens=tokens, slots=len(prompts))
        writer = Writer(self._engine.target, writing, self._random, lambda: not self._stop.is_set())
        return sorted(writer.write(prompts), key=lambda example: int(example.prompt.id))


class Twin:
    """A block drafter for drafts of γ tokens in one step, trained by streak-distillation or with a token-wise loss.

    Attributes:
        losses: of the steps since they were last cleared.
    """

    def __init__(self, engine: Engine, folder: Path, *, gamma: int, streak: bool, seed: int) -> None:
        model, (mask, *_), table = engine.target.model, engine.pair.spec.suppress, vocabulary(engine.target.model)
        words = [token for token in range(engine.target.vocab_size) if token != mask]
        shape = DrafterSettings(block=gamma, markov=0, anchors=ANCHORS, whole=1.0, tables=False, seed=seed)
        plan = Plan(
            spec=engine.pair.spec,
            target=model.config,
            settings=shape,
            mask=mask,
            words=len(words),
            start=None,
            released={},
        )
        network, taps = (
            BlockLearner.new(plan).to(model.device),
            BlockLearner.reads(shape, model.config.num_hidden_layers),
        )
        self.learner = BlockLearner(network, table, DraftVocab.of(words, table), taps, shape)
        self.learner.weigh = streak_weights if streak else lambda probs, known: torch.ones_like(probs)
        self.trainer, self.losses, self._gamma = Trainer(network, folder), list[float](), gamma

    def learn(self, batch: Batch, seed: int, rate: float) -> None:
        """Train one step, on blocks chosen by ``seed``."""
        random = torch.Generator().manual_seed(seed)
        metrics = self.trainer.learn(lambda: (self.learner.loss(batch, random, finishing=False), 0), rate)
        self.losses.append(metrics["loss"])

    def measure(self, texts: Sequence[TrainingExample]) -> tuple[list[list[int]], list[int]]:
        """The accepted tokens of each greedy round in each of ``texts``, which the target wrote greedily, and the first
        draft. The texts are already known, so nothing is decoded."""
        accepted, first = list[list[int]](), list[int]()
        for text in texts:
            anchors = torch.arange(len(text.prompt.tokens) - 1, len(text.tokens) - self._gamma)[None]
            drafts = self.learner.draft(collate([text]).to(self.learner.device), anchors)[0].cpu()
            right = text.tokens.long()[anchors[0][:, None] + 1 + torch.arange(self._gamma)]
            lengths, position, rounds = (drafts == right).long().cumprod(-1).sum(-1).tolist(), 0, list[int]()
            while position < len(lengths):
                rounds.append(lengths[position])
                position += lengths[position] + 1
            accepted.append(rounds)
            first = first or drafts[0].tolist()
        return accepted, first

    def export(self, folder: Path) -> Path:
        """Write the current drafter, in a released layout."""
        self.learner.export(folder)
        return folder


def train(
    twins: Sequence[Twin], corpus: Sequence[TrainingExample], seconds: float, seed: int, stop: Stop
) -> Iterator[tuple[int, float]]:
    """Train all for ``seconds`` together, in alternating steps; yields the steps and the seconds so far, after each."""
    rng, spent = np.random.default_rng(seed), 0.0
    for step in itertools.count():
        if spent >= seconds or stop.is_set():
            return
        batch = collate([corpus[i] for i in rng.choice(len(corpus), min(ROWS, len(corpus)), replace=False)])
        rate = min(1.0, (step + 1) / WARMUP) * min(1.0, 2 * (1 - spent / seconds))
        for twin in twins:
            twin.learn(batch, seed + step, rate)
        spent = sum(twin.trainer.seconds for twin in twins)
        yield step + 1, spent
