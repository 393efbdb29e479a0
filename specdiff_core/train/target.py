"""Trains the embedded target: a stock Llama on packed text. Knows nothing about drafters."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.models.folders import INDEX
from specdiff_core.train.corpus import Corpus, Mixture, Stream, balanced_weights, encode_documents
from specdiff_core.train.loop import Plan, TrainEvent, train

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def new_target(vocab_size: int, *, layers: int = 16, width: int = 256, context: int = 512) -> LlamaForCausalLM:
    """An untrained ``LlamaForCausalLM``: deep and narrow, since decoding cost follows depth. Heads of 64, tied ends."""
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=width,
            intermediate_size=64 * round(width * 8 / 3 / 64),
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            num_key_value_heads=width // 64,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            bos_token_id=0,
            eos_token_id=0,
            pad_token_id=0,
        )
    )


def mixture(
    corpus: Corpus, tokenizer: PreTrainedTokenizerFast, cache: Path, seed: int
) -> tuple[Mixture, dict[str, np.ndarray]]:
    """The training batches of a corpus, and its held-out tokens by flavour."""
    streams: dict[str, Stream] = {}
    sizes: dict[str, int] = {}
    held_out: dict[str, np.ndarray] = {}
    end = tokenizer.eos_token_id
    for index, flavour in enumerate(corpus.flavours):
        tokens, starts = encode_documents(corpus, flavour, "train", tokenizer.backend_tokenizer, end, cache)
        streams[flavour] = Stream(tokens, starts, (seed, index))
        sizes[flavour] = len(tokens)
        held_out[flavour] = encode_documents(corpus, flavour, "valid", tokenizer.backend_tokenizer, end, cache)[0]
    return Mixture(streams, balanced_weights(sizes), seed), held_out


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, tokens: np.ndarray, *, length: int = 512, rows: int | None = None) -> float:
    """Mean next-token loss in nats over consecutive whole windows of ``length`` tokens (``rows`` windows at most)."""
    length = min(length, len(tokens) - 1)  # a held-out split shorter than one window is one window
    windows = [tokens[i : i + length + 1] for i in range(0, len(tokens) - length, length)][:rows]
    total = 0.0
    for first in range(0, len(windows), 8):
        batch = torch.from_numpy(np.stack(windows[first : first + 8]).astype(np.int64)).to(model.device)
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
        total += float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"))
    return total / (len(windows) * length)


class TargetTask:
    """Next-token cross-entropy of a Llama, bf16 autocast, for :func:`specdiff_core.train.loop.train`."""

    def __init__(
        self,
        model: LlamaForCausalLM,
        corpus: Corpus,
        tokenizer: PreTrainedTokenizerFast,
        cache: Path,
        *,
        rows: int = 16,
        length: int = 256,
        seed: int = 0,
        compile: bool = True,
    ) -> None:
        self._model = model
        self._rows, self._length = rows, length
        self.tokens_per_step = rows * length
        self._mixture, self._held_out = mixture(corpus, tokenizer, cache, seed)
        # On CPU the backward of fused attention wins over plain matrix products in long rows only (measured: 256
        # tokens ×1.15 to ×1.5 slower, 512 tokens ×1.8 faster).
        model.set_attn_implementation("eager" if model.device.type == "cpu" and length < 512 else "sdpa")
        self._loss: Callable[[Tensor], Tensor] = torch.compile(self._forward) if compile else self._forward

    @property
    def model(self) -> LlamaForCausalLM:
        return self._model

    def _forward(self, batch: Tensor) -> Tensor:
        with torch.autocast(self._model.device.type, torch.bfloat16):
            hidden = self._model.model(input_ids=batch[:, :-1], use_cache=False).last_hidden_state
            logits = F.linear(hidden, self._model.lm_head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())

    def loss(self) -> Tensor:
        batch = self._mixture.batch(self._rows, self._length + 1)
        return self._loss(torch.from_numpy(batch).to(self._model.device))

    def skip(self) -> None:
        self._mixture.batch(self._rows, self._length + 1)

    def evaluate(self) -> dict[str, float]:
        return self.losses(rows=16)

    def losses(self, rows: int | None = None) -> dict[str, float]:
        """Held-out nats per token by flavour and their mean, over ``rows`` windows of each (all by default)."""
        scores = {
            name: held_out_loss(self._model, tokens, length=self._length, rows=rows)
            for name, tokens in self._held_out.items()
        }
        return {**scores, "mean": sum(scores.values()) / len(scores)}


def train_target(
    model: LlamaForCausalLM,
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerFast,
    cache: Path,
    plan: Plan,
    *,
    rows: int = 16,
    length: int = 256,
    seed: int = 0,
    compile: bool = True,
) -> Iterator[TrainEvent]:
    """Train ``model`` on ``rows`` windows of ``length`` tokens per step; see :func:`specdiff_core.train.loop.train`."""
    task = TargetTask(model, corpus, tokenizer, cache, rows=rows, length=length, seed=seed, compile=compile)
    yield from train(task, plan)


def export_target(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, out: Path) -> Path:
    """Write the model as transformers loads it, and its tokenizer."""
    tokenizer.save_pretrained(export_causal(model, out))
    return out


def export_causal(model: LlamaForCausalLM, out: Path) -> Path:
    """Write the model alone: bf16 safetensors in shards below 9 MB."""
    out.mkdir(parents=True, exist_ok=True)
    for stale in (*out.glob("*.safetensors"), out / INDEX):
        stale.unlink(missing_ok=True)
    dtype = model.dtype
    # ``model`` is left with what was stored, so that it can be measured; its rotary frequencies stay as they are.
    rotary = copy.deepcopy(model.model.rotary_emb)
    model.to(torch.bfloat16).save_pretrained(out, max_shard_size="8MB")
    model.to(dtype).model.rotary_emb = rotary
    return out
