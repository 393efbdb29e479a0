"""Trains the target-conditioned block drafter (DFlash): random anchors, random masks, the target's distribution.

It knows how all blocks of a batch are laid out for one pass and scored; it refuses to know decoding and its rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from specdiff_core.maths.chains import RANKED
from specdiff_core.models.dflash import DFlashDraftModel, save_to_folder
from specdiff_core.train import losses
from specdiff_core.train.block_pass import Reading, block_hidden, read_target
from specdiff_core.train.blocks import MixedRows, Rows, RowSource, cut_blocks, draw_blocks
from specdiff_core.train.corpus import Corpus, encode_split
from specdiff_core.train.loop import Plan, TrainEvent, train
from specdiff_core.train.target import mixture
from specdiff_core.train.written import Written, Wrote, write, writer_of

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


class BlockTask:
    """Soft cross-entropy to the target at masked slots, weight exp(−rank/g); a task of :mod:`.loop`.

    Args:
        target: frozen; gives embeddings, head, features and distributions.
        rows: batches of text.
        anchors: blocks per row.
        decay: g of the position weights, in slots.
        streak: weight of the expected-run term on fully masked blocks (papers.md §2.2), 0 leaves it out.
        whole: fraction of the blocks that are fully masked, as in drafting with T = 1.
        short: fraction of the steps whose blocks have half the slots: late slots are rarely reached and cost as much.
        alone: of a drafter with a Markov head, fraction of the slots that are scored without the token before them:
            the marginals must stay good, candidates are chosen from them.
        held_out: target-written greedy rows that :meth:`evaluate` replays.
    """

    def __init__(
        self,
        target: LlamaForCausalLM,
        drafter: DFlashDraftModel,
        rows: RowSource,
        *,
        tokens_per_step: int,
        anchors: int = 32,
        decay: float = 4.0,
        streak: float = 0.0,
        whole: float = 0.5,
        short: float = 0.0,
        alone: float = 0.25,
        held_out: Written | None = None,
        end: int = 0,
        seed: int = 0,
        compile: bool = True,
    ) -> None:
        self._target = target.eval().requires_grad_(False)
        self._drafter, self._rows = drafter, rows
        self._anchors, self._decay, self._streak = anchors, decay, streak
        self._whole, self._short, self._alone = whole, short, alone
        self._held_out, self._end = held_out, end
        self.tokens_per_step = tokens_per_step
        self._seed, self._step = seed, 0
        self._table = target.lm_head.weight.detach().to(torch.bfloat16)
        wrap: Callable[[Any], Any] = partial(torch.compile, dynamic=False) if compile else lambda function: function
        self._read: Callable[..., Reading] = read_target
        self._hidden: Callable[..., Tensor] = wrap(block_hidden)

    @property
    def model(self) -> DFlashDraftModel:
        return self._drafter

    def skip(self) -> None:
        self._rows.skip()
        self._step += 1

    def loss(self) -> Tensor:
        rows = self._rows.batch().to(self._drafter.device)
        generator = torch.Generator(self._drafter.device).manual_seed(self._seed * 1_000_003 + self._step)
        self._step += 1
        return self.loss_on(rows, generator)

    def loss_on(self, rows: Rows, generator: torch.Generator) -> Tensor:
        """The loss of one batch, nats per masked slot (weighted)."""
        config = self._drafter.config
        size = self._size(generator)
        reading = self._read(self._target, rows.tokens, config.target_layer_ids)
        blocks = draw_blocks(rows, self._anchors, size, config.mask_token_id, self._end, generator, whole=self._whole)
        embeddings = self._target.get_input_embeddings()(blocks.ids.flatten(1)).detach()
        with torch.autocast(rows.tokens.device.type, torch.bfloat16):
            hidden = self._hidden(self._drafter, reading.features, embeddings, blocks.anchors, size)
        # Slot j of a block at anchor a predicts token a + j; the target's word on it stands at a + j − 1.
        places = (blocks.anchors[..., None] + torch.arange(size - 1, device=hidden.device)).clamp_max(
            rows.tokens.shape[1] - 1
        )
        hidden = hidden.view(*blocks.ids.shape, -1)[:, :, 1:].float()
        counted = (blocks.masked & blocks.known)[:, :, 1:]  # [B, A, b-1]
        rank = blocks.masked[:, :, 1:].long().cumsum(-1) - 1
        where = counted.nonzero(as_tuple=True)
        expected = reading.expected[where[0], places[where]]
        marginal = hidden[where]
        states = self._chained(marginal, blocks.truth[:, :, :-1][where])
        normalizer = losses.log_normalizer(states, self._table)
        nats = normalizer - (states * expected).sum(-1)
        if self._drafter.markov is not None:
            alone = torch.rand(len(nats), generator=generator, device=nats.device) < self._alone
            shown = marginal[alone]
            nats = nats.index_put(
                (alone.nonzero()[:, 0],),
                losses.log_normalizer(shown, self._table) - (shown * expected[alone]).sum(-1),
            )
        loss = losses.weighted_mean(nats, losses.position_weights(rank[where], self._decay))
        full = blocks.masked[:, :, 1:].all(-1)
        if not self._streak or not bool(full.any()):
            return loss
        own = self._table[blocks.truth[:, :, 1:][where]].float()
        log_q = torch.zeros(counted.shape, device=hidden.device).index_put(where, (states * own).sum(-1) - normalizer)
        return loss + self._streak * losses.cross_entropy_streak(log_q[full], counted[full])

    def _chained(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` of slots, given the tokens ``before [...]`` them; unchanged without a Markov head."""
        markov = self._drafter.markov
        return states if markov is None else markov(states, self._target.get_input_embeddings()(before).detach())

    def _size(self, generator: torch.Generator) -> int:
        """Slots of this step's blocks, the anchor included."""
        size = int(self._drafter.config.block_size)
        if not self._short:
            return size
        short = torch.rand((), generator=generator, device=generator.device) < self._short
        return size // 2 + 1 if short else size

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """τ of greedy decoding at T = 1, replayed over held-out text that the target wrote greedily.

        For every position of that text the drafter's argmax block is compared with the text (bf16 autocast); then the
        rounds that decoding would have made are walked: so it is the τ of a decode up to rounding, without its loop.
        """
        if self._held_out is None:
            return {}
        scores: dict[str, float] = {}
        names = sorted(set(self._held_out.flavours.tolist()))
        for gamma in (8, self._drafter.config.block_size - 1):
            if gamma >= self._drafter.config.block_size or f"tau{gamma}/mean" in scores:
                continue
            for name in names:
                own = np.flatnonzero((self._held_out.flavours == name) & (self._held_out.temperatures == 0))
                scores[f"tau{gamma}/{name}"] = self._replay(self._held_out, own, gamma)
            scores[f"tau{gamma}/mean"] = sum(scores[f"tau{gamma}/{name}"] for name in names) / len(names)
        return scores

    def _replay(self, written: Written, chosen: np.ndarray, gamma: int) -> float:
        """Committed tokens per round over the rows ``chosen``."""
        committed = rounds = 0
        for row in chosen:
            length, prompt = int(written.lengths[row]), int(written.prompts[row])
            hits = self.accepted(torch.from_numpy(written.tokens[row, :length].astype(np.int64)), prompt - 1, gamma)
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
        config, device = self._drafter.config, self._drafter.device
        tokens = text[None].to(device)
        length = tokens.shape[1]
        anchors = torch.arange(first, length - 1, device=device)[None]
        rows = Rows(
            tokens=tokens, lengths=torch.tensor([length], device=device), first=anchors[:, 0], last=anchors[:, -1]
        )
        truth, known = cut_blocks(rows, anchors, gamma + 1, self._end)
        ids = torch.full_like(truth, config.mask_token_id)
        ids[..., 0] = truth[..., 0]
        reading = read_target(self._target, tokens, config.target_layer_ids)
        embeddings = self._target.get_input_embeddings()(ids.flatten(1))
        with torch.autocast(device.type, torch.bfloat16):
            hidden = block_hidden(self._drafter, reading.features, embeddings, anchors, gamma + 1)
            marginal = hidden.view(*ids.shape, -1)[:, :, 1:]
            logits = marginal.to(self._table.dtype) @ self._table.T
            logits[..., config.mask_token_id] = float("-inf")
            if self._drafter.markov is not None:
                # As long as all slots agree, the token before one is the text's. As decoding does, only the most
                # probable candidates of the marginals follow it.
                candidates = logits.topk(min(RANKED, logits.shape[-1]), -1).indices
                states = self._chained(marginal, truth[:, :, :-1])
                followed = states.to(self._table.dtype) @ self._table.T
                logits = torch.full_like(followed, float("-inf")).scatter(
                    -1, candidates, followed.gather(-1, candidates)
                )
        agree = (logits.argmax(-1) == truth[:, :, 1:]) & known[:, :, 1:]
        return agree.long().cumprod(-1).sum(-1)[0].cpu()


