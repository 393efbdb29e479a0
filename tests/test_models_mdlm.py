"""The MDLM network against an independent, plain forward pass, and its files."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest
import torch
from checkpoints import save
from safetensors.torch import load_file
from torch import Tensor

from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.models.mdlm import Mdlm, MdlmConfig, load_mdlm
from specdiff_core.schema.errors import WeightsError

V, D, C, N, H, LENGTH = 23, 16, 6, 3, 2, 12
CONFIG = {
    "_name_or_path": "kuleshov-group/mdlm-owt", "architectures": ["MDLM"], "cond_dim": C, "dropout": 0.1,
    "auto_map": {"AutoConfig": "configuration_mdlm.MDLMConfig", "AutoModelForMaskedLM": "modeling_mdlm.MDLM"},
    "hidden_dim": D, "model_length": LENGTH, "model_type": "mdlm", "n_blocks": N, "n_heads": H, "return_dict": False,
    "time_conditioning": False, "torch_dtype": "float32", "transformers_version": "4.38.2", "vocab_size": V,
}  # fmt: skip


def released_tensors() -> dict[str, Tensor]:
    """Random float32 tensors with the released checkpoint's names and shapes, but small."""
    shapes: dict[str, tuple[int, ...]] = {
        "vocab_embed.embedding": (V, D), "sigma_map.mlp.0.weight": (C, 256), "sigma_map.mlp.0.bias": (C,),
        "sigma_map.mlp.2.weight": (C, C), "sigma_map.mlp.2.bias": (C,), "rotary_emb.inv_freq": (D // H // 2,),
        "output_layer.norm_final.weight": (D,), "output_layer.adaLN_modulation.weight": (2 * D, C),
        "output_layer.adaLN_modulation.bias": (2 * D,), "output_layer.linear.weight": (V, D),
        "output_layer.linear.bias": (V,),
    }  # fmt: skip
    block: dict[str, tuple[int, ...]] = {
        "norm1.weight": (D,), "norm2.weight": (D,), "attn_qkv.weight": (3 * D, D), "attn_out.weight": (D, D),
        "mlp.0.weight": (4 * D, D), "mlp.0.bias": (4 * D,), "mlp.2.weight": (D, 4 * D), "mlp.2.bias": (D,),
        "adaLN_modulation.weight": (6 * D, C), "adaLN_modulation.bias": (6 * D,),
    }  # fmt: skip
    shapes |= {f"blocks.{i}.{name}": shape for i in range(N) for name, shape in block.items()}
    generator = torch.Generator().manual_seed(0)
    return {f"backbone.{name}": torch.randn(shape, generator=generator) * 0.4 for name, shape in shapes.items()}


def plain_forward(w: dict[str, Tensor], ids: list[int]) -> Tensor:
    """The forward pass, one token and one head at a time, float64, without the project's code."""
    w = {name.removeprefix("backbone."): tensor.double() for name, tensor in w.items()}

    def silu(x: Tensor) -> Tensor:
        return x / (1 + torch.exp(-x))

    def gelu_tanh(x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        mean = x.mean()
        return (x - mean) / torch.sqrt(((x - mean) ** 2).mean() + 1e-5) * weight

    def rotate(x: Tensor, position: int) -> Tensor:
        half = len(x) // 2
        out = x.clone()
        for k in range(half):
            angle = position * 10000 ** (-2 * k / len(x))
            out[k] = x[k] * math.cos(angle) - x[k + half] * math.sin(angle)
            out[k + half] = x[k + half] * math.cos(angle) + x[k] * math.sin(angle)
        return out

    sigma = 0.0  # forced to 0
    angles = [sigma * math.exp(-math.log(1e4) * k / 128) for k in range(128)]
    embedding = torch.tensor([math.cos(a) for a in angles] + [math.sin(a) for a in angles], dtype=torch.float64)
    hidden = silu(w["sigma_map.mlp.0.weight"] @ embedding + w["sigma_map.mlp.0.bias"])
    c = silu(w["sigma_map.mlp.2.weight"] @ hidden + w["sigma_map.mlp.2.bias"])

    x = [w["vocab_embed.embedding"][i] for i in ids]
    size = D // H
    for i in range(N):
        b = {name.removeprefix(f"blocks.{i}."): t for name, t in w.items() if name.startswith(f"blocks.{i}.")}
        parts = (b["adaLN_modulation.weight"] @ c + b["adaLN_modulation.bias"]).split(D)
        shift_msa, scale_msa, gate_msa, shift_mlp, scale_mlp, gate_mlp = parts
        qkv = [b["attn_qkv.weight"] @ (norm(t, b["norm1.weight"]) * (1 + scale_msa) + shift_msa) for t in x]
        mixed = [torch.zeros(D, dtype=torch.float64) for _ in x]
        for head in range(H):
            cut = slice(head * size, (head + 1) * size)
            q = [rotate(t[:D][cut], n) for n, t in enumerate(qkv)]
            k = [rotate(t[D : 2 * D][cut], n) for n, t in enumerate(qkv)]
            v = [t[2 * D :][cut] for t in qkv]
            for n in range(len(x)):
                scores = torch.stack([q[n] @ other / math.sqrt(size) for other in k])
                weights = torch.exp(scores - scores.max())
                mixed[n][cut] = sum(p * value for p, value in zip(weights / weights.sum(), v, strict=True))
        x = [t + gate_msa * (b["attn_out.weight"] @ m) for t, m in zip(x, mixed, strict=True)]
        for n, t in enumerate(x):
            h = norm(t, b["norm2.weight"]) * (1 + scale_mlp) + shift_mlp
            h = b["mlp.2.weight"] @ gelu_tanh(b["mlp.0.weight"] @ h + b["mlp.0.bias"]) + b["mlp.2.bias"]
            x[n] = t + gate_mlp * h
    shift, scale = (w["output_layer.adaLN_modulation.weight"] @ c + w["output_layer.adaLN_modulation.bias"]).split(D)
    last = [norm(t, w["output_layer.norm_final.weight"]) * (1 + scale) + shift for t in x]
    return torch.stack([w["output_layer.linear.weight"] @ t + w["output_layer.linear.bias"] for t in last])


IDS = [3, 22, 22, 7, 0, 19, 22, 5, 11]


def test_the_network_computes_the_released_forward_pass(tmp_path: Path) -> None:
    tensors = released_tensors()
    save(tmp_path, tensors, CONFIG)
    model = load_mdlm(tmp_path)
    assert model.config.mask_id == V - 1
    expected = plain_forward(tensors, IDS)
    for prepared in (model, model.prepare()):
        with torch.inference_mode():
            logits = prepared(torch.tensor([IDS]))[0]
            window = prepared(torch.tensor([IDS]), first=6)[0]
        torch.testing.assert_close(logits.double(), expected, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(window, logits[6:], atol=1e-5, rtol=1e-5)


def test_save_and_load_round_trip_in_shards(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = MdlmConfig(
        vocab_size=4096, model_length=8, hidden_dim=256, cond_dim=4, n_blocks=6, n_heads=4, mask_token_id=1
    )
    model = Mdlm(config).to(torch.bfloat16).float()  # what bf16 storage keeps exactly
    write_folder(tmp_path, msgspec.structs.asdict(config), model.state_dict())
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1 and all(shard.stat().st_size < 9_000_000 for shard in shards)
    again = load_mdlm(tmp_path)
    assert again.config == config and again.config.mask_id == 1
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name
    stored = {name for shard in shards for name in load_file(shard)}
    assert "backbone.blocks.0.attn_qkv.weight" in stored and all(name.startswith("backbone.") for name in stored)


def test_a_network_that_reads_the_time_is_refused(tmp_path: Path) -> None:
    save(tmp_path, released_tensors(), {**CONFIG, "time_conditioning": True})
    with pytest.raises(WeightsError, match="conditioned on diffusion time"):
        load_mdlm(tmp_path)
