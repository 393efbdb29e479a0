"""``train target`` and ``train written``: a stock Llama as the target of a pair, and the text that it writes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.schema.errors import ConfigError
from specdiff_core.train.cards import FAMILY, Card
from specdiff_core.train.jobs import ModelJob, ModelSettings, RunJob, TextSettings, load_llama, option

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.train.trainer import Task

TEMPERATURES = (0.0, 0.0, 0.7, 1.0)
"""The texts that the target writes take these in turn: greedy twice as often as each of the others."""


@dataclass(frozen=True, kw_only=True)
class TargetSettings(ModelSettings):
    length: int = option(256, "tokens per row", low=1)
    layers: int = option(16, "layers of a new target", low=1)
    width: int = option(256, "width of a new target", low=64)


class TargetJob(ModelJob[TargetSettings]):
    """The target, on the corpus."""

    name, settings_type = "target", TargetSettings
    about = "Train the target of a pair: a stock LlamaForCausalLM."
    model: LlamaForCausalLM

    def begin(self) -> LlamaForCausalLM:
        settings = self.settings
        if settings.start:
            return load_llama(settings.start, self.device).requires_grad_(True)
        return new_target(len(self.data.tokenizer), layers=settings.layers, width=settings.width)

    def task(self) -> Task:
        from specdiff_core.train.next_token_task import TargetTask

        return TargetTask(self.model, self.data, self.settings)

    def export(self) -> None:
        self.data.tokenizer.save_pretrained(export_causal(self.model, self.out))

    def card(self) -> Card:
        """Measured on the weights as they were exported, over the whole validation split."""
        from specdiff_core.train.next_token_task import held_out_loss, samples
        from specdiff_core.train.trainer import with_means

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


def heads_of(width: int) -> int:
    """Attention heads of a new model, of 64 channels each. ConfigError: ``width`` is not a multiple of 64."""
    if width % 64:
        raise ConfigError(f"--width {width} does not split into heads.", field="width", hint="Give a multiple of 64.")
    return width // 64


def new_target(vocab_size: int, *, layers: int = 16, width: int = 256, context: int = 512) -> LlamaForCausalLM:
    """An untrained ``LlamaForCausalLM``: deep and narrow, since decoding cost follows depth. Tied embedding."""
    from transformers import LlamaConfig, LlamaForCausalLM

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
    import torch

    from specdiff_core.models.folders import INDEX

    out.mkdir(parents=True, exist_ok=True)
    for stale in (*out.glob("*.safetensors"), out / INDEX):
        stale.unlink(missing_ok=True)
    dtype, rotary = model.dtype, copy.deepcopy(model.model.rotary_emb)
    model.to(torch.bfloat16)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    model.save_pretrained(out, max_shard_size="8MB")
    model.to(dtype)  # type: ignore[arg-type]  # the same
    model.model.rotary_emb = rotary
    return out


@dataclass(frozen=True, kw_only=True)
class WrittenSettings(TextSettings):
    parts: int = option(100, "parts of target-written text", low=1)
    texts: int = option(64, "texts in each new part", low=1)
    temperatures: tuple[float, ...] = option(
        TEMPERATURES, "temperatures that the texts of a part take in turn; 0 is greedy", low=0, high=2
    )


class WrittenJob(RunJob[WrittenSettings]):
    """Text that the target writes, for its drafters to learn from."""

    name, settings_type = "written", WrittenSettings
    about = "Let the target write text for its drafters to learn from."

    @property
    def total(self) -> int:
        return self.settings.parts

    def events(self) -> Iterator[Any]:
        from specdiff_core.train.target_text import fast_copy, write_text

        settings = self.settings
        writer = fast_copy(load_llama(settings.target, self.device))
        sizes: Any = {"parts": settings.parts, "rows": settings.texts, "seed": settings.seed}
        folder, temperatures = settings.written, settings.temperatures
        yield from write_text(writer, self.data, "train", folder, temperatures=temperatures, **sizes)

    def finish(self) -> Path:
        return self.settings.written
