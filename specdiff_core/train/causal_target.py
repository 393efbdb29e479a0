"""``train target`` and ``train written``: a stock Llama as the target of a pair, and the text that it writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from specdiff_core.models.files import empty_folder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.cards import FAMILY, Card
from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.jobs import ModelJob, RunJob, load_llama
from specdiff_core.train.rows import PackedRows
from specdiff_core.train.settings import TargetSettings, WrittenSettings
from specdiff_core.train.target_text import fast_copy, greedy_text, write_text
from specdiff_core.train.task import Task, attention_for, with_means


class TargetJob(ModelJob):
    """The target, on the corpus."""

    settings: TargetSettings
    model: LlamaForCausalLM

    def begin(self) -> LlamaForCausalLM:
        settings = self.settings
        if settings.start:
            return load_llama(settings.start, self.device).requires_grad_(True)
        return new_target(len(self.data.tokenizer), layers=settings.layers, width=settings.width)

    def task(self) -> Task:
        return TargetTask(self.model, self.data, self.settings)

    def export(self) -> None:
        self.data.tokenizer.save_pretrained(export_causal(self.model, self.out))

    def card(self) -> Card:
        """Measured on the weights as they were exported, over the whole validation split."""
        held_out, config = self.data.held_out(), self.model.config
        return Card(
            name=f"{FAMILY}-{self.millions:.0f}M",
            summary=f"A small, deep causal language model of {len(held_out)} flavours of text "
            f"({', '.join(held_out)}): the target of a pair for SpecDiff Lab.",
            shape=f"A stock `LlamaForCausalLM`: {config.num_hidden_layers} layers × {config.hidden_size}, "
            f"{config.num_attention_heads} heads, {self.millions:.1f} M parameters, vocabulary {config.vocab_size}, "
            f"context {config.max_position_embeddings}, tied embedding; stored in bf16.",
            history=self.history(),
            scores=with_means({name: held_out_loss(self.model, tokens) for name, tokens in held_out.items()}),
            score_name="Held-out loss (nats per token, whole validation split, windows of 512)",
            samples=samples(self.model, self.data),
            tags=("llama",),
        )


class TargetTask(Task):
    """Next-token cross-entropy of a Llama, bf16 autocast."""

    model: LlamaForCausalLM

    def __init__(self, model: LlamaForCausalLM, data: EncodedCorpus, settings: TargetSettings) -> None:
        self._length = settings.length
        rows = max(1, settings.batch_tokens // self._length)
        packed = PackedRows(data, settings.seed, rows=rows, length=self._length + 1)
        super().__init__(model, settings, packed, data.held_out())
        model.set_attn_implementation(attention_for(model.device, self._length))

    @property
    def tokens_per_step(self) -> int:
        return int(self.rows.rows * self._length)

    def objective(self, *inputs: Any) -> Tensor:
        (ids,) = inputs
        with torch.autocast(ids.device.type, torch.bfloat16):
            hidden = self.model.model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
            logits = F.linear(hidden, self.model.lm_head.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    def score(self, flavour: str, held_out: np.ndarray) -> dict[str, float]:
        """Nats per token, over 16 windows."""
        return {"": held_out_loss(self.model, held_out, self._length, 16)}


@torch.no_grad()
def held_out_loss(model: LlamaForCausalLM, tokens: np.ndarray, length: int = 512, rows: int | None = None) -> float:
    """Mean next-token loss in nats over consecutive whole windows of ``length`` tokens (``rows`` windows at most)."""
    length = min(length, len(tokens) - 1)  # a held-out split shorter than one window is one window
    windows = [tokens[i : i + length + 1] for i in range(0, len(tokens) - length, length)][:rows]
    total = 0.0
    for first in range(0, len(windows), 8):
        batch = torch.from_numpy(np.stack(windows[first : first + 8]).astype(np.int64)).to(model.device)
        logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
        total += float(F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum"))
    return total / (len(windows) * length)


def samples(target: LlamaForCausalLM, data: EncodedCorpus, *, prompt: int = 24, length: int = 72) -> dict[str, str]:
    """A greedy continuation of the first ``prompt`` tokens of each flavour's first long validation document."""
    texts = {}
    for name, (tokens, starts) in data.split("valid").items():
        sizes = np.diff(np.append(starts, len(tokens)))
        first = starts[np.argmax(sizes > prompt)]  # where none is long, the first
        ids = torch.from_numpy(tokens[first : first + prompt].astype(np.int64))[None].to(target.device)
        out = greedy_text(target, ids, length, mask=data.mask, end=data.end)[0]
        said = data.tokenizer.decode(out[prompt:], skip_special_tokens=True)
        texts[name] = f"{data.tokenizer.decode(out[1:prompt])}⟶{said}"
    return texts


def heads_of(width: int) -> int:
    """Attention heads of a new model, of 64 channels each. ConfigError: ``width`` is not a multiple of 64."""
    if width % 64:
        raise ConfigError(f"--width {width} does not split into heads.", field="width", hint="Give a multiple of 64.")
    return width // 64


def new_target(vocab_size: int, *, layers: int = 16, width: int = 256, context: int = 512) -> LlamaForCausalLM:
    """An untrained ``LlamaForCausalLM``: deep and narrow, since decoding cost follows depth. Tied embedding."""
    config = LlamaConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        intermediate_size=64 * round(width * 8 / 3 / 64),
        num_hidden_layers=layers,
        num_attention_heads=heads_of(width),
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def export_causal(model: LlamaForCausalLM, out: Path) -> Path:
    """Write a model as transformers loads it: bf16 safetensors in shards below 9 MB.

    ``model`` is left with what was stored, so that it can be measured; its rotary frequencies stay as they are.
    """
    empty_folder(out)
    dtype, rotary = model.dtype, copy.deepcopy(model.model.rotary_emb)
    model.to(torch.bfloat16)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    model.save_pretrained(out, max_shard_size="8MB")
    model.to(dtype)  # type: ignore[arg-type]  # the same
    model.model.rotary_emb = rotary
    return out


class WrittenJob(RunJob):
    """Text that the target writes, for its drafters to learn from."""

    settings: WrittenSettings

    @property
    def total(self) -> int:
        return self.settings.parts

    def events(self) -> Iterator[Any]:
        settings = self.settings
        yield from write_text(
            fast_copy(load_llama(settings.target, self.device)),
            self.data,
            "train",
            settings.written,
            parts=settings.parts,
            rows=settings.texts,
            seed=settings.seed,
            temperatures=settings.temperatures,
        )

    def finish(self) -> Path:
        return self.settings.written
