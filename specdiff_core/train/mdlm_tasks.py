"""The two tasks of the masked-diffusion drafter's training: denoise text (SUBS), then draft for a frozen target.

Knows how their data are drawn, their losses and their held-out scores; optimisers and files are the loop's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from specdiff_core.models.mdlm import Mdlm
from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.corpus import Corpus
from specdiff_core.train.losses import (
    cross_entropy_streak,
    position_weights,
    soft_cross_entropy,
    subs_loss,
    weighted_mean,
)
from specdiff_core.train.rounds import greedy_text, greedy_tokens_per_round, prompts_from
from specdiff_core.train.target import mixture
from specdiff_core.train.windows import SLOTS, Windows, draw_rows, draw_windows

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

DECAY = 4.0  # of the position weights, in positions
EPSILON = 1e-3  # of the log-linear schedule, and the smallest t that is drawn


def _compiled(function: Callable[..., Tensor], compile: bool) -> Callable[..., Tensor]:
    return torch.compile(function, dynamic=False) if compile else function


class SubsTask:
    """Phase one: MDLM's own objective on packed corpus rows, ``tokens`` per step."""

    def __init__(
        self,
        model: Mdlm,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        *,
        tokens: int = 8192,
        seed: int = 0,
        compile: bool = True,
    ) -> None:
        self._model, self._seed, self._step = model, seed, 0
        self._length = model.config.model_length
        self._rows = max(1, tokens // self._length)
        self.tokens_per_step = self._rows * self._length
        self._mixture, self._held_out = mixture(corpus, tokenizer, cache, seed)
        self._objective = _compiled(self._nats, compile)

    @property
    def model(self) -> nn.Module:
        return self._model

    def _nats(self, ids: Tensor, masked: Tensor, t: Tensor) -> Tensor:
        mask_id = self._model.config.mask_id
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits = self._model(ids.masked_fill(masked, mask_id))
        return subs_loss(logits, ids, masked, t, mask_id)

    def _corrupt(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """t is spread evenly over the batch (MDLM's antithetic sampling); each token is masked with (1 − ε)t."""
        count = len(rows)
        t = EPSILON + (1 - EPSILON) * (np.arange(count) + rng.random(count)) / count
        masked = rng.random(rows.shape) < (1 - EPSILON) * t[:, None]
        device = self._model.backbone.vocab_embed.embedding.device
        return (
            torch.from_numpy(rows).to(device),
            torch.from_numpy(masked).to(device),
            torch.from_numpy(t.astype(np.float32)).to(device),
        )

    def loss(self) -> Tensor:
        rng = np.random.default_rng([self._seed, 1, self._step])
        self._step += 1
        return self._objective(*self._corrupt(self._mixture.batch(self._rows, self._length), rng))

    def skip(self) -> None:
        self._step += 1
        self._mixture.batch(self._rows, self._length)

    def evaluate(self) -> dict[str, float]:
        """``subs/FLAVOUR``: the bound in nats per token, on fixed held-out rows with fixed masks."""
        scores = {}
        for name, tokens in self._held_out.items():
            rows = tokens[: len(tokens) // self._length * self._length].reshape(-1, self._length)[:64]
            batch = self._corrupt(rows.astype(np.int64), np.random.default_rng(0))
            scores[f"subs/{name}"] = float(self._nats(*batch))
        return {**scores, "subs/mean": sum(scores.values()) / len(scores)}


class DraftTask:
    """Phase two: windows of masks after a clean prefix, soft cross-entropy on the frozen target's distribution.

    The target reads each row once; many windows are cut from it.

    Args:
        written: token streams of the target itself; ``share`` of the rows come from them.
        whole: fraction of the windows that are fully masked.
        streak: weight of SpecDiff-2's streak-distillation (papers.md §2.2), in its prefix-weighted form, on the fully
            masked windows of text that the target wrote.
    """

    def __init__(
        self,
        model: Mdlm,
        target: LlamaForCausalLM,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        *,
        written: Sequence[np.ndarray] = (),
        tokens: int = 8192,
        rows: int = 8,
        row_length: int = 256,
        share: float = 0.5,
        whole: float = 0.5,
        streak: float = 0.0,
        prompts: int = 8,
        seed: int = 0,
        compile: bool = True,
    ) -> None:
        self._model, self._target, self._seed, self._step = model, target.eval().requires_grad_(False), seed, 0
        self._tokens, self._rows, self._row_length, self._prompts = tokens, rows, row_length, prompts
        longest = model.config.model_length
        self._lengths = [length for length in (longest // 2, longest) if length > SLOTS]
        self.tokens_per_step = tokens
        self._written = [np.asarray(part).reshape(-1) for part in written]
        self._own = round(rows * share) if self._written else 0  # the last rows of a batch
        self._whole, self._streak = whole, streak
        self._end = int(tokenizer.eos_token_id)
        self._mixture, self._held_out = mixture(corpus, tokenizer, cache, seed + 1)
        for name, found in self._held_out.items():
            if len(found) < row_length:
                raise CorpusError(
                    f"{name}.valid has {len(found)} tokens; at least {row_length} are needed to measure drafting.",
                    hint="Move more documents of this flavour from train to valid.",
                )
        self._objective = _compiled(self._nats, compile)
        self._reference: dict[str, Tensor] = {}

    @property
    def model(self) -> nn.Module:
        return self._model

    def _draw(self) -> tuple[np.ndarray, Windows]:
        rng = np.random.default_rng([self._seed, 2, self._step])
        self._step += 1
        parts = []
        if self._own < self._rows:
            parts.append(self._mixture.batch(self._rows - self._own, self._row_length))
        if self._own:
            parts.append(draw_rows(self._written, rng, self._own, self._row_length))
        length, rows = int(rng.choice(self._lengths)), np.concatenate(parts)
        count, mask_id = max(1, self._tokens // length), self._model.config.mask_id
        return rows, draw_windows(rows, rng, count=count, length=length, mask_id=mask_id, full=self._whole)

    @torch.no_grad()
    def _labels(self, rows: np.ndarray, windows: Windows) -> Tensor:
        """The target's distribution of the token at each of the last slots, ``[N, SLOTS, V]``: its logits at t − 1."""
        device = self._target.device
        with torch.autocast(device.type, torch.bfloat16):
            states = self._target.model(input_ids=torch.from_numpy(rows).to(device), use_cache=False).last_hidden_state
            picked = states[windows.row[:, None], (windows.position - 1).clip(0)]  # [N, SLOTS, W]
            logits = self._target.lm_head(picked).float()
        logits[..., self._model.config.mask_id] = -torch.inf
        return logits.softmax(-1)

    def _logits(self, ids: Tensor, padding: Tensor) -> Tensor:
        """``[N, SLOTS, V]`` of the last slots."""
        with torch.autocast(ids.device.type, torch.bfloat16):
            logits: Tensor = self._model(ids, first=ids.shape[1] - SLOTS, padding=padding)
        return logits

    def _nats(
        self,
        ids: Tensor,
        padding: Tensor,
        labels: Tensor,
        weights: Tensor,
        truth: Tensor,
        inside: Tensor,
        chains: Tensor,
    ) -> Tensor:
        logits = self._logits(ids, padding)
        loss = weighted_mean(soft_cross_entropy(logits, labels), weights)
        if not self._streak:
            return loss
        mask = torch.tensor([self._model.config.mask_id], device=ids.device)
        log_q = logits.float().index_fill(-1, mask, -torch.inf).log_softmax(-1).gather(-1, truth[..., None])[..., 0]
        # Slots before a window are certain; windows that are no chain count nothing.
        known = chains[:, None].expand_as(inside)
        streak = cross_entropy_streak(log_q * inside, known) * len(ids) / chains.sum().clamp_min(1)
        return loss + self._streak * streak

    def _inputs(self, rows: np.ndarray, windows: Windows) -> tuple[Tensor, ...]:
        device = self._target.device
        weights = position_weights(torch.from_numpy(windows.rank), DECAY) * torch.from_numpy(windows.masked)
        inside = windows.rank >= 0
        chains = (windows.masked == inside).all(-1) & (windows.row >= len(rows) - self._own)
        return (
            torch.from_numpy(windows.ids).to(device),
            torch.from_numpy(windows.padding).to(device),
            self._labels(rows, windows),
            weights.to(device),
            torch.from_numpy(rows[windows.row[:, None], windows.position]).to(device),
            torch.from_numpy(inside).to(device),
            torch.from_numpy(chains).to(device),
        )

    def loss(self) -> Tensor:
        return self._objective(*self._inputs(*self._draw()))

    def skip(self) -> None:
        self._draw()

    def evaluate(self) -> dict[str, float]:
        """Held-out scores by flavour, and their means.

        ``soft_ce/…``: nats, fully masked windows of 8 on corpus text. ``tokens_per_round/…``: simulated greedy rounds
        at γ = 8, T = 1 on text the target writes after held-out prompts; ``tokens_per_round@half/…`` the same with the
        drafter's view cut to half.
        """
        scores: dict[str, float] = {}
        longest = self._model.config.model_length
        for name, tokens in self._held_out.items():
            rows = tokens[: len(tokens) // self._row_length * self._row_length].reshape(-1, self._row_length)[:8]
            windows = draw_windows(
                rows.astype(np.int64),
                np.random.default_rng(0),
                count=64,
                length=longest,
                mask_id=self._model.config.mask_id,
                sizes=(8, 8),
                full=1.0,
            )
            ids, padding, labels, weights, *_ = self._inputs(rows.astype(np.int64), windows)
            nats = soft_cross_entropy(self._logits(ids, padding), labels)
            scores[f"soft_ce/{name}"] = float(weighted_mean(nats, weights))
            if name not in self._reference:
                start = prompts_from(tokens, self._end, count=self._prompts, length=48)
                self._reference[name] = greedy_text(self._target, start, 56, [self._model.config.mask_id])
            for view, label in ((longest, "tokens_per_round"), (max(16, longest // 2), "tokens_per_round@half")):
                text = self._reference[name]
                scores[f"{label}/{name}"] = greedy_tokens_per_round(self._proposer(view), text, 48, 8)
        for kind in sorted({key.split("/")[0] for key in scores}):
            values = [value for key, value in scores.items() if key.startswith(f"{kind}/")]
            scores[f"{kind}/mean"] = sum(values) / len(values)
        return scores

    def _proposer(self, view: int, gamma: int = 8) -> Callable[[list[Tensor]], Tensor]:
        mask_id = self._model.config.mask_id

        def propose(prefixes: list[Tensor]) -> Tensor:
            ids = torch.full((len(prefixes), view), mask_id, device=prefixes[0].device)
            padding = torch.zeros(len(prefixes), dtype=torch.long, device=ids.device)
            for index, prefix in enumerate(prefixes):
                kept = prefix[-(view - gamma) :]
                ids[index, view - gamma - len(kept) : view - gamma] = kept
                padding[index] = view - gamma - len(kept)
            with torch.autocast(ids.device.type, torch.bfloat16):
                logits = self._model(ids, first=view - gamma, padding=padding).float()
            logits[..., mask_id] = -torch.inf
            return logits.argmax(-1)

        return propose
