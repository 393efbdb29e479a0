"""The network of MDLM (arXiv 2406.07524), with names and shapes of ``kuleshov-group/mdlm-owt``.

It maps token ids to raw logits; masks, schedules and SUBS are left to its users. Written from the
released checkpoint's layout; attention is SDPA, so it runs on any device."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.checkpoints.folders import RELEASED, Id, Size, as_config, read_config, short_path
from specdiff_core.checkpoints.reading import read_tensors
from specdiff_core.models.kernels import Product
from specdiff_core.models.network import Rope, attend, rotate
from specdiff_core.schema.errors import WeightsError

FREQUENCIES = 256  # width of the timestep embedding
UNUSED = ("backbone.rotary_emb.inv_freq",)  # a buffer that follows from the head size


class MdlmConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of the released ``config.json``, by their own names.

    ``dropout`` is not used. ``mask_token_id`` is this project's; by default it is the last id."""

    vocab_size: Size
    model_length: Size
    hidden_dim: Size
    cond_dim: Size
    n_blocks: Size
    n_heads: Size
    dropout: float = 0.1
    time_conditioning: bool = False
    mask_token_id: Id | None = None

    @property
    def mask_id(self) -> int:
        return self.vocab_size - 1 if self.mask_token_id is None else self.mask_token_id

    @property
    def head_dim(self) -> int:
        return self.hidden_dim // self.n_heads

    @classmethod
    def from_json(cls, values: dict[str, Any], path: Path) -> MdlmConfig:
        """Read a ``config.json``; other keys are ignored.

        Raises:
            WeightsError: a field is missing, impossible, or not supported.
        """
        config = as_config(values, cls, path)
        wrong = ""
        if config.time_conditioning:
            wrong = "this checkpoint is conditioned on diffusion time, which drafting does not use"
        elif config.hidden_dim % config.n_heads or config.head_dim % 2:
            wrong = f"{config.hidden_dim} channels do not split into {config.n_heads} heads of even size"
        elif config.mask_id >= config.vocab_size:
            wrong = f"mask_token_id {config.mask_id} is outside the vocabulary of {config.vocab_size}"
        if wrong:
            raise WeightsError(f"{short_path(path)}: {wrong}.", hint=RELEASED)
        return config


Modulation = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""One block's constants, float32 ``[D]`` each: of the attention, then of the MLP, the norm's
effective weight and bias, and the gate."""


class Constants(NamedTuple):
    """The constants at σ = 0, and the rotary tables."""

    blocks: tuple[Modulation, ...]
    final_weight: Tensor  # [D]
    final_bias: Tensor  # [D]
    rope: Rope  # [model_length, head_dim] each, in the dtype of the weights


def _linear32(layer: nn.Module, x: Tensor) -> Tensor:
    """A linear layer in float32, whatever its storage."""
    assert isinstance(layer, nn.Linear)
    return F.linear(x, layer.weight.float(), layer.bias.float())


def _norm(x: Tensor, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> Tensor:
    """Modulated LayerNorm in float32; ``weight``: w·(1 + scale), ``bias``: the shift."""
    return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5).to(dtype)


class _Block(nn.Module):
    def __init__(self, config: MdlmConfig) -> None:
        super().__init__()
        width = config.hidden_dim
        self.heads = config.n_heads
        self.norm1 = nn.LayerNorm(width, bias=False)
        self.attn_qkv = nn.Linear(width, 3 * width, bias=False)  # all q, then all k, then all v
        self.attn_out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.adaLN_modulation = nn.Linear(config.cond_dim, 6 * width)
        self._frozen: tuple[Product, ...] = ()

    def modulation(self, c: Tensor) -> Modulation:
        """``c [cond_dim]`` -> this block's constants."""
        shift1, scale1, gate1, shift2, scale2, gate2 = _linear32(self.adaLN_modulation, c).chunk(6)
        weight1, weight2 = self.norm1.weight.float(), self.norm2.weight.float()
        return weight1 * (1 + scale1), shift1, gate1, weight2 * (1 + scale2), shift2, gate2

    def freeze(self) -> None:
        """Packed products for decoding."""
        up, _, down = self.mlp
        assert isinstance(up, nn.Linear) and isinstance(down, nn.Linear)
        self._frozen = tuple(Product.of([part]) for part in (self.attn_qkv, self.attn_out, up, down))

    def forward(self, x: Tensor, modulation: Modulation, rope: Rope, first: int) -> Tensor:
        """``x [B, L, D]`` float32 -> ``[B, L − first, D]``, from position ``first`` on."""
        dtype = self.attn_qkv.weight.dtype
        qkv, out, up, down = self._frozen or (self.attn_qkv, self.attn_out, self.mlp[0], self.mlp[2])
        weight1, bias1, gate1, weight2, bias2, gate2 = modulation
        h = _norm(x, weight1, bias1, dtype)
        heads = qkv(h).view(*h.shape[:-1], 3 * self.heads, -1).transpose(1, 2)  # [B, 3·H, L, d]
        q, k = rotate(heads[:, : 2 * self.heads], rope).chunk(2, 1)
        mixed = attend(q[:, :, first:], k, heads[:, 2 * self.heads :])  # in both directions
        x = torch.addcmul(x[:, first:], gate1, out(mixed.transpose(1, 2).flatten(2)).float())
        h = _norm(x, weight2, bias2, dtype)
        return torch.addcmul(x, gate2, down(self.mlp[1](up(h))).float())


