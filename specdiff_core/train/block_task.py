"""The training task of the block drafter: all blocks of a batch in one pass, scored against the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specdiff_core.maths.chains import RANKED
from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.train import losses
from specdiff_core.train.rows import AnchorRows, Rows, cut_blocks, draw_blocks
from specdiff_core.train.target_text import TargetText
from specdiff_core.train.trainer import compiled, frozen, with_means

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.train.block import BlockSettings


class BlockTask:
    """The distance to the target's distribution at masked slots, weighted by position (DFlash, arXiv 2602.06036).

    Args:
        target: frozen; gives embeddings, head, features and distributions.
        end: the end-of-text id.
        held_out: rows that the target wrote greedily, for :meth:`evaluate` to replay.
    """

    def __init__(
        self,
        model: DFlashDraftModel,
        target: LlamaForCausalLM,
        rows: AnchorRows,
        settings: BlockSettings,
        *,
        end: int,
        held_out: TargetText | None = None,
    ) -> None:
        self.model, self._target = model, frozen(target)
        self._rows, self._settings, self._held_out, self._end = rows, settings, held_out, end
        self.tokens_per_step, self._step = rows.rows * rows.length, 0
        self._table = target.lm_head.weight.detach().to(torch.bfloat16)
        self._hidden = compiled(block_hidden, settings.compile)

    def skip(self) -> None:
        self._rows.batch()
        self._step += 1

    def loss(self) -> Tensor:
        rows = self._rows.batch().to(self.model.device)
        generator = torch.Generator(self.model.device).manual_seed(self._settings.seed * 1_000_003 + self._step)
        self._step += 1
        return self.loss_on(rows, generator)

    def loss_on(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """The loss of one batch, nats per masked slot (weighted)."""
        config, settings = self.model.config, self._settings
        size = self._size(generator)
        features, states = read_target(self._target, rows.tokens, config.target_layer_ids)
        blocks = draw_blocks(
            rows, settings.anchors, size, config.mask_token_id, self._end, generator, whole=settings.whole
        )
        embeddings = self._target.get_input_embeddings()(blocks.ids.flatten(1)).detach()
        with torch.autocast(rows.tokens.device.type, torch.bfloat16):
            hidden = self._hidden(self.model, features, embeddings, blocks.anchors, size)
        hidden = hidden.view(*blocks.ids.shape, -1)[:, :, 1:].float()
        known, masked = blocks.known[:, :, 1:], blocks.masked[:, :, 1:]  # [B, A, b-1]
        counted = masked & known
        where = counted.nonzero(as_tuple=True)
        marginal = hidden[where]
        # Slot j of a block at anchor a predicts token a + j; the target predicts it from its state at a + j − 1.
        seen = where[0], blocks.anchors[where[:2]] + where[2]
        chained = self._chained(marginal, blocks.truth[:, :, :-1][where])
        if settings.loss == "lk":
            teacher = states[seen]
        else:
            teacher = losses.expected_embedding(states.flatten(0, 1), self._table).view_as(states)[seen]
        nats, normalizer = self._distance(chained, teacher)
        if self.model.markov is not None:  # the marginals must stay good: decoding chooses its candidates from them
            alone = torch.rand(len(nats), generator=generator, device=nats.device) < settings.alone
            nats = nats.index_put((alone.nonzero()[:, 0],), self._distance(marginal[alone], teacher[alone])[0])
        # Slots that were given have probability 1.
        said = self._table[blocks.truth[:, :, 1:][where]].float()
        log_q = torch.zeros(counted.shape, device=hidden.device).index_put(where, (chained * said).sum(-1) - normalizer)
        if settings.weights == "dpace":
            weights = losses.dpace_weights(log_q.exp(), known)[where]
        else:
            weights = losses.position_weights((masked.long().cumsum(-1) - 1)[where], settings.decay)
        loss = losses.weighted_mean(nats, weights)
        full = masked.all(-1)
        if not settings.streak or not bool(full.any()):
            return loss
        return loss + settings.streak * losses.cross_entropy_streak(log_q[full], counted[full])

    def _distance(self, hidden: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
        """How far the distributions of ``hidden [n, W]`` are from the target's, in nats, and their log normalisers.

        Args:
            teacher: ``[n, W]`` what the loss needs of the target: its last states for ``lk``, else the embedding that
                it expects.
        """
        normalizer = losses.log_normalizer(hidden, self._table)
        if self._settings.loss == "lk":
            return losses.lk_loss(hidden, teacher, self._table), normalizer
        return normalizer - (hidden * teacher).sum(-1), normalizer

    def _chained(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` of slots, given the tokens ``before [...]`` them; unchanged without a Markov head."""
        markov = self.model.markov
        if markov is None:
            return states
        chained: Tensor = markov(states, self._target.get_input_embeddings()(before).detach())
        return chained

    def _size(self, generator: torch.Generator) -> int:
        """Slots of this step's blocks, the anchor included."""
        size = int(self.model.config.block_size)
        if not self._settings.short:
            return size
        short = torch.rand((), generator=generator, device=generator.device) < self._settings.short
        return size // 2 + 1 if short else size

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """τ of greedy decoding at T = 1, replayed over held-out text that the target wrote greedily.

        For every position of that text the drafter's argmax block is compared with the text (bf16 autocast); then the
        rounds that decoding would have made are walked. So it is the τ of a decode, up to rounding.
        """
        if self._held_out is None:
            return {}
        most, text = self.model.config.block_size - 1, self._held_out
        scores: dict[str, float] = {}
        for gamma in sorted({min(8, most), most}):
            for name in sorted(set(text.flavours.tolist())):
                own = np.flatnonzero((text.flavours == name) & (text.temperatures == 0))
                scores[f"tau{gamma}/{name}"] = self._replay(text, own, gamma)
        return with_means(scores)

    def _replay(self, text: TargetText, chosen: np.ndarray, gamma: int) -> float:
        """Committed tokens per round over the rows ``chosen``."""
        committed = rounds = 0
        for row in chosen:
            length, prompt = int(text.lengths[row]), int(text.prompts[row])
            hits = self.accepted(torch.from_numpy(text.tokens[row, :length].astype(np.int64)), prompt - 1, gamma)
            place = prompt - 1
            while place < length - 1:
                place += int(hits[place - prompt + 1]) + 1
                rounds += 1
            committed += length - prompt
        return committed / max(1, rounds)

    def accepted(self, text: Tensor, first: int, gamma: int) -> Tensor:
        """How many slots of a fully masked block agree with ``text [n]``, for each anchor ``first .. n−2``.

        ``[n−1−first]`` int64; counts stop where the text does.
        """
        config, device = self.model.config, self.model.device
        tokens = text[None].to(device)
        length = tokens.shape[1]
        anchors = torch.arange(first, length - 1, device=device)[None]
        truth, known = cut_blocks(tokens, torch.tensor([length], device=device), anchors, gamma + 1, self._end)
        ids = torch.full_like(truth, config.mask_token_id)
        ids[..., 0] = truth[..., 0]
        features, _ = read_target(self._target, tokens, config.target_layer_ids)
        embeddings = self._target.get_input_embeddings()(ids.flatten(1))
        with torch.autocast(device.type, torch.bfloat16):
            hidden = block_hidden(self.model, features, embeddings, anchors, gamma + 1)
            marginal = hidden.view(*ids.shape, -1)[:, :, 1:]
            logits = marginal.to(self._table.dtype) @ self._table.T
            logits[..., config.mask_token_id] = -torch.inf
            if self.model.markov is not None:
                # As long as all slots agree, the token before one is the text's. As decoding does, only the most
                # probable candidates of the marginals follow it.
                candidates = logits.topk(min(RANKED, logits.shape[-1]), -1).indices
                followed = self._chained(marginal, truth[:, :, :-1]).to(self._table.dtype) @ self._table.T
                logits = torch.full_like(followed, -torch.inf).scatter(-1, candidates, followed.gather(-1, candidates))
        agree = (logits.argmax(-1) == truth[:, :, 1:]) & known[:, :, 1:]
        hits: Tensor = agree.long().cumprod(-1).sum(-1)[0].cpu()
        return hits


