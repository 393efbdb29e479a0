"""The transformer of the target, the autoregressive drafter, EAGLE's layer and the block drafter.
Modules have the names of transformers' Llama, so weights keep their released names.

A function argument (:data:`Attend`) determines what a layer's queries read: a cache, a block, or a
whole text in training. This is the only difference between decoding, drafting and training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PretrainedConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specdiff_core.models.kernels import Product, Separate

Rope = tuple[Tensor, Tensor]  # cos, and sin with its first half negated: ``[B or 1, 1, n, D]`` each
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, q ``[B, H, n, D]``, k and v ``[B, Hkv, n, D]`` of the rows) -> what they read, as q."""
Reach = tuple[int, int]  # how many positions a query reads before and after its own
WHOLE = 32_768  # numbers up to which torch doesn't split work between threads (its grain size)
ROTARY = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary positions with factors independent of the text's length."""
Multiply = Product | Separate
Together = Callable[[Sequence[nn.Linear]], Multiply]
"""Combines projections of the same rows into one product, frozen or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes and kinds of a network's parts."""

    width: int
    inner: int  # of the MLP
    layers: int
    heads: int
    kv_heads: int  # fewer than heads: grouped-query attention
    head_dim: int
    epsilon: float = 1e-6  # of the norms
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    head_norms: bool = False  # q and k are normed, head by head (Qwen3)
    gpt2: bool = False  # LayerNorm, GELU and learned positions for RMSNorm, SwiGLU and RoPE

    @classmethod
    def of(cls, config: PretrainedConfig) -> Shape:
        """Of a configuration of transformers."""
        values: Any = config
        width, heads = int(values.hidden_size), int(values.num_attention_heads)
        kind, gpt2 = values.model_type, values.model_type == "gpt2"
        bias = kind in ("llama", "qwen3") and bool(getattr(values, "attention_bias", False))
        return cls(
            width=width,
            inner=int((values.n_inner or 4 * width) if gpt2 else values.intermediate_size),
            layers=int(values.num_hidden_layers),
            heads=heads,
            kv_heads=int(getattr(values, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(values, "head_dim", None) or width // heads),
            epsilon=float(values.layer_norm_epsilon if gpt2 else values.rms_norm_eps),
            qkv_bias=gpt2 or bias or kind == "qwen2",
            out_bias=gpt2 or bias,
            mlp_bias=gpt2 or (kind == "llama" and bool(getattr(values, "mlp_bias", False))),
            head_norms=kind == "qwen3",
            gpt2=gpt2,
        )

    def norm(self) -> nn.Module:
        """A norm of hidden states."""
        return nn.LayerNorm(self.width, eps=self.epsilon) if self.gpt2 else RMSNorm(self.width, eps=self.epsilon)


class RMSNorm(nn.RMSNorm):
    """x / √(mean x² + ε), times a weight, in fp32 (or fp64). Twice as fast as ``F.rms_norm`` on a
    CPU, where a pass of the embedded target spent an eighth of its time in norms."""

    def forward(self, states: Tensor) -> Tensor:
        return rms_norm(states, self.weight, self.eps or 0.0)


def rms_norm(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """``states [..., D]`` -> x·w / √(Σ (x² + ε) / D), in the precision of ``weight``."""
    size = states.shape[-1]
    upcast = states if states.dtype in (torch.float32, torch.float64) else states.float()
    squares = torch.addcmul(_constant(epsilon / size, upcast.dtype, upcast.device), upcast, upcast, value=1 / size)
    normed = (upcast * squares.sum(-1, keepdim=True).rsqrt_()).mul_(weight)
    return normed if normed.dtype == weight.dtype else normed.to(weight.dtype)


@functools.cache
def _constant(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    with torch.inference_mode(False):  # training may use it too
        return torch.full((1,), value, dtype=dtype, device=device)


def rotary_table(config: PretrainedConfig, positions: Tensor, dtype: torch.dtype) -> Rope:
    """Rotary factors at ``positions [B, n]``, scaled as in ``config``."""
    like = torch.empty(0, device=positions.device, dtype=dtype)
    untyped: Any = config
    cos, sin = LlamaRotaryEmbedding(untyped).to(positions.device)(like, positions)
    first, second = sin.chunk(2, -1)
    return cos[:, None], torch.cat([-first, second], -1)[:, None]


def unsupported_layers(config: PretrainedConfig) -> str:
    """Why the layers of a model with ``config`` are not supported; empty if they are."""
    values: Any = config
    heads = values.num_attention_heads
    kv_heads = getattr(values, "num_key_value_heads", None) or heads
    size = getattr(values, "head_dim", None) or values.hidden_size // heads
    divides = size * heads == values.hidden_size or getattr(values, "head_dim", None) is not None
    if heads % kv_heads or not divides:
        return f"{heads} heads do not split into {kv_heads} groups, or its width into heads"
    if values.model_type == "gpt2":
        variant = values.scale_attn_by_inverse_layer_idx or not values.scale_attn_weights or values.add_cross_attention
        supported = not variant and values.activation_function in ("gelu_new", "gelu_pytorch_tanh")
        return "" if supported else "it is a variant of GPT-2"
    if size % 2:
        return f"its heads have an odd size, {size}"
    if values.hidden_act not in ("silu", "swish"):
        return f"its activation is {values.hidden_act}"
    if unknown := sorted({*(getattr(values, "layer_types", None) or ())} - {"full_attention", "sliding_attention"}):
        return f"its layers are of the kind {unknown[0]!r}"
    rope = getattr(values, "rope_parameters", None) or getattr(values, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ROTARY:
        return f"its rotary positions are of the kind {kind!r}"
    if rope.get("partial_rotary_factor", 1.0) != 1.0:
        return "its rotary positions apply to a part of each head only"
    with torch.device("cpu"):
        cos, sin = rotary_table(config, torch.ones(1, 1), torch.float32)
    return "" if bool((cos + sin).isfinite().all()) else "its rotary positions are not finite"


def has_sliding_layers(config: PretrainedConfig) -> bool:
    """Whether ``layer_types`` includes sliding-window layers."""
    return "sliding_attention" in (getattr(config, "layer_types", None) or ())


def rope_at(rope: Rope, positions: slice | Tensor) -> Rope:
    """The factors at ``positions``, the same for each text or ``[B, n]``."""
    if isinstance(positions, Tensor) and positions.ndim == 2:
        return rope[0][0, 0, positions][:, None], rope[1][0, 0, positions][:, None]
    return rope[0][:, :, positions], rope[1][:, :, positions]


def rotate(states: Tensor, rope: Rope) -> Tensor:
    """Rotary embedding of ``states [B, heads, n, D]``: x·cos + roll(x, D/2)·sin."""
    cos, sin = rope
    if cos.dtype != states.dtype:  # under autocast, states arrive in a lower precision
        cos, sin = cos.to(states.dtype), sin.to(states.dtype)
    return torch.addcmul(states * cos, states.roll(states.shape[-1] // 2, -1), sin)


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of ``q [B, H, n, D]`` over ``k, v [B, Hkv, m, D]``; ``mask [..., n, m]`` is added,
    or True where a key is read. Queries that share a key head are grouped: no key is copied."""
    groups, rows = q.shape[1] // k.shape[1], q.shape[2]
    if groups > 1:
        q = q.reshape(q.shape[0], k.shape[1], groups * rows, q.shape[3])
        if mask is not None and mask.shape[-2] > 1:
            mask = mask.repeat(*[1] * (mask.ndim - 2), groups, 1)
    trained = q.requires_grad and q.device.type == "cpu"
    mixed = _trained(q, k, v, mask) if trained else F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return mixed if groups == 1 else mixed.reshape(q.shape[0], -1, rows, q.shape[3])


def within_reach(queries: Tensor, keys: Tensor, reach: Reach) -> Tensor:
    """Which ``keys [m]`` a layer of limited reach reads at ``queries [n]``, ``[n, m]``."""
    back, ahead = reach
    away = keys[None, :] - queries[:, None]
    return (away >= -back) & (away <= ahead)


def _trained(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """On a CPU, fused attention's backward pass is 1.5× slower than plain products."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    mixed: Tensor = scores.softmax(-1).to(v.dtype) @ v
    return mixed


def causal(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention over a whole text."""
    rows = q.shape[2]
    return attend(q, k, v, torch.ones(rows, rows, dtype=torch.bool, device=q.device).tril())


class Attention(nn.Module):
    """Projections of one layer."""

    q_norm: RMSNorm | None
    k_norm: RMSNorm | None

    def __init__(self, shape: Shape, *, inputs: int = 0) -> None:
        super().__init__()
        self.head_dim, self.epsilon = shape.head_dim, shape.epsilon
        q_width, kv_width, wide = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim, inputs or shape.width
        self.q_proj = nn.Linear(wide, q_width, bias=shape.qkv_bias)
        self.k_proj = nn.Linear(wide, kv_width, bias=shape.qkv_bias)
        self.v_proj = nn.Linear(wide, kv_width, bias=shape.qkv_bias)
        self.o_proj = nn.Linear(q_width, shape.width, bias=shape.out_bias)
        self.q_norm = RMSNorm(self.head_dim, eps=shape.epsilon) if shape.head_norms else None
        self.k_norm = RMSNorm(self.head_dim, eps=shape.epsilon) if shape.head_norms else None


class Heads:
    """Projections of the same rows into heads: first normed and rotated ones, then values.

    Args:
        layers: one, or several that read the same rows.
        kinds: the rotated projections: "qk", or "k" for rows without queries.
    """

    def __init__(self, layers: Sequence[Attention], kinds: str, together: Together) -> None:
        self._size, self._epsilon = layers[0].head_dim, layers[0].epsilon
        rotated = [getattr(layer, f"{kind}_proj") for kind in kinds for layer in layers]
        norms = [getattr(layer, f"{kind}_norm") for kind in kinds for layer in layers]
        counts = [part.out_features // self._size for part in rotated]
        self._rotated = sum(counts)
        self._product = together([*rotated, *(layer.v_proj for layer in layers)])
        gains = [n.weight.expand(count, -1) for n, count in zip(norms, counts, strict=True) if n is not None]
        self._norms = torch.cat(gains)[:, None] if gains else None  # [heads that are rotated, 1, D]

    def __call__(self, hidden: Tensor, rope: Rope | None) -> tuple[Tensor, Tensor]:
        """``hidden [B, n, W]`` -> normed, rotated heads and values, ``[B, heads, n, D]`` each."""
        states = self._product(hidden).view(*hidden.shape[:-1], -1, self._size).transpose(1, 2)
        rotated, values = states[:, : self._rotated], states[:, self._rotated :]
        if self._norms is not None:
            rotated = rms_norm(rotated, self._norms, self._epsilon)
        return rotated if rope is None else rotate(rotated, rope), values


def in_parts(activation: Callable[[Tensor], Tensor], states: Tensor) -> Tensor:
    """``activation`` of ``states [..., n, D]``. On a CPU torch splits large tensors between threads
    within a row and rounds differently at the ends; so, while decoding, only few rows at once."""
    rows = max(1, WHOLE // states.shape[-1])
    if states.shape[-2] <= rows or states.device.type != "cpu" or not torch.is_inference_mode_enabled():
        return activation(states)
    return torch.cat([activation(part) for part in torch.split(states, rows, -2)], -2)


class MLP(nn.Module):
    """SwiGLU, or GPT-2's GELU."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self._gpt2 = shape.gpt2
        if not shape.gpt2:
            self.gate_proj = nn.Linear(shape.width, shape.inner, bias=shape.mlp_bias)
        self.up_proj = nn.Linear(shape.width, shape.inner, bias=shape.mlp_bias)
        self.down_proj = nn.Linear(shape.inner, shape.width, bias=shape.mlp_bias)

    def entrance(self) -> Sequence[nn.Linear]:
        """The projections into the hidden layer."""
        return (self.up_proj,) if self._gpt2 else (self.gate_proj, self.up_proj)

    def middle(self, states: Tensor) -> Tensor:
        if self._gpt2:
            return in_parts(functools.partial(F.gelu, approximate="tanh"), states)
        gate, up = states.chunk(2, -1)
        return in_parts(F.silu, gate) * up


_Parts = tuple[nn.Module, Heads, Multiply, nn.Module, Multiply, Callable[[Tensor], Tensor], Multiply]
"""The steps of a layer, in order."""


class Layer(nn.Module):
    """Pre-norm attention and MLP. Without ``first_norm`` (EAGLE) the attention reads unnormed
    states; ``inputs`` is the width of its input, if it differs."""

    def __init__(self, shape: Shape, index: int, *, first_norm: bool = True, inputs: int = 0) -> None:
        super().__init__()
        self.index = index
        self.self_attn = Attention(shape, inputs=inputs)
        self.mlp = MLP(shape)
        self.input_layernorm = shape.norm() if first_norm else nn.Identity()
        self.post_attention_layernorm = shape.norm()
        self._frozen: _Parts | None = None

    def freeze(self) -> None:
        """Combine products for decoding; see :meth:`Product.of`."""
        self._frozen = self._parts(Product.of)

    def _parts(self, together: Together) -> _Parts:
        attention, mlp = self.self_attn, self.mlp
        heads, out = Heads([attention], "qk", together), together([attention.o_proj])
        up, down = together(mlp.entrance()), together([mlp.down_proj])
        return self.input_layernorm, heads, out, self.post_attention_layernorm, up, mlp.middle, down

    def forward(self, hidden: Tensor, rope: Rope | None, attend: Attend, read: Tensor | None = None) -> Tensor:
        """``hidden [B, n, W]`` -> ``[B, n, W]``; ``read [B, n, inputs]``: read by the attention."""
        first_norm, heads, out, second_norm, up, activation, down = self.parts()
        mixed = self.mix(heads, first_norm(hidden) if read is None else read, rope, attend)
        hidden = out(mixed, hidden)
        return down(activation(up(second_norm(hidden))), hidden)

    def parts(self) -> _Parts:
        """First norm, heads, output projection, second norm, and the MLP's three steps."""
        return self._frozen or self._parts(Separate)

    def mix(self, heads: Heads, states: Tensor, rope: Rope | None, attend: Attend) -> Tensor:
        """The concatenated outputs of the heads for ``states [B, n, W]``."""
        qk, v = heads(states, rope)
        q_heads = qk.shape[1] - v.shape[1]  # heads of q; as many of k as of v
        return attend(self.index, qk[:, :q_heads], qk[:, q_heads:], v).transpose(1, 2).flatten(2)


class CausalLM(nn.Module):
    """A causal language model, for decoding.

    Args:
        config: of a Llama, Mistral, Qwen2, Qwen3 or GPT-2, from transformers.
        context: number of positions.
    """

    layers: Sequence[Layer]
    embed_tokens: Any  # a table in memory, or rows in a file
    lm_head: Any  # a module with the head's rows as its weight; the embedding if tied
    device: torch.device  # this and the following: after freeze()
    dtype: torch.dtype
    head: Product  # final states [..., W] -> logits [..., V]
    _rope: Rope | None  # GPT-2 has none

    def __init__(self, config: PretrainedConfig, *, context: int) -> None:
        super().__init__()
        self.config, self.context = config, context
        self.shape = shape = Shape.of(config)
        vocab = int(config.vocab_size)
        self.embed_tokens = nn.Embedding(vocab, shape.width)
        self.positions = nn.Embedding(int(config.max_position_embeddings), shape.width) if shape.gpt2 else None
        layers = (Layer(shape, index) for index in range(shape.layers))
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as what it holds
        self.norm = shape.norm()
        self.lm_head = nn.Linear(shape.width, vocab, bias=False)

    def freeze(self, load: Callable[[str], None] = lambda prefix: None) -> CausalLM:
        """Prepare for decoding, on the device of the weights.

        Args:
            load: loads the weights with a prefix, such as ``layers.3.``, just before that layer is
                packed, so that there are never two copies of the model; the empty prefix is for
                weights outside layers. By default nothing.
        """
        load("")
        if self.config.tie_word_embeddings:
            self.lm_head = self.embed_tokens
        self.eval().requires_grad_(False)
        self.head = Product(self.lm_head.weight)
        for layer in self.layers:
            load(f"layers.{layer.index}.")
            layer.freeze()
        parameter = next(self.norm.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        positions = torch.arange(self.context, device=self.device)[None]
        self._rope = None if self.shape.gpt2 else rotary_table(self.config, positions, self.dtype)
        return self

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
        """One pass over ``ids [B, n]`` at absolute ``positions`` -> logits ``[B, last or n, V]``, and
        the outputs of ``layers``, ``[B, n, W]`` each.

        Args:
            attend: what each layer's queries read.
            layers: layers whose outputs to return. The last one's is normed, as in transformers.
            last: number of last rows to return logits for; None: all.
            features: unused; a language model reads tokens only.
        """
        hidden = self.embed_tokens(ids)
        if self.positions is not None:
            hidden = hidden + self.positions.weight[positions]
        rope = None if self._rope is None else rope_at(self._rope, positions)
        outputs = {}
        for layer in self.layers:
            hidden = layer(hidden, rope, attend)
            if layer.index in layers:
                outputs[layer.index] = hidden
        end = len(self.layers) - 1
        if last is not None and end not in outputs:
            hidden = hidden[:, hidden.shape[1] - last :]
        outputs[end] = hidden = self.norm(hidden)
        states = hidden if last is None else hidden[:, hidden.shape[1] - last :]
        return self.head(states), [outputs[index] for index in layers]


class DraftModel(nn.Module):
    """What drafters of their own layers have in common."""

    config: Any
    norm: nn.Module  # the last

    @property
    def device(self) -> torch.device:
        return next(self.norm.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.norm.parameters()).dtype

    def rope(self, positions: Tensor, dtype: torch.dtype | None = None) -> Rope:
        """cos and signed sin at absolute ``positions [B, n]``, for all heads."""
        return rotary_table(self.config, positions, dtype or self.dtype)


class Vocabulary(NamedTuple):
    """The parts of a target that a drafter with the same vocabulary uses."""

    embed: nn.Module  # ids [...] -> [..., W]
    output: nn.Module  # its weight holds the rows of the output head
    head: Callable[[Tensor], Tensor]  # states [..., W] -> logits [..., V]

    def read_embedding(self) -> Tensor:
        """The whole table ``[V, W]``, possibly read from disk at every call."""
        return cast("Tensor", self.embed.weight).detach()

    def read_rows(self) -> Tensor:
        """All rows of the output head, ``[V, W]``; see :meth:`read_embedding`."""
        return cast("Tensor", self.output.weight).detach()


def vocabulary(model: Any) -> Vocabulary:
    """The vocabulary of a loaded model, of this lab or of transformers."""
    if isinstance(model, CausalLM):
        return Vocabulary(model.embed_tokens, model.lm_head, model.head)
    head = model.get_output_embeddings()
    return Vocabulary(model.get_input_embeddings(), head, head)
