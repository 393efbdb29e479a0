"""The block drafter that reads its target's hidden states (DFlash): python recipes/block.py --corpus DIR

Many blocks of each row are denoised in one pass: an anchor, and masks behind it. The loss is the soft cross-entropy to
the target's distribution at masked slots, weighted by position (arXiv 2602.06036).
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import torch.nn.functional as F
from common import DrafterModelSettings, DrafterSession, generator, run
from objectives import cross_entropy_streak, position_weights
from text import Written
from torch import Tensor
from transformers import LlamaForCausalLM, PretrainedConfig

from specdiff_core.models.dflash import DFlashDraftModel, from_folder
from specdiff_core.models.files import write_folder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.train.learners import autocast, block_hidden, draft_states, draw_blocks, sizes_of
from specdiff_core.train.losses import weighted_mean

DECAY = 4.0
"""Of the position weights, in slots."""
FEATURES = 3
"""Layers of the target that a new drafter reads, or as many as there are."""
ALONE = 0.25
"""Fraction of the slots scored without a Markov head, as decoding chooses its candidates."""
SUMMARY = (
    "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036): it reads its "
    "target's hidden states and uses its embedding and head. Trained on random anchors and mask "
    "ratios with the target's own distribution as labels, mostly on text the target wrote. Format "
    "of the released DFlash checkpoints."
)


class Settings(DrafterModelSettings, frozen=True, kw_only=True):
    anchors: Annotated[int, ask("", "blocks per row", 1)] = 48
    streak: Annotated[float, ask("", "weight of streak distillation, of whole blocks (2511.00606)", 0, 100)] = 0.0
    greedy: Annotated[
        Annotated[float, ask("", low=0, high=1)] | None,
        ask("", "fraction of the target-written rows at temperature 0 [default: as written]"),
    ] = None
    whole: Annotated[float, ask("", "fraction of the blocks that are fully masked, as with T = 1", 0, 1)] = 0.5
    short: Annotated[
        float, ask("", "fraction of the steps with blocks of half the slots: late slots are rarely reached", 0, 1)
    ] = 0.0
    layers: Annotated[int, ask("", "layers of a new drafter", 1)] = 3
    markov: Annotated[int, ask("", "width of a head that chains the tokens of a block; 0: --start's, or none", 0)] = 0


def feature_layers(count: int, target_layers: int) -> list[int]:
    """``count`` layers spread evenly from 1 to L − 3, as in DFlash's released configs: 5 of 36 are
    1, 9, 17, 25, 33. Where those are too few, from the first to the last but one. The last layer is
    read only where it is the only one: its output is normed."""
    most = max(1, target_layers - 1)
    count, high = min(count, most), min(most - 1, max(1, target_layers - 3))
    low = min(1, high)
    if count > high - low + 1:
        low, high = 0, most - 1
    return [high] if count == 1 else [round(low + i * (high - low) / (count - 1)) for i in range(count)]


def drafter_config(
    config: PretrainedConfig, *, layers: int = 3, block_size: int = 17, mask_id: int = 1
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter for a target with ``config``, in the released format."""
    width, depth = config.hidden_size, config.num_hidden_layers
    return {
        **sizes_of(config),
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "block_size": block_size,
        "dflash_config": {"mask_token_id": mask_id, "target_layer_ids": feature_layers(FEATURES, depth)},
        "dtype": "bfloat16",
        "intermediate_size": 64 * max(1, round(width * 8 / 3 / 64)),
        "layer_types": ["full_attention"] * layers,
        "num_hidden_layers": layers,
        "num_target_layers": depth,
    }


def new_drafter(target: LlamaForCausalLM, values: dict[str, Any], seed: int = 0) -> DFlashDraftModel:
    """An untrained drafter; its last norm begins as the target's, since both feed the same head."""
    model = DFlashDraftModel(values)
    model.initialize(torch.Generator().manual_seed(seed))
    model.norm.load_state_dict(target.model.norm.state_dict())
    return model


def with_markov(model: DFlashDraftModel, width: int, seed: int = 0) -> DFlashDraftModel:
    """The drafter ``model`` with a Markov head, which changes nothing until it learns.

    Raises:
        ConfigError: it has one of another width.
    """
    if model.config.markov_width not in (0, width):
        what = (
            f"--markov {width}, but the drafter to begin with has a Markov head of width {model.config.markov_width}."
        )
        raise ConfigError(what, field="markov", hint="Leave --markov out, or begin with another drafter.")
    special = {**model.released["dflash_config"], "markov_width": width}
    larger = DFlashDraftModel({**model.released, "dflash_config": special})
    larger.initialize(torch.Generator().manual_seed(seed))
    larger.load_state_dict(model.state_dict(), strict=False)
    return larger