@torch.no_grad()
def read_target(target: LlamaForCausalLM, tokens: Tensor, layers: list[int]) -> tuple[Tensor, Tensor]:
    """Run the frozen target over clean text ``tokens [B, L]``, bf16 autocast.

    Returns:
        the hidden states of ``layers`` (0 = after the first layer) side by side, ``[B, L, F·W]``, and the last ones,
        which its head reads, ``[B, L, W]``; both float32.
    """
    with torch.autocast(tokens.device.type, torch.bfloat16):
        out = target.model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    features = torch.cat([out.hidden_states[layer + 1] for layer in layers], dim=-1)
    return features.float(), out.last_hidden_state.float()


def block_hidden(model: DFlashDraftModel, features: Tensor, embeddings: Tensor, anchors: Tensor, size: int) -> Tensor:
    """All blocks of a batch in one pass, each reading the features before its anchor and itself.

    Plain matrix products: on a CPU their backward is faster than that of fused attention at these sizes.

    Args:
        features: ``[B, L, F·W]``.
        embeddings: ``[B, A·b, W]``, the target's, of anchors, clean and mask tokens.
        anchors: ``[B, A]``.
        size: b.

    Returns:
        ``[B, A·b, W]`` hidden states for the target's head.
    """
    batch, length = features.shape[:2]
    count = anchors.shape[1]
    places = (anchors[..., None] + torch.arange(size, device=anchors.device)).flatten(1)  # [B, A·b]
    positions = torch.arange(length, device=anchors.device)
    context_rope = model.rope(positions[None])
    context = model.read_features(features)
    hidden_from = positions >= anchors[..., None]  # [B, A, L]
    bias = torch.zeros_like(hidden_from, dtype=torch.float32).masked_fill_(hidden_from, -torch.inf)[:, None, :, None]

    def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attention: Any = model.layers[index].self_attn  # the layers of a ModuleList have no type
        keys, values = attention.keys_values(context, context_rope)  # [B, Hkv, L, D]
        copies = q.shape[1] // k.shape[1]
        keys, values, k, v = (
            part.repeat_interleave(copies, 1) if copies > 1 else part for part in (keys, values, k, v)
        )
        heads, width = q.shape[1], q.shape[3]
        q = q * width**-0.5
        blocked = (batch, heads, count, size, width)
        q5, k5, v5 = q.view(blocked), k.reshape(blocked), v.reshape(blocked)
        outside = (q @ keys.transpose(2, 3)).view(batch, heads, count, size, length).float() + bias
        inside = (q5 @ k5.transpose(3, 4)).float()  # [B, H, A, b, b]
        weights = torch.softmax(torch.cat([outside, inside], -1), -1).to(v.dtype)
        mixed = (weights[..., :length].reshape(batch, heads, count * size, length) @ values).view(blocked)
        return (mixed + weights[..., length:] @ v5).view(batch, heads, count * size, width)

    return model.denoise(embeddings, model.rope(places), attend)
