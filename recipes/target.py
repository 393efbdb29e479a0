"""The target of the pair, a stock LlamaForCausalLM: python recipes/target.py --corpus DIR"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from common import ModelSettings, Session, begin_llama, export_llama, generator, load_llama, new_llama, run
from text import Text
from torch import Tensor
from transformers import LlamaForCausalLM

from specdiff_core.schema.fields import ask
from specdiff_core.train.drafter import with_mean
from specdiff_core.train.learners import autocast


class Settings(ModelSettings, frozen=True, kw_only=True):
    layers: Annotated[int, ask("", "layers of a new target", 1)] = 16
    width: Annotated[int, ask("", "width of a new target", 64)] = 256


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, tokens: np.ndarray, length: int = 512, rows: int | None = None) -> float:
    """Mean next-token loss in nats over whole windows of ``length`` tokens (at most ``rows``)."""
    length = min(length, len(tokens) - 1)  # a held-out split shorter than one window is one window
    windows = [tokens[i : i + length + 1] for i in range(0, len(tokens) - length, length)][:rows]
    total = 0.0
    for first in range(0, len(windows), 8):
        batch = torch.from_numpy(np.stack(windows[first : first + 8]).astype(np.int64)).to(model.device)
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
        total += float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"))
    return total / (len(windows) * length)


@torch.no_grad()
def samples(model: LlamaForCausalLM, text: Text, *, prompt: int = 24, length: int = 72) -> dict[str, str]:
    """Greedy continuations of the first ``prompt`` tokens of a held-out document per flavour."""
    by_flavour = {}
    for name, documents in text.split("valid").items():
        ids = torch.from_numpy(documents.beginnings(min(prompt, len(documents.tokens)), 1)).to(model.device)
        out = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            suppress_tokens=[text.mask],
        )[0].tolist()
        begin, rest = (text.tokenizer.decode(part, skip_special_tokens=True) for part in (out[:prompt], out[prompt:]))
        by_flavour[name] = f"{begin}⟶{rest}"
    return by_flavour


def main(settings: Settings) -> Path:
    session = Session(settings, "target")
    text, length = session.text, settings.length
    sizes = {"layers": settings.layers, "width": settings.width}
    model = begin_llama(session, lambda: new_llama(len(text.tokenizer), **sizes))

    def next_token_loss(ids: Tensor) -> Tensor:
        with autocast(ids.device):
            hidden = model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
            logits = F.linear(hidden, model.lm_head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    objective = torch.compile(next_token_loss, dynamic=False) if settings.compile else next_token_loss

    def loss(step: int) -> Tensor:
        rows = text.draw_rows(generator(settings, step), settings.rows, length + 1)
        value: Tensor = objective(torch.from_numpy(rows).to(session.device))
        return value

    def measure() -> dict[str, float]:
        held_out = text.split("valid")
        return with_mean({name: held_out_loss(model, docs.tokens, length, 16) for name, docs in held_out.items()})

    session.train(model, loss, measure, settings.rows * length)
    text.tokenizer.save_pretrained(export_llama(model, session.out))
    stored = load_llama(session.out, session.device, "target")  # measured as it was stored
    scores = with_mean({name: held_out_loss(stored, docs.tokens) for name, docs in text.split("valid").items()})
    flavours, config = text.corpus.flavours, model.config
    return session.card(
        model,
        f"A small, deep causal language model of {len(flavours)} flavours of text "
        f"({', '.join(flavours)}): the target of a pair for SpecDiff Lab.",
        shape=f"A stock `LlamaForCausalLM`: {config.num_hidden_layers} layers × "
        f"{config.hidden_size}, {config.num_attention_heads} heads, vocabulary "
        f"{config.vocab_size}, context {config.max_position_embeddings}, tied embedding.",
        scores=scores,
        score_name="Held-out loss (nats per token, whole validation split, windows of 512)",
        samples=samples(stored, text),
        tags=("llama",),
    )


if __name__ == "__main__":
    sys.exit(run(main, Settings()))