class _Backbone(nn.Module):
    vocab_embed: Any  # this and the following: torch's containers, with the released names
    sigma_map: Any
    output_layer: Any
    blocks: Sequence[_Block]

    def __init__(self, config: MdlmConfig) -> None:
        super().__init__()
        width, cond = config.hidden_dim, config.cond_dim
        embedding = nn.Parameter(torch.empty(config.vocab_size, width))
        self.vocab_embed = nn.ParameterDict({"embedding": nn.init.normal_(embedding, std=0.02)})
        steps = nn.Sequential(nn.Linear(FREQUENCIES, cond), nn.SiLU(), nn.Linear(cond, cond))
        self.sigma_map = nn.ModuleDict({"mlp": steps})
        blocks = (_Block(config) for _ in range(config.n_blocks))
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]  # typed as what it holds
        head = {"norm_final": nn.LayerNorm(width, bias=False), "adaLN_modulation": nn.Linear(cond, 2 * width)}
        self.output_layer = nn.ModuleDict({**head, "linear": nn.Linear(width, config.vocab_size)})


class Mdlm(nn.Module):
    """A bidirectional transformer with adaptive LayerNorm, whose condition is constant."""

    def __init__(self, config: MdlmConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = _Backbone(config)
        self._prepared: Constants | None = None
        self._head: Product | None = None

    @property
    def device(self) -> torch.device:
        return torch.device(self.backbone.vocab_embed.embedding.device)

    def constants(self) -> Constants:
        """All modulation vectors at σ = 0 and the rotary tables, float32, on the model's device."""
        device, half = self.device, self.config.head_dim // 2
        with torch.autocast(device.type, enabled=False):
            # At σ = 0 the embedding [cos(σ·f), sin(σ·f)] is ones, then zeros.
            embedding = (torch.arange(FREQUENCIES, device=device) < FREQUENCIES // 2).float()[None]
            first, _, second = self.backbone.sigma_map.mlp
            c = F.silu(_linear32(second, F.silu(_linear32(first, embedding))))[0]
            blocks = tuple(block.modulation(c) for block in self.backbone.blocks)
            bias, scale = _linear32(self.backbone.output_layer.adaLN_modulation, c).chunk(2)
            weight = self.backbone.output_layer.norm_final.weight.float() * (1 + scale)
            steps = torch.arange(half, dtype=torch.float32, device=device) / half
            positions = torch.arange(self.config.model_length, dtype=torch.float32, device=device)
            angles = positions[:, None] * 10_000.0**-steps  # [model_length, half]
        cos, sin = angles.cos(), angles.sin()
        return Constants(blocks, weight, bias, (torch.cat((cos, cos), -1), torch.cat((-sin, sin), -1)))

    def prepare(self) -> Mdlm:
        """Freeze for inference. Call after moving the model to its device."""
        self.eval().requires_grad_(False)
        with torch.inference_mode():
            self._prepared = self.constants()
        for block in self.backbone.blocks:
            block.freeze()
        self._head = Product.of([self.backbone.output_layer.linear])
        return self

    def forward(self, ids: Tensor, *, first: int = 0) -> Tensor:
        """Raw logits ``[B, L − first, V]``; slot i predicts token i; the mask keeps its logit.

        Args:
            ids: ``[B, L]`` int64, L at most ``model_length``.
            first: logits are computed for positions ``first`` and later.
        """
        constants = self._prepared or self.constants()
        length = ids.shape[1]
        rope = (constants.rope[0][:length], constants.rope[1][:length])
        x = self.backbone.vocab_embed.embedding[ids].float()
        last = len(self.backbone.blocks) - 1
        for index, (block, modulation) in enumerate(zip(self.backbone.blocks, constants.blocks, strict=True)):
            x = block(x, modulation, rope, first if index == last else 0)
        head = self.backbone.output_layer.linear
        states = _norm(x, constants.final_weight, constants.final_bias, head.weight.dtype)
        logits: Tensor = (self._head or head)(states)
        return logits


def load_mdlm(folder: Path) -> Mdlm:
    """Load a folder in the released format, in float32 on the CPU.

    Raises:
        WeightsError: a file is missing, truncated or misfit; the message names it.
    """
    config = MdlmConfig.from_json(read_config(folder), folder / "config.json")
    with torch.device("meta"):
        model = Mdlm(config)
    tensors = read_tensors(folder, model.state_dict(), ignored=UNUSED)
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, assign=True)
    return model.eval()