@torch.no_grad()
def read_target(target: LlamaForCausalLM, tokens: Tensor, layers: list[int]) -> tuple[Tensor, Tensor]:
    """Run the frozen target over clean text ``tokens [B, L]``, in mixed precision.

    Returns:
        the hidden states of ``layers`` (0 = after the first layer) side by side, ``[B, L, F·W]``,
        and the last ones, which its head reads, ``[B, L, W]``; both float32.
    """
    with autocast(tokens.device):
        out = target.model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    features = torch.cat([out.hidden_states[layer + 1] for layer in layers], dim=-1)
    return features.float(), out.last_hidden_state.float()


def block_loss(
    model: DFlashDraftModel,
    target: LlamaForCausalLM,
    rows: tuple[Tensor, ...],
    settings: Settings,
    random: torch.Generator,
    *,
    end: int,
    hidden_of: Any = block_hidden,
) -> Tensor:
    """Nats per masked slot (weighted), and the streak term.

    Args:
        rows: texts ``[B, L]``, their lengths ``[B]`` and first anchors ``[B]``, as
            :func:`~specdiff_core.train.learners.draw_blocks` takes them.
    """
    tokens, lengths, first = rows
    slots = int(model.config.block_size) - 1
    if settings.short and float(torch.rand((), generator=random)) < settings.short:
        slots = slots // 2
    features, states = read_target(target, tokens, model.config.target_layer_ids)
    plan: Any = {"count": settings.anchors, "size": slots, "whole": settings.whole, "generator": random, "end": end}
    blocks = draw_blocks(tokens, lengths, first, **plan)
    words: Any = target.get_input_embeddings()
    look_up, head = partial(F.embedding, weight=words.weight.detach()), target.lm_head.weight.detach()
    options: Any = {"alone": ALONE, "hidden_of": hidden_of}
    where, drafted, before = draft_states(model, blocks, features, look_up, random, **options)
    with autocast(tokens.device):
        log_q, logits = F.linear(drafted, head).float().log_softmax(-1), F.linear(states[before], head)
    nats = -(logits.float().softmax(-1) * log_q).sum(-1)
    masked = blocks.masked[..., 1:]
    weights = position_weights((masked.long().cumsum(-1) - 1)[where], DECAY)
    loss = weighted_mean(nats, weights)
    full = masked.all(-1)
    if not settings.streak or not bool(full.any()):
        return loss
    of_text = log_q.gather(-1, blocks.text[..., 1:][where][:, None])[:, 0]
    by_slot = torch.zeros(masked.shape, device=loss.device).index_put(where, of_text)
    return loss + settings.streak * cross_entropy_streak(by_slot[full], blocks.known[..., 1:][full])


def draw_texts(
    written: Written, rng: np.random.Generator, count: int, length: int, greedy: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``count`` whole texts of the target: padded tokens ``[n, length]``, their lengths, and their
    first anchors, which are the last tokens of the prompts. A fraction ``greedy`` of them is
    greedy; None takes them as they come."""
    odds = None
    if greedy is not None and written.greedy.any() and not written.greedy.all():
        share = written.greedy.mean()
        odds = np.where(written.greedy, greedy / share, (1 - greedy) / (1 - share)) / len(written.texts)
    chosen = rng.choice(len(written.texts), size=count, p=odds)
    tokens = np.zeros((count, length), dtype=np.int64)
    for row, index in zip(tokens, chosen, strict=True):
        text = written.texts[index][:length]
        row[: len(text)] = text
    lengths = np.minimum([len(written.texts[index]) for index in chosen], length)
    return tokens, lengths, np.clip(written.prompts[chosen] - 1, 1, np.maximum(1, lengths - 2))


def main(settings: Settings, kind: str = "block", summary: str = SUMMARY) -> Path:
    session = DrafterSession(settings, kind, gamma=8)
    text, target, seed = session.text, session.target, settings.seed
    if settings.start:
        model = from_folder(settings.start)
    else:
        values = drafter_config(target.config, layers=settings.layers, mask_id=text.mask)
        model = new_drafter(target, values, seed)
    if settings.markov:
        model = with_markov(model, settings.markov, seed)
    model.requires_grad_(True).to(session.device)
    written = session.write_text()
    hidden_of = torch.compile(block_hidden, dynamic=False) if settings.compile else block_hidden
    by_target, length = round(settings.rows * settings.share), settings.length

    def loss(step: int) -> Tensor:
        rng = generator(settings, step)
        packed = settings.rows - by_target
        parts = []
        if packed:
            parts.append((text.draw_rows(rng, packed, length), np.full(packed, length), np.ones(packed, dtype=int)))
        if by_target:
            parts.append(draw_texts(written, rng, by_target, length, settings.greedy))
        rows = tuple(torch.from_numpy(np.concatenate(column)).to(session.device) for column in zip(*parts, strict=True))
        random = torch.Generator().manual_seed(seed * 1_000_003 + step)
        return block_loss(model, target, rows, settings, random, end=text.end, hidden_of=hidden_of)

    tokens = settings.rows * length

    def save(folder: Path) -> Path:
        return write_folder(folder, model.released, model.state_dict())

    return session.fit(model, loss, save, tokens, summary)


if __name__ == "__main__":
    sys.exit(run(main, Settings(warmup=100, batch_tokens=2560)))
