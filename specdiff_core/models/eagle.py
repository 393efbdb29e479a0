"""EAGLE's head (arXiv 2401.15077, also used by EAGLE-2, 2406.16858): one decoder layer that
continues the target's features; and EAGLE-3's (2503.01840), which reads several layers and has its
own output head. Files have the released names and shapes."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor, nn
from transformers import LlamaConfig, Qwen3Config

from specdiff_core.checkpoints.folders import Id, Size, as_config, loading_errors, read_config, short_path
from specdiff_core.checkpoints.reading import read_drafter, read_tensors, tensor_names
from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.models.kernels import Product
from specdiff_core.models.network import (
    Attend,
    Layer,
    Rope,
    Shape,
    Vocabulary,
    causal,
    has_sliding_layers,
    rope_at,
    rotary_table,
    unsupported_layers,
)
from specdiff_core.schema.errors import WeightsError

UNUSED = ("embed_tokens.weight",)  # the target's table, included in EAGLE's releases


class EagleHead(nn.Module):
    """fc([e; f]) and one Llama layer without its first norm; its result is a feature, not normed.

    Args:
        config: of a Llama with one layer, as wide as the target.
        stored: tensor names in its files; released heads may have biases of fc, and of q, k and v.
        inputs, layer: what fc reads of the target, and the layer, if they differ (EAGLE-3).
    """

    layers: Sequence[Layer]
    features: int  # width of its input from the target at a token
    own_words = False  # whether it has an embedding and an output head, and so any width
    device: torch.device  # this and the following: once frozen
    dtype: torch.dtype
    _words: Vocabulary
    _rope: Rope

    def __init__(
        self, config: LlamaConfig, stored: Collection[str] = (), *, inputs: int = 0, layer: Layer | None = None
    ) -> None:
        super().__init__()
        self.config = config
        self.shape = shape = _shape(config, stored)
        self.features = inputs or shape.width
        self.fc = nn.Linear(inputs or 2 * shape.width, shape.width, bias="fc.bias" in stored)
        layers = [layer or Layer(shape, 0, first_norm=False)]
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # as in CausalLM
        self._join: Product | None = None  # fc

    def freeze(self, vocab: Vocabulary, *, context: int) -> EagleHead:
        """Prepare for decoding with the target's embedding and output head, at up to ``context``
        positions. Call after the weights are loaded and moved to their device."""
        self.device, self.dtype = self.fc.weight.device, self.fc.weight.dtype
        self._words = vocab
        self._rope = rotary_table(self.config, torch.arange(context, device=self.device)[None], self.dtype)
        self._join = Product.of([self.fc])
        self.layers[0].freeze()
        return self

    def target_layers(self, depth: int) -> tuple[int, ...]:
        """The layers of a target of ``depth`` layers that it reads."""
        return (depth - 1,)

    def read(self, features: Tensor) -> Tensor:
        """The target's ``features [n, F]`` -> the layer's input ``[n, W]``."""
        return features

    def forward(
        self, embeddings: Tensor, features: Tensor, rope: Rope | None = None, attend: Attend = causal
    ) -> Tensor:
        """``embeddings [B, n, W]`` of tokens t + 1 and ``features [B, n, W]`` of tokens t ->
        features of tokens t + 1; by default for a whole text."""
        if rope is None:
            positions = torch.arange(embeddings.shape[1], device=embeddings.device)[None]
            rope = rotary_table(self.config, positions, embeddings.dtype)
        return self._continue(embeddings, features.to(embeddings), rope, attend)

    def _continue(self, embeddings: Tensor, features: Tensor, rope: Rope, attend: Attend) -> Tensor:
        joined = (self._join or self.fc)(torch.cat([embeddings, features], -1))
        out: Tensor = self.layers[0](joined, rope, attend)
        return out

    def decode(
        self,
        ids: Tensor,
        positions: slice | Tensor,
        attend: Attend,
        *,
        layers: Sequence[int] = (),
        last: int | None = None,
        features: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits ``[1, last or n, V]`` of token t + 2 after each token t + 1 of ``ids [1, n]``, and
        as the output of layer 0 the features ``[1, n, W]`` behind them."""
        assert features is not None, "EAGLE reads features"
        hidden = self(self._words.embed(ids), features, rope_at(self._rope, positions), attend)
        states = hidden if last is None else hidden[:, hidden.shape[1] - last :]
        return self._words.head(states), [hidden] * len(layers)


