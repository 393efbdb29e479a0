"""The DFlash network (arXiv 2602.06036): Qwen3-style layers denoise a block, reading a target's hidden states.

Its files have the released names: ``config.json`` with Qwen3's fields, ``block_size`` (anchor included),
``num_target_layers`` and ``dflash_config``. Its forward pass is the one that transformers' own DFlash candidate
generator calls. Embedding and output head are the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import torch
from torch import Tensor, nn
from transformers import Qwen3Config  # transformers >= 4.51 brought Qwen3
from transformers.modeling_outputs import BaseModelOutputWithPast

from specdiff_core.models.files import read_tensors, write_folder
from specdiff_core.models.folders import Id, Size, as_config, described, read_config
from specdiff_core.models.kernels import Product, Separate
from specdiff_core.models.markov import MarkovHead
from specdiff_core.models.network import Attend, Heads, Layer, Rope, Shape, at, attend, near, rotary_table


class _Special(msgspec.Struct):
    """The part of a released ``config.json`` under ``dflash_config``; ``markov_width`` is this project's own."""

    mask_token_id: Id
    target_layer_ids: Annotated[list[Id], msgspec.Meta(min_length=1)]
    markov_width: Annotated[int, msgspec.Meta(ge=0, le=2**20)] = 0


class _Released(msgspec.Struct):
    """What is checked of a released ``config.json``; Qwen3's other fields are its own business."""

    dflash_config: _Special
    hidden_size: Size
    intermediate_size: Size
    num_hidden_layers: Size
    num_attention_heads: Size
    block_size: Annotated[int, msgspec.Meta(ge=2, le=2**16)] = 16  # an anchor and at least one mask
    head_dim: Size | None = None
    num_key_value_heads: Size | None = None
    sliding_window: Size | None = None


def read_released(values: dict[str, Any]) -> Qwen3Config:
    """A released ``config.json`` -> Qwen3 config with ``block_size``, ``mask_token_id``, ``target_layer_ids`` and
    ``markov_width`` on top.

    Raises:
        WeightsError: a field of its own is missing or impossible.
    """
    known = as_config(values, _Released, "config.json")
    config = Qwen3Config(**values)
    config.layer_types = list(config.layer_types or ["full_attention"] * config.num_hidden_layers)
    if "sliding_attention" in config.layer_types:
        config.sliding_window = known.sliding_window  # Qwen3Config drops it unless use_sliding_window is set
    config.block_size = known.block_size
    for name, value in msgspec.structs.asdict(known.dflash_config).items():
        setattr(config, name, value)
    return config


