"""The two training tasks of the masked-diffusion drafter: denoise text (SUBS), then draft for a frozen target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from specdiff_core.models.mdlm import Mdlm
from specdiff_core.train import losses
from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.packed_task import DrafterTask, PackedTask
from specdiff_core.train.rows import SLOTS, PackedRows, Windows, draw_windows, first_rows
from specdiff_core.train.simulated_tau import Propose

if TYPE_CHECKING:
    from specdiff_core.train.mdlm import MdlmSettings

DECAY = 4.0
"""Of the position weights, in positions."""

EPSILON = 1e-3
"""Of the log-linear schedule, and the smallest t that is drawn."""

GAMMA = 8
"""Draft length of the simulated rounds."""


class SubsTask(PackedTask):
    """Phase one: MDLM's own objective on packed corpus rows."""

    model: Mdlm

    def __init__(self, model: Mdlm, data: EncodedCorpus, settings: MdlmSettings) -> None:
        length = model.config.model_length
        rows = PackedRows(data, settings.seed, rows=max(1, settings.batch_tokens // length), length=length)
        super().__init__(model, data, settings, rows)

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """Rows, masks and t: t is spread evenly over the batch (MDLM's antithetic sampling), and each token is masked
        with probability (1 − ε)t."""
        count = len(rows)
        t = EPSILON + (1 - EPSILON) * (np.arange(count) + rng.random(count)) / count
        masked = rng.random(rows.shape) < (1 - EPSILON) * t[:, None]
        return self._on_device(rows, masked, t.astype(np.float32))

    def objective(self, *inputs: Tensor) -> Tensor:
        ids, masked, t = inputs
        mask_id = self.model.config.mask_id
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits = self.model(ids.masked_fill(masked, mask_id))
        return losses.subs_loss(logits, ids, masked, t, mask_id)

    def score(self, flavour: str, tokens: np.ndarray) -> dict[str, float]:
        """``subs``: the bound in nats per token, on fixed rows with fixed masks."""
        batch = self.inputs(first_rows(tokens, self._rows.length, 64), np.random.default_rng(0))
        return {"subs": float(self.objective(*batch))}


class DraftTask(DrafterTask):
    """Phase two: windows of masks after a clean prefix, soft cross-entropy to the frozen target's distribution.

    The target reads each row once; many windows are cut from it.
    """

    model: Mdlm

    _settings: MdlmSettings

    @property
    def tokens_per_step(self) -> int:
        return self._settings.batch_tokens

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        return self.inputs_of(rows, self.draw_windows(rows, rng))

    def draw_windows(self, rows: np.ndarray, rng: np.random.Generator) -> Windows:
        """As many windows of one length as make up the tokens of a step."""
        longest, settings = self.model.config.model_length, self._settings
        length = int(rng.choice([length for length in (longest // 2, longest) if length > SLOTS]))
        count = max(1, settings.batch_tokens // length)
        return draw_windows(rows, rng, count=count, length=length, mask_id=self._mask, whole=settings.whole)

    def inputs_of(self, rows: np.ndarray, windows: Windows) -> tuple[Tensor, ...]:
        """Ids, padding, labels, weights, true tokens, slots inside their windows, and which windows are chains: fully
        masked, in text that the target wrote."""
        inside = windows.rank >= 0
        return self._on_device(
            windows.ids,
            windows.padding,
            self.labels(rows, windows),
            losses.position_weights(torch.from_numpy(windows.rank), DECAY) * torch.from_numpy(windows.masked),
            rows[windows.row[:, None], windows.position],
            inside,
            (windows.masked == inside).all(-1) & (windows.row >= len(rows) - self._rows.own),
        )

    @torch.no_grad()
    def labels(self, rows: np.ndarray, windows: Windows) -> Tensor:
        """The target's distribution of the token at each of the last slots, ``[N, SLOTS, V]``: its logits at t − 1."""
        (ids,) = self._on_device(rows)
        with torch.autocast(ids.device.type, torch.bfloat16):
            states = self._target.model(input_ids=ids, use_cache=False).last_hidden_state
            return self.target_probs(states[windows.row[:, None], (windows.position - 1).clip(0)])

    def _logits(self, ids: Tensor, padding: Tensor, slots: int = SLOTS) -> Tensor:
        """``[N, slots, V]`` of the last slots."""
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits: Tensor = self.model(ids, first=ids.shape[1] - slots, padding=padding)
        return logits

    def objective(self, *inputs: Tensor) -> Tensor:
        """The loss, nats per masked slot (weighted)."""
        ids, padding, labels, weights, truth, inside, chains = inputs
        logits = self._logits(ids, padding)
        loss = losses.weighted_mean(losses.soft_cross_entropy(logits, labels), weights)
        if not self._settings.streak:
            return loss
        mask = torch.tensor([self._mask], device=ids.device)
        log_q = logits.float().index_fill(-1, mask, -torch.inf).log_softmax(-1).gather(-1, truth[..., None])[..., 0]
        # Slots before a window are certain; windows that are no chain do not count.
        known = chains[:, None].expand_as(inside)
        streak = losses.cross_entropy_streak(log_q * inside, known) * len(ids) / chains.sum().clamp_min(1)
        return loss + self._settings.streak * streak

    def score(self, flavour: str, tokens: np.ndarray) -> dict[str, float]:
        """``soft_ce``: nats on fully masked windows of 8 of corpus text. ``tokens_per_round``: simulated τ at γ = 8;
        ``tokens_per_round@half``: the same with the drafter's view cut to half."""
        longest, rows = self.model.config.model_length, first_rows(tokens, self._rows.length, 8)
        fixed, sizes = np.random.default_rng(0), (GAMMA, GAMMA)
        windows = draw_windows(rows, fixed, count=64, length=longest, mask_id=self._mask, sizes=sizes, whole=1.0)
        ids, padding, labels, weights, *_ = self.inputs_of(rows, windows)
        nats = losses.soft_cross_entropy(self._logits(ids, padding), labels)
        views = {"tokens_per_round": longest, "tokens_per_round@half": max(16, longest // 2)}
        taus = {kind: self._tau.measure(flavour, self._proposer(view), GAMMA) for kind, view in views.items()}
        return {"soft_ce": float(losses.weighted_mean(nats, weights)), **taus}

    def _proposer(self, view: int) -> Propose:
        """Drafts by the last ``view`` positions, masks included, in one pass."""

        def propose(prefixes: list[Tensor]) -> Tensor:
            ids = torch.full((len(prefixes), view), self._mask, device=prefixes[0].device)
            padding = torch.zeros(len(prefixes), dtype=torch.long, device=ids.device)
            for index, prefix in enumerate(prefixes):
                kept = prefix[-(view - GAMMA) :]
                padding[index] = view - GAMMA - len(kept)
                ids[index, view - GAMMA - len(kept) : view - GAMMA] = kept
            logits = self._logits(ids, padding, GAMMA).float()
            logits[..., self._mask] = -torch.inf
            return logits.argmax(-1)

        return propose