def _shape(config: LlamaConfig, stored: Collection[str]) -> Shape:
    biased = any(name.endswith("q_proj.bias") for name in stored)
    return dataclasses.replace(Shape.of(config), layers=1, qkv_bias=biased)


class JoinedLayer(Layer):
    """EAGLE-3's layer: its attention reads a token's embedding and a feature, each normed
    separately; with ``normed_residual`` the residual stream starts from the normed feature."""

    def __init__(self, shape: Shape, *, normed_residual: bool) -> None:
        super().__init__(shape, 0, inputs=2 * shape.width)
        self.hidden_norm = shape.norm()
        self._normed = normed_residual

    def join(self, embeddings: Tensor, features: Tensor, rope: Rope | None, attend: Attend) -> Tensor:
        """``[B, n, W]`` each -> ``[B, n, W]``."""
        normed = self.hidden_norm(features)
        read = torch.cat([self.input_layernorm(embeddings), normed], -1)
        return self.forward(normed if self._normed else features, rope, attend, read)


class Eagle3Head(EagleHead):
    """fc of several layers of the target (low, middle and high), one layer over that and the
    embedding, a norm and an output head.

    Args:
        config: of a Llama or Qwen3 with one layer.
        spec: the other fields of ``config.json``.
        stored: tensor names in its files.
    """

    draft_ids: Tensor | None = None  # ids [n] that it can draft, ascending; None: all

    def __init__(self, config: LlamaConfig, spec: _Eagle3, stored: set[str]) -> None:
        shape, vocab = _shape(config, stored), int(config.vocab_size)
        inputs = len(spec.read or range(3)) * (spec.target_hidden_size or shape.width)
        layer = JoinedLayer(shape, normed_residual=bool(spec.norm_before_residual))
        super().__init__(config, stored, inputs=inputs, layer=layer)
        self.norm = shape.norm()
        self.embed_tokens = nn.Embedding(vocab, shape.width) if "embed_tokens.weight" in stored else None
        draft_vocab = spec.draft_vocab_size or vocab
        self.lm_head = nn.Linear(shape.width, draft_vocab, bias=False) if "lm_head.weight" in stored else None
        self.own_words = self.embed_tokens is not None and self.lm_head is not None
        self.read_layers = spec.read

    def target_layers(self, depth: int) -> tuple[int, ...]:
        """The layers in ``config.json``; if it has none, the inputs of layers 2, L/2 and L − 3."""
        return self.read_layers or (1, depth // 2 - 1, depth - 4)

    def freeze(self, vocab: Vocabulary, *, context: int) -> Eagle3Head:
        super().freeze(vocab, context=context)
        size = int(self.config.vocab_size)
        head, ids = vocab.head, None if self.draft_ids is None else self.draft_ids.to(self.device)
        if self.lm_head is not None:
            head = Product(self.lm_head.weight)

        def speak(states: Tensor) -> Tensor:
            logits = head(self.norm(states))
            if ids is None:
                return logits
            return logits.new_full((*logits.shape[:-1], size), -torch.inf).index_copy(-1, ids, logits)

        self._words = Vocabulary(self.embed_tokens or vocab.embed, vocab.output, speak)
        return self

    def read(self, features: Tensor) -> Tensor:
        states: Tensor = (self._join or self.fc)(features.to(self.device, self.dtype))
        return states

    def _continue(self, embeddings: Tensor, features: Tensor, rope: Rope, attend: Attend) -> Tensor:
        layer: Any = self.layers[0]
        states: Tensor = layer.join(embeddings, features, rope, attend)
        return states


class _Nested(msgspec.Struct):
    """``eagle_config``, as ModelOpt writes it; its layers are counted from 0, the first layer."""

    eagle_aux_hidden_state_layer_ids: list[Id] | None = None


class _Eagle3(msgspec.Struct):
    """Fields of an EAGLE-3 ``config.json`` besides Llama's."""

    draft_vocab_size: Size | None = None
    target_hidden_size: Size | None = None
    norm_before_residual: bool | None = None
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool | None = None  # speculators: of the feature; SpecForge: of the head's input
    eagle_aux_hidden_state_layer_ids: list[Id] | None = None  # the embedding is 0
    target_layer_ids: list[Id] | None = None  # DeepSpec: the first layer is 0
    eagle_config: _Nested | None = None
    speculators_model_type: str | None = None
    transformer_layer_config: dict[str, Any] | None = None  # speculators: Llama's fields

    @property
    def read(self) -> tuple[int, ...] | None:
        """The target's layers, counted from 0; None if not given."""
        if self.eagle_aux_hidden_state_layer_ids:
            return tuple(index - 1 for index in self.eagle_aux_hidden_state_layer_ids)
        nested = self.eagle_config.eagle_aux_hidden_state_layer_ids if self.eagle_config else None
        return tuple(self.target_layer_ids or nested or ()) or None


def load_eagle(folder: Path, dtype: torch.dtype = torch.float32) -> EagleHead:
    """The head in ``folder``, frozen, on the CPU; EAGLE-3's if its files have a ``hidden_norm``.

    Raises:
        WeightsError: a file is missing, damaged, misfit or unsupported; the message names it.
    """
    values, names = read_config(folder), tensor_names(folder)
    if any(name.endswith("hidden_norm.weight") for name in names):
        return _load_eagle3(folder, values, names, dtype)
    with loading_errors(folder, "EAGLE head"), torch.device("meta"):
        config = _built(folder, LlamaConfig(**{**values, "num_hidden_layers": 1}))
        head = EagleHead(config, names)
    stored = read_tensors(folder, head.state_dict(), ignored=UNUSED)
    head.load_state_dict({name: tensor.to(dtype) for name, tensor in stored.items()}, assign=True)
    return head.eval().requires_grad_(False)


def _load_eagle3(folder: Path, values: dict[str, Any], names: set[str], dtype: torch.dtype) -> EagleHead:
    """EAGLE-3's head in the layout of its authors, SpecForge, ModelOpt, DeepSpec or speculators."""
    spec = as_config(values, _Eagle3, folder / "config.json")
    base, layout = spec.transformer_layer_config or values, spec.speculators_model_type
    kind, count = base.get("model_type", "llama"), base.get("num_hidden_layers", 1)
    wrong = (
        (layout not in (None, "eagle3"), f"its speculators_model_type is {layout!r}"),
        (layout and spec.norm_before_residual is None, "it lacks norm_before_residual, and heads of both kinds exist"),
        (spec.fc_norm or spec.norm_before_fc or spec.norm_output is bool(layout), "it has the norms of EAGLE 3.1"),
        (kind not in ("llama", "qwen3"), f"its layer is of the family {kind!r}"),
        (count != 1, f"it has {count} layers"),
        (min(spec.read or (0,)) < 0, "it reads the target's embedding"),
    )
    for holds, why in wrong:
        if holds:
            raise _other(folder, why)
    with loading_errors(folder, "EAGLE-3 head"), torch.device("meta"):
        config: Any = _built(folder, (Qwen3Config if kind == "qwen3" else LlamaConfig)(**base))
        head = Eagle3Head(config, spec, names)
    size, drafted = int(config.vocab_size), spec.draft_vocab_size or int(config.vocab_size)
    prefix = "midlayer." if any(name.startswith("midlayer.") for name in names) else "layers.0."
    files = {n.replace("layers.0.", prefix): tensor for n, tensor in head.state_dict().items()}
    stored, head.draft_ids = read_drafter(folder, files, drafted, size)
    if head.draft_ids is not None and head.lm_head is None:
        raise _other(folder, f"it drafts {drafted:,} of {size:,} tokens, but has no lm_head.weight")
    head.load_state_dict({n.replace(prefix, "layers.0."): t.to(dtype) for n, t in stored.items()}, assign=True)
    return head.eval().requires_grad_(False)


def _built(folder: Path, config: Any) -> Any:
    """``config``, if its layers are supported."""
    if why := unsupported_layers(config) or ("it reads a sliding window" if has_sliding_layers(config) else ""):
        raise _other(folder, why)
    return config


def _other(folder: Path, why: str) -> WeightsError:
    return WeightsError(f"The EAGLE head in {short_path(folder)} is not supported: {why}.", hint="Choose another one.")


def save_eagle(head: EagleHead, folder: Path, *, embedding: Tensor | None = None) -> Path:
    """Write ``head`` with the released names: ``config.json`` and bf16 safetensors, in shards below
    9 MB, optionally with the target's ``embedding [V, W]`` as in releases."""
    values = {name: value for name, value in head.config.to_diff_dict().items() if name not in {"dtype", "layer_types"}}
    return write_folder(folder, values, head.state_dict() | ({} if embedding is None else {UNUSED[0]: embedding}))