class DFlashDraftModel(nn.Module):
    """A target-conditioned block denoiser, without embedding and head: it uses the target's.

    Args:
        released: the contents of ``config.json``; with a ``markov_width``, a token depends on the one before it.
    """

    layers: Sequence[Layer]

    def __init__(self, released: dict[str, Any]) -> None:
        super().__init__()
        self.released = dict(released)
        self.config = config = read_released(released)
        self.shape = shape = Shape.of(config)
        self.fc = nn.Linear(len(config.target_layer_ids) * shape.width, shape.width, bias=False)
        self.hidden_norm = shape.norm()
        layers = (Layer(shape, index) for index in range(shape.layers))
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # a list of modules, typed as what it holds
        self.norm = shape.norm()
        self.markov = MarkovHead(shape.width, config.markov_width) if config.markov_width else None
        kinds = config.layer_types or []
        self.windows = [config.sliding_window if kind == "sliding_attention" else None for kind in kinds]
        rotary_table(config, torch.zeros(1, 1), torch.float32)  # odd positions are refused now, not in a run
        self._read: Product | None = None  # fc
        self._context: Heads | None = None  # k and v of all layers

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the matrices of an untrained network: normal, ``config.initializer_range``; norms stay one."""
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=self.config.initializer_range, generator=generator)
        if self.markov is not None:
            self.markov.initialize(generator, std=self.config.initializer_range)

    @property
    def device(self) -> torch.device:
        return next(self.norm.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.norm.parameters()).dtype

    def read_features(self, features: Tensor) -> Tensor:
        """``features [B, n, F·W]``, the target's layers side by side -> what every layer reads ``[B, n, W]``."""
        read: Tensor = self.hidden_norm(self.fc(features) if self._read is None else self._read(features))
        return read

    def rope(self, positions: Tensor, dtype: torch.dtype | None = None) -> Rope:
        """cos and signed sin at absolute ``positions [B, n]``, for all heads."""
        return rotary_table(self.config, positions, dtype or self.dtype)

    def prepare(self) -> DFlashDraftModel:
        """Freeze for inference: eval mode, no gradients, fewer and larger products. Call after moving the model."""
        self.eval().requires_grad_(False)
        self._context = Heads([layer.self_attn for layer in self.layers], "k", partial(Product.of, keep=True))
        self._read = Product.of([self.fc])
        for layer in self.layers:
            layer.freeze()
        return self

    def context_keys_values(self, context: Tensor, rope: Rope) -> list[tuple[Tensor, Tensor]]:
        """Every layer's k and v ``[B, Hkv, n, D]`` of what :meth:`read_features` returned, ``context [B, n, W]``."""
        if self._context is None:
            return [Heads([layer.self_attn], "k", Separate)(context, rope) for layer in self.layers]
        keys, values = (part.chunk(len(self.layers), 1) for part in self._context(context, rope))
        return list(zip(keys, values, strict=True))

    def denoise(self, embeddings: Tensor, rope: Rope, attend: Attend) -> Tensor:
        """One pass over a block: ``embeddings [B, n, W]`` -> final hidden states for the target's head.

        ``attend`` decides what each layer's queries read besides the block itself; that is all in which decoding,
        training and transformers' own loop differ.
        """
        hidden = embeddings
        for layer in self.layers:
            hidden = layer(hidden, rope, attend)
        out: Tensor = self.norm(hidden)
        return out

    def forward(
        self,
        noise_embeds: Tensor,
        context_hidden_states: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **unused: Any,
    ) -> BaseModelOutputWithPast:
        """The signature of transformers' ``DFlashTokenCandidateGenerator`` (5.2x): stock ``generate`` runs it.

        Args:
            noise_embeds: ``[B, b, W]`` target embeddings of anchor and masks.
            context_hidden_states: ``[B, n, F·W]`` features of the newly committed tokens only.
            position_ids: ``[B, n + b]`` absolute positions of both; by default they continue the cache.
            attention_mask: ``[B, m]`` nonzero where a key may be read, m all keys; None reads all.
            past_key_values: a transformers cache with ``update(k, v, layer)``; the caller crops the block off again.
        """
        context = self.read_features(context_hidden_states)
        fresh, block = context.shape[1], noise_embeds.shape[1]
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(seen, seen + fresh + block, device=context.device)[None]
        rope = self.rope(position_ids, noise_embeds.dtype)
        places = position_ids[0, fresh:]
        old = self.context_keys_values(context, at(rope, slice(fresh)))

        def read(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            old_k, old_v = old[index]
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, index)
            # Counted from the end: a sliding cache may have cut the front.
            keys = places[-1] + torch.arange(1 - k.shape[2], 1, device=k.device)
            window = self.windows[index]
            mask = None if window is None else near(places, keys, window)
            if attention_mask is not None and not bool(attention_mask.all()):
                readable = attention_mask[:, None, None, -k.shape[2] :].bool()
                mask = readable if mask is None else readable & mask
            return attend(q, k, v, mask)

        hidden = self.denoise(noise_embeds, at(rope, slice(fresh, None)), read)
        return BaseModelOutputWithPast(last_hidden_state=hidden, past_key_values=past_key_values)


def from_folder(folder: Path | str, dtype: torch.dtype = torch.float32) -> DFlashDraftModel:
    """Load a released or embedded drafter: ``config.json`` and one or more safetensors files, frozen, on the CPU.

    Raises:
        WeightsError: a file is missing or damaged, or the tensors do not fit the config.
    """
    folder = Path(folder)
    values = read_config(folder)
    with described(folder, "DFlash drafter"):
        model = DFlashDraftModel(values)
    model.load_state_dict(read_tensors(folder, model.state_dict()))
    return model.to(dtype).eval().requires_grad_(False)


def save_to_folder(model: DFlashDraftModel, folder: Path | str) -> Path:
    """Write ``config.json`` and the weights as bf16 safetensors, in shards below 9 MB."""
    return write_folder(Path(folder), model.released, model.state_dict())
