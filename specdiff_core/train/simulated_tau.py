"""Measures τ of greedy drafting while training, without decoding.

Greedy speculative decoding is lossless, so the text of a run is known beforehand: the target writes it once, and the
rounds of all prompts are simulated as one batch. The result is the tokens per round of a real greedy run at T = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.target_text import greedy_text

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

Propose = Callable[[list[Tensor]], Tensor]
"""Prefixes (1-D, of different lengths) -> drafts ``[n, γ]``."""

PROMPT, NEW = 48, 56
"""Tokens of a prompt, and of the text that the target writes after it."""


class SimulatedTau:
    """τ on the text that a target writes greedily after held-out prompts.

    Args:
        held_out: tokens ``[N]`` by flavour, documents separated by ``end``.
        mask: the id that the target never says.
        prompts: documents of each flavour, at most.

    Raises:
        CorpusError: a flavour has no held-out document that is long enough.
    """

    def __init__(
        self, target: LlamaForCausalLM, held_out: dict[str, np.ndarray], *, end: int, mask: int, prompts: int
    ) -> None:
        self._target, self._mask = target, mask
        self._prompts = {name: prompts_from(name, tokens, end, count=prompts) for name, tokens in held_out.items()}
        self._texts: dict[str, Tensor] = {}

    def measure(self, flavour: str, propose: Propose, gamma: int) -> float:
        """Mean tokens per round of ``propose``."""
        if flavour not in self._texts:
            prompts = self._prompts[flavour].to(self._target.device)
            self._texts[flavour] = greedy_text(self._target, prompts, NEW, mask=self._mask)
        return greedy_tokens_per_round(propose, self._texts[flavour], PROMPT, gamma)


def prompts_from(flavour: str, tokens: np.ndarray, end: int, *, count: int) -> Tensor:
    """``[n, PROMPT]`` the beginnings of evenly spaced held-out documents (n = ``count`` where there are enough)."""
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
