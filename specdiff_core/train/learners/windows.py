"""What block and masked drafters have in common: both fill windows of masks behind random anchors of the answers.

Each slot is compared with the target's stored distribution. It weighs as much as it adds to the expected accepted
length (D-PACE, arXiv 2605.18810), or as in streak-distillation (SpecDiff-2, arXiv 2511.00606)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.train import losses
from specdiff_core.train.answers import Batch
from specdiff_core.train.learners.base import DraftVocab, Learner

FIRST = 4
"""Slots of a short window. Late slots are seldom reached, so half of the steps leave them out."""


class WindowLearner(Learner):
    """A drafter of windows.

    Attributes:
        weigh: how much each slot counts, from the drafter's probabilities ``[..., γ]`` of the
            text's own tokens and a mask of the slots inside the text.
    """

    weigh: Callable[[Tensor, Tensor], Tensor] = staticmethod(losses.dpace_weights)

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the slots that are masked and lie inside the text."""
        settings, (words, tv) = self.settings, self._objective(finishing)
        short = bool(torch.rand((), generator=generator) < 0.5)
        size = min(FIRST, settings.block) if short else settings.block
        first = batch.prompts - 1  # the prompt's last token is the first anchor
        plan: Any = {"count": settings.anchors, "size": size, "whole": settings.whole, "generator": generator}
        blocks = draw_blocks(batch.tokens, batch.lengths, first, **plan)
        where, states = self._states(blocks, batch)
        # Slot j behind an anchor at a stands for token a + j, predicted from the state at a + j − 1.
        before = where[0], blocks.anchors[where[:2]] + where[2]
        values, logs = losses.top_loss(
            states,
            words.rows,
            words.inverse[blocks.text[..., 1:][where]],
            words.inverse[batch.top_ids[before]],
            batch.top_logs[before].float().exp(),
            tv=tv,
            pairs=self._pairs(blocks.text[..., :-1][where], words, generator),
        )
        known = blocks.known[..., 1:]
        probs = torch.ones(known.shape, device=self.device).index_put(where, logs.exp())
        weigh = losses.streak_weights if settings.align == "streak" else self.weigh
        return losses.weighted_mean(values, weigh(probs, known)[where])

    @abstractmethod
    def _states(self, blocks: Blocks, batch: Batch) -> tuple[tuple[Tensor, ...], Tensor]:
        """Row, block and slot of the masked slots inside the text, and the states there, ``[n, W]``."""

    def _pairs(self, before: Tensor, words: DraftVocab, generator: torch.Generator) -> tuple[Tensor, Tensor] | None:
        """The two factors of a Markov head's bias behind the tokens ``before [n]``, for ``words``; None without one."""
        return None

    @property
    def _maps(self) -> dict[str, Tensor]:
        """``d2t`` and ``t2d`` in the files of a drafter that lacks some of the target's words."""
        known = (self.words.inverse >= 0).cpu()
        ids = known.nonzero()[:, 0]
        return {"d2t": ids - torch.arange(len(ids)), "t2d": known} if len(ids) < len(known) else {}


class Blocks(NamedTuple):
    """What a block drafter sees and predicts: A blocks in each of B rows, an anchor and b slots."""

    text: Tensor  # [B, A, b + 1] int64, the row's own tokens
    known: Tensor  # [B, A, b + 1] bool: inside the text
    masked: Tensor  # [B, A, b + 1] bool, never the anchor
    anchors: Tensor  # [B, A] int64, positions in the row


def draw_blocks(
    tokens: Tensor,
    lengths: Tensor,
    first: Tensor,
    *,
    count: int,
    size: int,
    whole: float,
    generator: torch.Generator,
) -> Blocks:
    """``count`` random blocks of ``size`` slots in each row, a share ``whole`` of them all masks.

    Most others begin with given tokens, as T > 1 from left to right; in some, these are scattered.

    Args:
        tokens: ``[B, L]``; tokens of row i from ``lengths[i]`` on are padding.
        first: ``[B]`` the first position of an anchor; the last one is the last but one of the text.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(len(tokens), count, *shape, generator=generator).to(tokens.device)

    first = first[:, None]
    room = (lengths[:, None] - 1 - first).clamp_min(1)
    anchors = first + (uniform() * room).long().clamp_max(room - 1)
    positions = anchors[..., None] + torch.arange(size + 1, device=tokens.device)
    text = tokens.gather(1, positions.clamp_max(tokens.shape[1] - 1).flatten(1)).view_as(positions)
    known = positions < lengths[:, None, None]
    kind, scattered = uniform(1), uniform(size) < uniform(1)
    begun = torch.arange(size, device=tokens.device) >= (uniform(1) * size).long()
    partly = torch.where(kind < whole + 0.6 * (1 - whole), begun, scattered)
    masked = (kind < whole) | partly | ~known[..., 1:]  # what lies behind the end is never given
    return Blocks(text, known, F.pad(masked, (1, 0)), anchors)
