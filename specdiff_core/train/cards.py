"""Gathers the facts of a trained model for its card: full held-out scores, samples, provenance. Knows no page.

Scores are measured when the card is written, on the exported weights, over the whole validation split.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from specdiff_core.schema.history import Training
from specdiff_core.train.card import FAMILY, Card, write_card
from specdiff_core.train.corpus import Corpus, encode_split
from specdiff_core.train.target import held_out_loss

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def held_out_tokens(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, cache: Path
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Validation tokens and document starts by flavour."""
    return encode_split(corpus, "valid", tokenizer.backend_tokenizer, tokenizer.eos_token_id, cache)


def with_mean(scores: dict[str, float]) -> dict[str, float]:
    """The scores and their plain mean over flavours."""
    return {**scores, "mean": sum(scores.values()) / len(scores)}


@torch.inference_mode()
def samples(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    held_out: dict[str, tuple[np.ndarray, np.ndarray]],
    *,
    prompt: int = 24,
    length: int = 72,
) -> dict[str, str]:
    """A greedy continuation of the first ``prompt`` tokens of each flavour's first long validation document."""
    texts = {}
    for name, (tokens, starts) in held_out.items():
        ends = [*starts[1:], len(tokens)]
        first = next((s for s, e in zip(starts, ends, strict=True) if e - s > prompt), starts[0])
        ids = torch.from_numpy(tokens[first : first + prompt].astype(np.int64))[None].to(target.device)
        out = target.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            suppress_tokens=[tokenizer.mask_token_id],
        )[0]
        cut = tokenizer.decode(out[prompt:], skip_special_tokens=True)
        texts[name] = f"{tokenizer.decode(out[1:prompt])}⟶{cut}"
    return texts


def last_scores(phases: Sequence[Path], prefix: str) -> dict[str, float]:
    """The scores of a run's last evaluation whose names begin with ``prefix``, without it."""
    found: dict[str, float] = {}
    for phase in phases:
        for line in map(json.loads, (phase / "metrics.jsonl").read_text().splitlines()):
            if line["kind"] == "EvalStep":
                found = {k.removeprefix(prefix): v for k, v in line["scores"].items() if k.startswith(prefix)} or found
    return found


def card_of_target(
    target: LlamaForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Corpus,
    cache: Path,
    *,
    history: Sequence[Training],
    folder: Path,
) -> Path:
    """Measure and write the target's card."""
    held_out = held_out_tokens(corpus, tokenizer, cache)
    config = target.config
    size = sum(p.numel() for p in target.parameters())
    summary = (
        f"A small, deep causal language model of {len(held_out)} flavours of text ({', '.join(held_out)}): the target "
        "of a pair for SpecDiff Lab."
    )
    shape = (
        f"A stock `LlamaForCausalLM`: {config.num_hidden_layers} layers × {config.hidden_size}, "
        f"{config.num_attention_heads} heads, {size / 1e6:.1f} M parameters, vocabulary {config.vocab_size}, "
        f"context {config.max_position_embeddings}, tied embedding; stored in bf16."
    )
    card = Card(
        name=f"{FAMILY}-{size / 1e6:.0f}M",
        summary=summary,
        shape=shape,
        history=history,
        scores=with_mean({name: held_out_loss(target, tokens) for name, (tokens, _) in held_out.items()}),
        score_name="Held-out loss (nats per token, whole validation split, windows of 512)",
        samples=samples(target, tokenizer, held_out),
        tags=("llama",),
    )
    return write_card(card, folder)


def card_of_drafter(
    kind: str, model: nn.Module, *, phases: Sequence[Path], history: Sequence[Training], folder: Path
) -> Path:
    """Write the card of a drafter of a ``kind`` in :data:`DRAFTERS`; scores are those of its run's last evaluation."""
    size = sum(p.numel() for p in model.parameters())
    summary, prefix, rounds = DRAFTERS[kind]
    card = Card(
        name=f"{FAMILY}-{kind}-{size / 1e6:.1f}M",
        summary=summary,
        shape=f"{size / 1e6:.1f} M parameters, stored in bf16; see config.json.",
        history=history,
        scores=last_scores(phases, prefix),
        score_name=f"Simulated greedy tokens per round, {rounds}, on text the target wrote after held-out prompts",
        samples={},
    )
    return write_card(card, folder)


DRAFTERS = {
    "mdlm": (
        "A masked discrete diffusion model (MDLM, arXiv 2406.07524) that drafts for its target as in SpecDiff "
        "(arXiv 2408.05636): trained with the SUBS objective, then on windows of masks with the target's own "
        "distribution as labels, many of them in text that the target wrote. Format of "
        "`kuleshov-group/mdlm-owt`.",
        "tokens_per_round/",
        "γ = 8, T = 1",
    ),
    "mdlm_streak": (
        "The masked discrete diffusion drafter aligned with its target by streak-distillation (SpecDiff-2, arXiv "
        "2511.00606): fully masked windows of text that the target wrote, weighted by the probability that all tokens "
        "to the left are accepted. Format of `kuleshov-group/mdlm-owt`.",
        "tokens_per_round/",
        "γ = 8, T = 1",
    ),
    "autoregressive": (
        "A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, 2302.01318): a stock "
        "`LlamaForCausalLM` that learned the target's distributions (arXiv 2310.08461), mostly on text the target "
        "wrote.",
        "tokens_per_round/",
        "γ = 4",
    ),
    "eagle": (
        "EAGLE's head (arXiv 2401.15077, and with a dynamic tree EAGLE-2, 2406.16858): one decoder layer that "
        "continues its target's last hidden states, between the target's own embedding and head; trained on its "
        "distributions and features over three readings of each row, mostly on text the target wrote. Names and "
        "shapes of the released EAGLE checkpoints.",
        "tokens_per_round/",
        "γ = 4",
    ),
    "block": (
        "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036): it reads its "
        "target's hidden states and uses its embedding and head. Trained on random anchors and mask ratios with the "
        "target's own distribution as labels, mostly on text the target wrote. Format of the released DFlash "
        "checkpoints.",
        "tau8/",
        "γ = 8, T = 1",
    ),
    "block_markov": (
        "A target-conditioned block-diffusion drafter (DFlash, arXiv 2602.06036) with a Markov head: a token of its "
        "block depends on the one before it (as in DSpark, arXiv 2607.05147; here the head moves the hidden state and "
        "the target's own head reads it). Begun from the drafter without it, trained in the same way. Format of the "
        "released DFlash checkpoints, with three matrices more and `markov_width` in `dflash_config`.",
        "tau8/",
        "γ = 8, T = 1",
    ),
}
"""Drafter -> what it is; how its held-out tokens per round are called in its metrics, and what they are of."""