def train_block(
    model: DFlashDraftModel,
    target: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    *,
    written: Path,
    write_parts: int = 100,
    new_tokens: int = 160,
    share: float = 0.7,
    rows: int = 10,
    length: int = 256,
    anchors: int = 48,
    decay: float = 4.0,
    streak: float = 0.0,
    greedy: float | None = None,
    whole: float = 0.5,
    short: float = 0.0,
    seed: int = 0,
    compile: bool = True,
) -> Iterator[TrainEvent | Wrote]:
    """Write target text where it is missing, then train ``model`` on it and on the corpus.

    Args:
        written: folder of target-written text (``train``: greedy twice as often as each of 0.7 and 1.0; ``valid``:
            greedy, for :meth:`BlockTask.evaluate`); parts that exist are used as they are.
        write_parts: how many parts of 64 rows ``train`` must have.
        new_tokens: per row of ``train``; ``valid`` has 96 at most.
        share, greedy: see :class:`MixedRows`.
        rows, length, anchors: rows per step, tokens per row, blocks per row.
        decay, streak, whole, short: see :class:`BlockTask`.

    Yields:
        a :class:`Wrote` for each part written, then the events of :func:`specdiff_core.train.loop.train`.
    """
    end, mask_id = tokenizer.eos_token_id, model.config.mask_token_id
    coder = tokenizer.backend_tokenizer
    writer = writer_of(target)
    same: dict[str, Any] = {"end": end, "forbidden": (mask_id,), "seed": seed}
    yield from write(
        writer,
        encode_split(corpus, "train", coder, end, cache),
        written / "train",
        parts=write_parts,
        new_tokens=new_tokens,
        **same,
    )
    yield from write(
        writer,
        encode_split(corpus, "valid", coder, end, cache),
        written / "valid",
        parts=1,
        rows=10 * len(corpus.flavours),
        prompt_tokens=(32, 32),
        new_tokens=min(96, new_tokens),
        temperatures=(0.0,),
        **same,
    )
    del writer
    target.set_attn_implementation("sdpa")
    packed, _ = mixture(corpus, tokenizer, cache, seed)
    own = Written.load(written / "train") if write_parts else None
    source = MixedRows(packed, own, rows=rows, length=length, share=share, greedy=greedy, seed=seed)
    task = BlockTask(
        target,
        model,
        source,
        tokens_per_step=rows * length,
        anchors=anchors,
        decay=decay,
        streak=streak,
        whole=whole,
        short=short,
        held_out=Written.load(written / "valid"),
        end=end,
        seed=seed,
        compile=compile,
    )
    yield from train(task, plan)


def export(model: DFlashDraftModel, folder: Path) -> Path:
    """Write the released format (config.json, bf16 safetensors of at most 9 MB)."""
    return save_to_folder(model, folder)
